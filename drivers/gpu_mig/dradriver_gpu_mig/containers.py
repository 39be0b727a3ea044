"""Interface to the container edits, and the implementation for simulated cards.

The real implementation is in `container`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

import msgspec

import dradriver as dra
from dradriver_gpu_mig.card import Gpu, MigDevice, System

__all__ = ["Containers", "OfferedEdits", "SimulatedContainers", "drop_repeated_hooks", "has_graphics"]

_MAJOR: Final = 195
"""Major number of the GPUs' device nodes, assigned by Linux."""
_CONTROL: Final = 255


@dataclass(frozen=True, slots=True)
class OfferedEdits:
    """Container edits, and what a container must do without.

    Attributes:
        edits: the edits.
        missing: for each thing that the node does not offer, one sentence for users.
    """

    edits: dra.ContainerEdits = field(default_factory=dra.ContainerEdits)
    missing: tuple[str, ...] = ()

    def __or__(self, other: "OfferedEdits") -> "OfferedEdits":
        """Return both; what both miss is listed once."""
        missing: Iterable[str] = dict.fromkeys((*self.missing, *other.missing))
        return OfferedEdits(self.edits | other.edits, tuple(missing))


def has_graphics(profile: str) -> bool:
    """Return whether a MIG profile supports graphics, for example `1g.24gb+gfx`.

    Source: NVIDIA's MIG User Guide, "GPU Instance Profiles" of the RTX PRO 6000.
    """
    return "gfx" in profile.partition("+")[2].replace("+", ",").split(",")


def drop_repeated_hooks(
    prepared: Mapping[dra.AllocatedDevice, dra.PreparedDevice],
) -> dict[dra.AllocatedDevice, dra.PreparedDevice]:
    """Keep a hook only in the first device of a request that has it.

    A container gets all devices of a request or none, and each device has the edits that all devices share. Its
    creation would otherwise run the same hooks once for each device.

    Args:
        prepared: the devices of a claim, in the order of the allocation.
    """
    known: dict[str, set[dra.Hook]] = {}
    return {
        device: _drop(answer, known.setdefault(device.request, set())) for device, answer in prepared.items()
    }


def _drop(answer: dra.PreparedDevice, known: set[dra.Hook]) -> dra.PreparedDevice:
    hooks = [hook for hook in answer.edits.hooks if hook not in known]
    known.update(hooks)
    return replace(answer, edits=msgspec.structs.replace(answer.edits, hooks=tuple(hooks)))


class Containers(Protocol):
    """Returns the container edits for devices.

    Blocking. `container.GpuContainers` is the real implementation.
    """

    def common(self, system: System) -> OfferedEdits:
        """Return the edits for every container: control nodes, libraries and programs of the driver."""

    def gpu(self, gpu: Gpu) -> OfferedEdits:
        """Return the device nodes of a whole GPU."""

    def mig(self, gpu: Gpu, device: MigDevice, profile: str) -> OfferedEdits:
        """Return the device nodes of a MIG device of a profile, such as `1g.24gb+gfx`."""

    def monitor(self) -> OfferedEdits:
        """Return the device node for monitoring all MIG devices of the node, for admin access."""


class SimulatedContainers(Containers):
    """Returns device nodes that have no driver, and one environment variable for each device."""

    def common(self, system: System) -> OfferedEdits:  # noqa: ARG002 - as the real one
        """Return the control node."""
        return OfferedEdits(dra.ContainerEdits(device_nodes=[_node("/dev/nvidiactl", _CONTROL)]))

    def gpu(self, gpu: Gpu) -> OfferedEdits:
        """Return the node of the GPU."""
        return self._edits(gpu, gpu.pci_address, gpu.uuid)

    def mig(self, gpu: Gpu, device: MigDevice, profile: str) -> OfferedEdits:  # noqa: ARG002 - as the real one
        """Return the node of the GPU. Simulated MIG devices have no capability nodes."""
        return self._edits(gpu, f"{gpu.pci_address}_gi{device.gpu_instance}", device.uuid)

    def monitor(self) -> OfferedEdits:
        """Return nothing. Simulated MIG devices have no capability nodes."""
        return OfferedEdits()

    def _edits(self, gpu: Gpu, label: str, uuid: str) -> OfferedEdits:
        name = "".join(letter if letter.isalnum() else "_" for letter in label.upper())
        minor = gpu.minor or 0
        node = _node(f"/dev/nvidia{minor}", minor)
        return OfferedEdits(dra.ContainerEdits({f"SIMULATED_GPU_{name}": uuid}, [node]))


def _node(path: str, minor: int) -> dra.DeviceNode:
    return dra.DeviceNode(path, type="c", major=_MAJOR, minor=minor, permissions="rw")
