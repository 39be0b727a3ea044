"""What a container gets of a device: the door to `container`, and its stand-in where cards are simulated."""

from typing import Final, Protocol

import dradriver as dra
from dradriver_gpu_mig.card import Gpu, MigDevice, System

__all__ = ["Containers", "SimulatedContainers"]

_MAJOR: Final = 195
"""Of the GPUs' device nodes, assigned by Linux."""
_CONTROL: Final = 255


class Containers(Protocol):
    """Knows what a container needs to use a device. Blocking; `container.GpuContainers` is the real one."""

    def common(self, system: System) -> dra.ContainerEdits:
        """What every container needs: control nodes, libraries and programs of the driver."""

    def gpu(self, gpu: Gpu) -> dra.ContainerEdits:
        """The device nodes of a whole GPU."""

    def mig(self, gpu: Gpu, device: MigDevice) -> dra.ContainerEdits:
        """The device nodes of a MIG device."""


class SimulatedContainers:
    """Device nodes that no driver answers, and a variable for each device to be seen in a container."""

    def common(self, system: System) -> dra.ContainerEdits:  # noqa: ARG002 - as the real one
        """The control node."""
        return dra.ContainerEdits(device_nodes=[_node("/dev/nvidiactl", _CONTROL)])

    def gpu(self, gpu: Gpu) -> dra.ContainerEdits:
        """The node of the GPU."""
        return self._edits(gpu, gpu.pci_address, gpu.uuid)

    def mig(self, gpu: Gpu, device: MigDevice) -> dra.ContainerEdits:
        """The node of the GPU; there are no capabilities to be had."""
        return self._edits(gpu, f"{gpu.pci_address}_gi{device.gpu_instance}", device.uuid)

    def _edits(self, gpu: Gpu, label: str, uuid: str) -> dra.ContainerEdits:
        name = "".join(letter if letter.isalnum() else "_" for letter in label.upper())
        minor = gpu.minor or 0
        return dra.ContainerEdits({f"SIMULATED_GPU_{name}": uuid}, [_node(f"/dev/nvidia{minor}", minor)])


def _node(path: str, minor: int) -> dra.DeviceNode:
    return dra.DeviceNode(path, type="c", major=_MAJOR, minor=minor, permissions="rw")
