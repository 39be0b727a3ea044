"""The measured drivers: eight devices, one environment variable for each, and no hardware."""

from collections.abc import Iterable, Mapping

import dradriver as dra


class BenchDriver(dra.Driver):
    """A driver with the least possible work, so that the figures are those of the SDK."""

    name = "bench.example.com"

    async def discover(self) -> Iterable[dra.Device]:
        """Return eight devices."""
        return _devices()

    async def prepare(self, claim: dra.Claim) -> Mapping[dra.AllocatedDevice, dra.ContainerEdits]:
        """Return one variable for each device."""
        return _edits(claim)


class PlainBenchDriver(dra.Driver):
    """The same driver with plain methods, which the SDK calls in a thread."""

    name = "bench-plain.example.com"

    def discover(self) -> Iterable[dra.Device]:
        """Return eight devices."""
        return _devices()

    def prepare(self, claim: dra.Claim) -> Mapping[dra.AllocatedDevice, dra.ContainerEdits]:
        """Return one variable for each device."""
        return _edits(claim)


def _devices() -> Iterable[dra.Device]:
    return [dra.Device(f"device-{index}", {"index": index}) for index in range(8)]


def _edits(claim: dra.Claim) -> Mapping[dra.AllocatedDevice, dra.ContainerEdits]:
    return {device: dra.ContainerEdits({"PEER_DEVICE": device.name}) for device in claim.devices}
