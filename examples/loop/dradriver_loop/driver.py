"""The driver class: it lists the devices and returns the edits of a container. The SDK does everything else."""

from collections.abc import Mapping

import dradriver as dra
from dradriver_loop.hardware import find_loops, make_loops


class LoopConfig(dra.Config):
    """Access of a container to its loop device. Users write it under `opaque.parameters`."""

    api_version = "loop.example.com/v1"
    kind = "LoopConfig"
    read_only: bool = False


class LoopDriver(dra.Driver):
    """Offers /dev/loop0, /dev/loop1, ... as the devices `loop-0`, `loop-1`, ..."""

    name = "loop.example.com"
    configs = (LoopConfig,)

    def discover(self) -> list[dra.Device]:
        make_loops(free=8)
        return [
            dra.Device(
                f"loop-{loop.index}",
                {"index": loop.index, "path": loop.path, "backed": loop.backed},
                {"size": loop.size},
            )
            for loop in find_loops()
        ]

    def prepare(self, claim: dra.Claim) -> Mapping[dra.AllocatedDevice, dra.ContainerEdits]:
        return {device: self._make_edits(device) for device in claim.devices}

    def _make_edits(self, device: dra.AllocatedDevice) -> dra.ContainerEdits:
        path = f"/dev/{device.name.replace('-', '')}"
        config = device.config(LoopConfig) or LoopConfig()
        node = dra.DeviceNode(path, permissions="r" if config.read_only else "rw")
        return dra.ContainerEdits(env={"LOOP_DEVICE": path}, device_nodes=[node])
