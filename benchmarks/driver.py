"""The driver that is measured: eight devices, an environment variable each, and no hardware."""

from collections.abc import Iterable, Mapping

import dradriver as dra


class BenchDriver(dra.Driver):
    """As little work as a driver can do, so that what is measured is the SDK."""

    name = "bench.example.com"

    async def discover(self) -> Iterable[dra.Device]:
        """Eight devices."""
        return [dra.Device(f"device-{index}", {"index": index}) for index in range(8)]

    async def prepare(self, claim: dra.Claim) -> Mapping[dra.AllocatedDevice, dra.ContainerEdits]:
        """One variable a device."""
        return {device: dra.ContainerEdits({"PEER_DEVICE": device.name}) for device in claim.devices}


if __name__ == "__main__":
    dra.run(BenchDriver)
