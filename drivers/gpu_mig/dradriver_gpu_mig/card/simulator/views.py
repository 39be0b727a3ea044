"""Functions that read and change the state of simulated hardware."""

import uuid
from typing import Final

from dradriver_gpu_mig.card.errors import GpuNotFoundError, InstanceNotFoundError, NotSupportedError
from dradriver_gpu_mig.card.simulator.catalog import CATALOG, MIB, GpuModel
from dradriver_gpu_mig.card.simulator.state import GpuNodeState, GpuState, InstanceState, NumberedEvent
from dradriver_gpu_mig.card.values import (
    EventKind,
    Fabric,
    Gpu,
    GpuInstance,
    MigDevice,
    MigMode,
    Placement,
    Virtualization,
)

__all__ = [
    "add_event",
    "apply_pending_mig_mode",
    "find_gpu",
    "find_instance",
    "make_gpu",
    "make_uuid",
    "require_mig_enabled",
    "to_gpu",
    "to_gpu_instance",
    "to_mig_device",
]

_NAMESPACE: Final = uuid.UUID("0d5f2e0a-59a3-5a0e-9a43-6a2b7d1c6e11")
_KEPT_EVENTS: Final = 256


def make_uuid(name: str) -> uuid.UUID:
    """Return a UUID that is made from a name. The same name always gives the same UUID."""
    return uuid.uuid5(_NAMESPACE, name)


def make_gpu(model: str, uuid: str, *, mig: bool) -> GpuState:
    """Return a GPU in its initial state. MIG is on only if the model supports it."""
    mig_enabled = mig and bool(CATALOG[model].profiles)
    return GpuState(model, uuid, mig=mig_enabled, pending=mig_enabled)


def find_gpu(state: GpuNodeState, gpu: str) -> GpuState:
    """Return the GPU with a UUID.

    Raises:
        GpuNotFoundError: no GPU has this UUID.
    """
    for card in state.gpus:
        if card.uuid == gpu:
            return card
    raise GpuNotFoundError(f"GPU {gpu} does not exist", code=6)


def require_mig_enabled(card: GpuState) -> None:
    """Check that MIG is on.

    Raises:
        NotSupportedError: MIG is off.
    """
    if not card.mig:
        raise NotSupportedError(f"MIG is off on {card.uuid}")


def find_instance(card: GpuState, number: int) -> InstanceState:
    """Return the GPU instance with an ID.

    Raises:
        InstanceNotFoundError: no GPU instance has this ID.
    """
    if number not in card.instances:
        raise InstanceNotFoundError(f"GPU instance {number} of {card.uuid} does not exist")
    return card.instances[number]


def apply_pending_mig_mode(card: GpuState) -> None:
    """Switch to the pending MIG mode. All instances are lost."""
    card.mig, card.instances = card.pending, {}


def add_event(
    state: GpuNodeState,
    kind: EventKind,
    gpu: str,
    xid: int | None = None,
    gpu_instance: int | None = None,
    compute_instance: int | None = None,
) -> None:
    """Add an event. Only the last 256 events are kept."""
    state.event_count += 1
    event = NumberedEvent(state.event_count, kind, gpu, xid, gpu_instance, compute_instance)
    state.events = [*state.events, event][-_KEPT_EVENTS:]


def to_gpu(index: int, card: GpuState, count: int) -> Gpu:
    """Return a GPU as hardware reports it. The first half of all GPUs is on the first of two sockets."""
    model, bus = CATALOG[card.model], 7 + 8 * index
    return Gpu(
        index=index,
        uuid=card.uuid,
        minor=index,
        pci_address=f"0000:{bus:02x}:00.0",
        name=model.name,
        brand=model.brand,
        architecture=model.architecture,
        compute_capability=model.compute_capability,
        memory=model.memory * MIB,
        mig=MigMode(card.mig, card.pending) if model.profiles else None,
        pcie_root=f"pci0000:{bus & 0xF0:02x}",
        numa_node=index * 2 // count,
        virtualization=Virtualization(card.virtualization),
        addressing_mode=card.addressing_mode,
        fabric=None if card.clique_id is None else Fabric(card.cluster_uuid, card.clique_id),
    )


def to_gpu_instance(model: GpuModel, number: int, instance: InstanceState) -> GpuInstance:
    """Return a GPU instance as hardware reports it."""
    size = model.profiles_by_id[instance.profile].size
    return GpuInstance(number, instance.profile, Placement(instance.start, size))


def to_mig_device(gpu: str, gpu_instance: int, compute_instance: int) -> MigDevice:
    """Return a MIG device. As on a real card, an instance has the same UUID each time it is created."""
    name = make_uuid(f"{gpu}/{gpu_instance}/{compute_instance}")
    return MigDevice(f"MIG-{name}", gpu_instance, compute_instance)
