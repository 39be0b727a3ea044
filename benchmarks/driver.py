"""The measured driver: eight devices, one environment variable for each, and no hardware."""

from collections.abc import Iterable, Mapping

import dradriver as dra


class BenchDriver(dra.Driver):
    """A driver with the least possible work, so that the figures are those of the SDK."""

    name = "bench.example.com"

    async def discover(self) -> Iterable[dra.Device]:
        """Return eight devices."""
        return [dra.Device(f"device-{index}", {"index": index}) for index in range(8)]

    async def prepare(self, claim: dra.Claim) -> Mapping[dra.AllocatedDevice, dra.ContainerEdits]:
        """Return one variable for each device."""
        return {device: dra.ContainerEdits({"PEER_DEVICE": device.name}) for device in claim.devices}


if __name__ == "__main__":
    dra.run(BenchDriver)
