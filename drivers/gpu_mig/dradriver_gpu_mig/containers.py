"""Interface to the container edits, and the implementation for simulated cards.

The real implementation is in `container`.
"""

from typing import Final, Protocol

import dradriver as dra
from dradriver_gpu_mig.card import Gpu, MigDevice, System

__all__ = ["Containers", "SimulatedContainers"]

_MAJOR: Final = 195
"""Major number of the GPUs' device nodes, assigned by Linux."""
_CONTROL: Final = 255


class Containers(Protocol):
    """Returns the container edits for devices.

    Blocking. `container.GpuContainers` is the real implementation.
    """

    def common(self, system: System) -> dra.ContainerEdits:
        """Return the edits for every container: control nodes, libraries and programs of the driver."""

    def gpu(self, gpu: Gpu) -> dra.ContainerEdits:
        """Return the device nodes of a whole GPU."""

    def mig(self, gpu: Gpu, device: MigDevice) -> dra.ContainerEdits:
        """Return the device nodes of a MIG device."""


class SimulatedContainers(Containers):
    """Returns device nodes that have no driver, and one environment variable for each device."""

    def common(self, system: System) -> dra.ContainerEdits:  # noqa: ARG002 - as the real one
        """Return the control node."""
        return dra.ContainerEdits(device_nodes=[_node("/dev/nvidiactl", _CONTROL)])

    def gpu(self, gpu: Gpu) -> dra.ContainerEdits:
        """Return the node of the GPU."""
        return self._edits(gpu, gpu.pci_address, gpu.uuid)

    def mig(self, gpu: Gpu, device: MigDevice) -> dra.ContainerEdits:
        """Return the node of the GPU. Simulated MIG devices have no capability nodes."""
        return self._edits(gpu, f"{gpu.pci_address}_gi{device.gpu_instance}", device.uuid)

    def _edits(self, gpu: Gpu, label: str, uuid: str) -> dra.ContainerEdits:
        name = "".join(letter if letter.isalnum() else "_" for letter in label.upper())
        minor = gpu.minor or 0
        return dra.ContainerEdits({f"SIMULATED_GPU_{name}": uuid}, [_node(f"/dev/nvidia{minor}", minor)])


def _node(path: str, minor: int) -> dra.DeviceNode:
    return dra.DeviceNode(path, type="c", major=_MAJOR, minor=minor, permissions="rw")
