"""Simulated cards behind the door that real ones are behind."""

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Literal, TypeAlias

from drivers.gpu_mig.card.errors import (
    DriverNotLoadedError,
    GpuLostError,
    InstanceNotFoundError,
    InsufficientResourcesError,
    InUseError,
    InvalidArgumentError,
    NotSupportedError,
)
from drivers.gpu_mig.card.simulator.catalog import CATALOG, MIB, CardModel
from drivers.gpu_mig.card.simulator.rules import instance_id, obstacle
from drivers.gpu_mig.card.simulator.state import (
    GpuState,
    InstanceState,
    MemoryStore,
    NodeState,
    ProcessState,
    Store,
    Told,
)
from drivers.gpu_mig.card.values import (
    ComputeInstance,
    ComputeMode,
    Event,
    EventKind,
    Gpu,
    GpuInstance,
    MigDevice,
    MigMode,
    Placement,
    Process,
    Profile,
    System,
    TimeSlice,
)

__all__ = ["Hook", "SimulatedHardware"]

Moment: TypeAlias = Literal["before", "after"]
Hook: TypeAlias = Callable[[str, Moment], None]
"""Called with the name of each call before it takes effect, and after: what it raises is the call's answer."""

_NAMESPACE: Final = uuid.UUID("0d5f2e0a-59a3-5a0e-9a43-6a2b7d1c6e11")
_KEPT_EVENTS: Final = 256
_LOOK: Final = 0.05
"""Seconds between two looks for an event, which may come from another process."""


def _pass(_call: str, _moment: Moment) -> None:
    """No fault."""


class SimulatedHardware:
    """GPUs of the catalog.

    Args:
        models: one name of the catalog a GPU; what the store holds already wins.
        store: where the state is; with a `FileStore` it outlives the process and is seen by others.
        node: makes the UUIDs of one node other than those of another; the same node has the same always.
        mig: whether MIG is on at first, where the card can.
        hook: faults, for tests.
    """

    def __init__(
        self,
        models: Sequence[str] = ("a100-40",),
        *,
        store: Store | None = None,
        node: str = "node",
        mig: bool = True,
        hook: Hook = _pass,
    ) -> None:
        self.hook = hook
        self._store = store or MemoryStore()
        self._new = [
            GpuState(model, f"GPU-{uuid.uuid5(_NAMESPACE, f'{node}/{index}')}", mig=mig, pending=mig)
            for index, model in enumerate(models)
        ]
        self._heard: int | None = None

    def open(self) -> None:
        """See `Hardware`."""
        with self._call("open") as state:
            self._heard = state.told

    def close(self) -> None:
        """See `Hardware`."""
        self._heard = None

    def system(self) -> System:
        """See `Hardware`."""
        with self._call("system"):
            return System("580.82.07", "13.0")

    def gpus(self) -> tuple[Gpu, ...]:
        """See `Hardware`."""
        with self._call("gpus") as state:
            return tuple(
                _gpu(index, gpu, len(state.gpus)) for index, gpu in enumerate(state.gpus) if not gpu.lost
            )

    def profiles(self, gpu: str) -> tuple[Profile, ...]:
        """See `Hardware`."""
        with self._gpu_call("profiles", gpu) as (_, _, model):
            found = (profile.profile() for profile in model.profiles)
            return tuple(sorted(found, key=lambda each: (each.memory_slices, each.slices, -each.max_instances)))

    def gpu_instances(self, gpu: str) -> tuple[GpuInstance, ...]:
        """See `Hardware`."""
        with self._gpu_call("gpu_instances", gpu) as (_, card, model):
            return tuple(
                _gpu_instance(model, number, card.instances[number]) for number in sorted(card.instances)
            )

    def compute_instances(self, gpu: str, gpu_instance: int) -> tuple[ComputeInstance, ...]:
        """See `Hardware`."""
        with self._gpu_call("compute_instances", gpu) as (_, card, _):
            compute = _instance(card, gpu_instance).compute
            return tuple(ComputeInstance(number, slices) for number, slices in sorted(compute.items()))

    def mig_devices(self, gpu: str) -> tuple[MigDevice, ...]:
        """See `Hardware`."""
        with self._gpu_call("mig_devices", gpu) as (_, card, _):
            return tuple(
                _mig_device(gpu, number, compute)
                for number, instance in sorted(card.instances.items())
                for compute in sorted(instance.compute)
            )

    def create_gpu_instance(self, gpu: str, profile_id: int, placement: Placement) -> GpuInstance:
        """See `Hardware`."""
        with self._gpu_call("create_gpu_instance", gpu) as (state, card, model):
            _needs_mig(card)
            profile = model.by_id.get(profile_id)
            if profile is None:
                raise NotSupportedError(f"{gpu} has no profile {profile_id}")
            if placement.size != profile.size or placement.start not in profile.starts:
                raise InvalidArgumentError(f"profile {profile.name} of {gpu} can't lie at {placement}")
            new = InstanceState(profile_id, placement.start)
            if why := obstacle(model, card.instances.values(), new):
                raise InsufficientResourcesError(f"profile {profile.name} at {placement.start} of {gpu}: {why}")
            number = instance_id(model, new)
            card.instances[number] = new
            _tell(state, EventKind.MIG_CHANGED, gpu)
            return _gpu_instance(model, number, new)

    def create_compute_instance(self, gpu: str, gpu_instance: int) -> MigDevice:
        """See `Hardware`."""
        with self._gpu_call("create_compute_instance", gpu) as (state, card, model):
            instance = _instance(card, gpu_instance)
            if instance.compute:
                raise InsufficientResourcesError(f"GPU instance {gpu_instance} of {gpu} has a compute instance")
            instance.compute[0] = model.by_id[instance.profile].slices
            _tell(state, EventKind.MIG_CHANGED, gpu)
            return _mig_device(gpu, gpu_instance, 0)

    def destroy_compute_instance(self, gpu: str, gpu_instance: int, compute_instance: int) -> None:
        """See `Hardware`."""
        with self._gpu_call("destroy_compute_instance", gpu) as (state, card, _):
            instance = _instance(card, gpu_instance)
            name = f"compute instance {compute_instance} of GPU instance {gpu_instance} of {gpu}"
            if compute_instance not in instance.compute:
                raise InstanceNotFoundError(f"there is no {name}")
            users = (each for each in card.processes if each.gpu_instance == gpu_instance)
            if any(user.compute_instance == compute_instance for user in users):
                raise InUseError(f"a process uses {name}")
            del instance.compute[compute_instance]
            _tell(state, EventKind.MIG_CHANGED, gpu)

    def destroy_gpu_instance(self, gpu: str, gpu_instance: int) -> None:
        """See `Hardware`."""
        with self._gpu_call("destroy_gpu_instance", gpu) as (state, card, _):
            if _instance(card, gpu_instance).compute:
                raise InUseError(f"a compute instance lives in GPU instance {gpu_instance} of {gpu}")
            del card.instances[gpu_instance]
            _tell(state, EventKind.MIG_CHANGED, gpu)

    def set_mig_mode(self, gpu: str, *, enabled: bool) -> MigMode:
        """See `Hardware`."""
        with self._gpu_call("set_mig_mode", gpu) as (state, card, model):
            if not model.profiles:
                raise NotSupportedError(f"{gpu} can't be divided")
            if card.processes:
                raise InUseError(f"a process uses {gpu}")
            card.pending = enabled
            if not model.reset and card.mig != enabled:
                _apply_pending(card)
                _tell(state, EventKind.MIG_CHANGED, gpu)
            return MigMode(card.mig, card.pending)

    def compute_mode(self, gpu: str) -> ComputeMode:
        """See `Hardware`."""
        with self._gpu_call("compute_mode", gpu) as (_, card, _):
            return ComputeMode(card.compute_mode)

    def set_compute_mode(self, gpu: str, mode: ComputeMode) -> None:
        """See `Hardware`."""
        with self._gpu_call("set_compute_mode", gpu) as (_, card, _):
            if card.mig:
                raise NotSupportedError(f"{gpu} is divided, so its compute mode can't be set")
            card.compute_mode = mode.value

    def set_time_slice(self, gpu: str, time_slice: TimeSlice) -> None:
        """See `Hardware`."""
        with self._gpu_call("set_time_slice", gpu) as (_, card, _):
            card.time_slice = time_slice.value

    def processes(self, gpu: str) -> tuple[Process, ...]:
        """See `Hardware`."""
        with self._gpu_call("processes", gpu) as (_, card, _):
            found = (
                Process(each.pid, each.memory, each.gpu_instance, each.compute_instance)
                for each in card.processes
            )
            return tuple(sorted(found, key=lambda process: process.pid))

    def wait_event(self, timeout: float) -> Event | None:
        """See `Hardware`."""
        end = time.monotonic() + timeout
        while True:
            with self._store.change() as state:
                for told in state.events:
                    if self._heard is not None and told.number > self._heard:
                        self._heard = told.number
                        return Event(told.kind, told.gpu, told.xid, told.gpu_instance, told.compute_instance)
            left = end - time.monotonic()
            if left <= 0:
                return None
            time.sleep(min(_LOOK, left))

    # What becomes of hardware, for tests and demonstrations.

    def lose(self, gpu: str) -> None:
        """The GPU falls off the bus."""
        with self._store.change() as state:
            _card(state, gpu).lost = True
            _tell(state, EventKind.GPU_LOST, gpu)

    def reset(self, gpu: str) -> None:
        """The GPU is reset: it is back, without instances, in its pending MIG mode."""
        with self._store.change() as state:
            card = _card(state, gpu)
            card.lost, card.compute_mode, card.time_slice = False, 0, 0
            card.processes = []
            _apply_pending(card)
            _tell(state, EventKind.MIG_CHANGED, gpu)

    def fail(
        self, gpu: str, kind: EventKind, *, xid: int | None = None, gpu_instance: int | None = None
    ) -> None:
        """The GPU, or one instance of it, tells an error."""
        with self._store.change() as state:
            compute = None if gpu_instance is None else 0
            _tell(state, kind, gpu, xid, gpu_instance, compute)

    def use(self, gpu: str, processes: Iterable[Process]) -> None:
        """These processes, and no others, use the GPU."""
        with self._store.change() as state:
            _card(state, gpu).processes = [
                ProcessState(each.pid, each.memory, each.gpu_instance, each.compute_instance)
                for each in processes
            ]

    def time_slice(self, gpu: str) -> TimeSlice:
        """How long processes take turns."""
        with self._store.change() as state:
            return TimeSlice(_card(state, gpu).time_slice)

    @contextmanager
    def _call(self, name: str) -> Iterator[NodeState]:
        if name != "open" and self._heard is None:
            raise DriverNotLoadedError("the hardware was not opened", name, 1)
        self.hook(name, "before")
        with self._store.change() as state:
            state.gpus = state.gpus or self._new
            yield state
        self.hook(name, "after")

    @contextmanager
    def _gpu_call(self, name: str, gpu: str) -> Iterator[tuple[NodeState, GpuState, CardModel]]:
        with self._call(name) as state:
            card = _card(state, gpu)
            if card.lost:
                raise GpuLostError(f"{gpu} is lost", name, 15)
            yield state, card, CATALOG[card.model]


def _card(state: NodeState, gpu: str) -> GpuState:
    for card in state.gpus:
        if card.uuid == gpu:
            return card
    raise InvalidArgumentError(f"there is no GPU {gpu}")


def _needs_mig(card: GpuState) -> None:
    if not card.mig:
        raise NotSupportedError(f"MIG is off on {card.uuid}")


def _instance(card: GpuState, number: int) -> InstanceState:
    if number not in card.instances:
        raise InstanceNotFoundError(f"there is no GPU instance {number} on {card.uuid}")
    return card.instances[number]


def _apply_pending(card: GpuState) -> None:
    card.mig, card.instances = card.pending, {}


def _tell(
    state: NodeState,
    kind: EventKind,
    gpu: str,
    xid: int | None = None,
    gpu_instance: int | None = None,
    compute_instance: int | None = None,
) -> None:
    state.told += 1
    told = Told(state.told, kind, gpu, xid, gpu_instance, compute_instance)
    state.events = [*state.events, told][-_KEPT_EVENTS:]


def _gpu(index: int, card: GpuState, count: int) -> Gpu:
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


def _gpu_instance(model: CardModel, number: int, instance: InstanceState) -> GpuInstance:
    size = model.by_id[instance.profile].size
    return GpuInstance(number, instance.profile, Placement(instance.start, size))


def _mig_device(gpu: str, gpu_instance: int, compute_instance: int) -> MigDevice:
    # Real ones are alike: the same instance of the same GPU has the same UUID each time it is made.
    name = uuid.uuid5(_NAMESPACE, f"{gpu}/{gpu_instance}/{compute_instance}")
    return MigDevice(f"MIG-{name}", gpu_instance, compute_instance)
