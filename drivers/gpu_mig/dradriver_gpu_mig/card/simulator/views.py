"""Functions that read and change the state of simulated hardware."""

import uuid
from typing import Final

from dradriver_gpu_mig.card.errors import GpuNotFoundError, InstanceNotFoundError, NotSupportedError
from dradriver_gpu_mig.card.simulator.catalog import CATALOG, MIB, CardModel
from dradriver_gpu_mig.card.simulator.state import GpuState, InstanceState, NodeState, Told
from dradriver_gpu_mig.card.values import EventKind, Gpu, GpuInstance, MigDevice, MigMode, Placement

__all__ = [
    "apply_pending",
    "find_card",
    "find_instance",
    "gpu_instance_of",
    "gpu_of",
    "mig_device_of",
    "new_gpu",
    "require_mig",
    "stable_uuid",
    "tell",
]

_NAMESPACE: Final = uuid.UUID("0d5f2e0a-59a3-5a0e-9a43-6a2b7d1c6e11")
_KEPT_EVENTS: Final = 256


def stable_uuid(words: str) -> uuid.UUID:
    """Return the same UUID for the same words."""
    return uuid.uuid5(_NAMESPACE, words)


def new_gpu(model: str, uuid: str, *, mig: bool) -> GpuState:
    """Return a GPU in its first state. MIG is on only if the model supports it."""
    divided = mig and bool(CATALOG[model].profiles)
    return GpuState(model, uuid, mig=divided, pending=divided)


def find_card(state: NodeState, gpu: str) -> GpuState:
    """Return the GPU with a UUID.

    Raises:
        GpuNotFoundError: there is none.
    """
    for card in state.gpus:
        if card.uuid == gpu:
            return card
    raise GpuNotFoundError(f"there is no GPU {gpu}", code=6)


def require_mig(card: GpuState) -> None:
    """Check that MIG is on.

    Raises:
        NotSupportedError: MIG is off.
    """
    if not card.mig:
        raise NotSupportedError(f"MIG is off on {card.uuid}")


def find_instance(card: GpuState, number: int) -> InstanceState:
    """Return the GPU instance with an ID.

    Raises:
        InstanceNotFoundError: there is none.
    """
    if number not in card.instances:
        raise InstanceNotFoundError(f"there is no GPU instance {number} on {card.uuid}")
    return card.instances[number]


def apply_pending(card: GpuState) -> None:
    """Switch to the pending MIG mode. All instances are lost."""
    card.mig, card.instances = card.pending, {}


def tell(
    state: NodeState,
    kind: EventKind,
    gpu: str,
    xid: int | None = None,
    gpu_instance: int | None = None,
    compute_instance: int | None = None,
) -> None:
    """Add an event. Only the last 256 events are kept."""
    state.told += 1
    told = Told(state.told, kind, gpu, xid, gpu_instance, compute_instance)
    state.events = [*state.events, told][-_KEPT_EVENTS:]


def gpu_of(index: int, card: GpuState, count: int) -> Gpu:
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
    )


def gpu_instance_of(model: CardModel, number: int, instance: InstanceState) -> GpuInstance:
    """Return a GPU instance as hardware reports it."""
    size = model.by_id[instance.profile].size
    return GpuInstance(number, instance.profile, Placement(instance.start, size))


def mig_device_of(gpu: str, gpu_instance: int, compute_instance: int) -> MigDevice:
    """Return a MIG device. As on a real card, an instance has the same UUID each time it is created."""
    name = stable_uuid(f"{gpu}/{gpu_instance}/{compute_instance}")
    return MigDevice(f"MIG-{name}", gpu_instance, compute_instance)
