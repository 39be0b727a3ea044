"""Simulated cards with the interface of real ones."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, Literal, TypeAlias

from dradriver_gpu_mig.card.errors import (
    DriverNotLoadedError,
    GpuLostError,
    GpuNotFoundError,
    InstanceNotFoundError,
    InsufficientResourcesError,
    InUseError,
    InvalidArgumentError,
    NotSupportedError,
    error_of,
)
from dradriver_gpu_mig.card.simulator.catalog import CATALOG, CardModel
from dradriver_gpu_mig.card.simulator.rules import instance_id, obstacle
from dradriver_gpu_mig.card.simulator.state import (
    GpuState,
    InstanceState,
    MemoryStore,
    NodeState,
    ProcessState,
    Store,
)
from dradriver_gpu_mig.card.simulator.views import (
    apply_pending,
    find_card,
    find_instance,
    gpu_instance_of,
    gpu_of,
    mig_device_of,
    new_gpu,
    require_mig,
    stable_uuid,
    tell,
)
from dradriver_gpu_mig.card.values import (
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
"""Called with the name of each call before and after it takes effect. An exception becomes the call's error."""

_NOT_FOUND: Final = 6
_LOOK: Final = 0.05
"""Seconds between two reads of the events, which can come from another process."""


def _pass(_call: str, _moment: Moment) -> None:
    """Cause no fault."""


class SimulatedHardware:
    """GPUs of the catalog.

    Args:
        models: for each GPU one name of the catalog. Content of the store takes precedence.
        store: holds the state. A `FileStore` outlives the process and is shared with other processes.
        node: makes UUIDs distinct between nodes. The same node always has the same UUIDs.
        mig: whether MIG is on at first, if the card supports it.
        hook: injects faults in tests.
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
            new_gpu(model, f"GPU-{stable_uuid(f'{node}/{index}')}", mig=mig)
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
                gpu_of(index, gpu, len(state.gpus))
                for index, gpu in enumerate(state.gpus)
                if not (gpu.lost or gpu.gone or gpu.refusal)
            )

    def gpu(self, gpu: str) -> Gpu:
        """See `Hardware`."""
        with self._gpu_call("gpu", gpu) as (state, card, _):
            return gpu_of(state.gpus.index(card), card, len(state.gpus))

    def profiles(self, gpu: str) -> tuple[Profile, ...]:
        """See `Hardware`."""
        with self._gpu_call("profiles", gpu) as (_, card, model):
            found = [profile.profile() for profile in model.profiles]
            found.sort(key=lambda each: (each.memory_slices, each.slices, -each.max_instances))
            return tuple(replace(each, placements=()) if each.id in card.placeless else each for each in found)

    def gpu_instances(self, gpu: str) -> tuple[GpuInstance, ...]:
        """See `Hardware`."""
        with self._gpu_call("gpu_instances", gpu) as (_, card, model):
            return tuple(
                gpu_instance_of(model, number, card.instances[number]) for number in sorted(card.instances)
            )

    def compute_instances(self, gpu: str, gpu_instance: int) -> tuple[ComputeInstance, ...]:
        """See `Hardware`."""
        with self._gpu_call("compute_instances", gpu) as (_, card, _):
            compute = find_instance(card, gpu_instance).compute
            return tuple(ComputeInstance(number, slices) for number, slices in sorted(compute.items()))

    def mig_devices(self, gpu: str) -> tuple[MigDevice, ...]:
        """See `Hardware`."""
        with self._gpu_call("mig_devices", gpu) as (_, card, _):
            return tuple(
                mig_device_of(gpu, number, compute)
                for number, instance in sorted(card.instances.items())
                for compute in sorted(instance.compute)
            )

    def create_gpu_instance(self, gpu: str, profile_id: int, placement: Placement) -> GpuInstance:
        """See `Hardware`."""
        with self._gpu_call("create_gpu_instance", gpu) as (state, card, model):
            require_mig(card)
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
            tell(state, EventKind.MIG_CHANGED, gpu)
            return gpu_instance_of(model, number, new)

    def create_compute_instance(self, gpu: str, gpu_instance: int) -> MigDevice:
        """See `Hardware`."""
        with self._gpu_call("create_compute_instance", gpu) as (state, card, model):
            instance = find_instance(card, gpu_instance)
            if instance.compute:
                raise InsufficientResourcesError(f"GPU instance {gpu_instance} of {gpu} has a compute instance")
            instance.compute[0] = model.by_id[instance.profile].slices
            tell(state, EventKind.MIG_CHANGED, gpu)
            return mig_device_of(gpu, gpu_instance, 0)

    def destroy_compute_instance(self, gpu: str, gpu_instance: int, compute_instance: int) -> None:
        """See `Hardware`."""
        with self._gpu_call("destroy_compute_instance", gpu) as (state, card, _):
            instance = find_instance(card, gpu_instance)
            name = f"compute instance {compute_instance} of GPU instance {gpu_instance} of {gpu}"
            if compute_instance not in instance.compute:
                raise InstanceNotFoundError(f"there is no {name}")
            users = (each for each in card.processes if each.gpu_instance == gpu_instance)
            if any(user.compute_instance == compute_instance for user in users):
                raise InUseError(f"a process uses {name}")
            del instance.compute[compute_instance]
            tell(state, EventKind.MIG_CHANGED, gpu)

    def destroy_gpu_instance(self, gpu: str, gpu_instance: int) -> None:
        """See `Hardware`."""
        with self._gpu_call("destroy_gpu_instance", gpu) as (state, card, _):
            if find_instance(card, gpu_instance).compute:
                raise InUseError(f"a compute instance lives in GPU instance {gpu_instance} of {gpu}")
            del card.instances[gpu_instance]
            tell(state, EventKind.MIG_CHANGED, gpu)

    def set_mig_mode(self, gpu: str, *, enabled: bool) -> MigMode:
        """See `Hardware`."""
        with self._gpu_call("set_mig_mode", gpu) as (state, card, model):
            if not model.profiles:
                raise NotSupportedError(f"{gpu} can't be divided")
            if card.processes:
                raise InUseError(f"a process uses {gpu}")
            card.pending = enabled
            if not model.reset and card.mig != enabled:
                apply_pending(card)
                tell(state, EventKind.MIG_CHANGED, gpu)
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

    def needs_reset(self, gpu: str) -> bool | None:
        """See `Hardware`."""
        with self._gpu_call("needs_reset", gpu) as (_, card, _):
            return card.needs_reset

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

    # Changes of the hardware, for tests and demonstrations.

    def lose(self, gpu: str) -> None:
        """Make the GPU fall off the bus."""
        with self._store.change() as state:
            find_card(state, gpu).lost = True
            tell(state, EventKind.GPU_LOST, gpu)

    def remove(self, gpu: str) -> None:
        """Remove the GPU: it is not listed, and its UUID is not found."""
        with self._store.change() as state:
            find_card(state, gpu).gone = True

    def refuse(self, gpu: str, code: int) -> None:
        """Make every call for the GPU fail with a code of NVML; 0: calls work again."""
        with self._store.change() as state:
            find_card(state, gpu).refusal = code

    def refuse_placements(self, gpu: str, profile: int, code: int) -> None:
        """Make reading the placements of a profile fail; code 0: it works again."""
        with self._store.change() as state:
            card = find_card(state, gpu)
            card.placeless = {profile: code} if code else {}

    def reset(self, gpu: str) -> None:
        """Reset the GPU: it is back in its pending MIG mode, without instances."""
        with self._store.change() as state:
            card = find_card(state, gpu)
            card.lost, card.needs_reset, card.compute_mode, card.time_slice = False, False, 0, 0
            card.gone, card.refusal = False, 0
            card.processes = []
            apply_pending(card)
            tell(state, EventKind.MIG_CHANGED, gpu)

    def fail(
        self,
        gpu: str,
        kind: EventKind,
        *,
        xid: int | None = None,
        gpu_instance: int | None = None,
        needs_reset: bool = False,
    ) -> None:
        """Report an error of the GPU or of one instance of it. The GPU may then need a reset."""
        with self._store.change() as state:
            find_card(state, gpu).needs_reset |= needs_reset
            compute = None if gpu_instance is None else 0
            tell(state, kind, gpu, xid, gpu_instance, compute)

    def use(self, gpu: str, processes: Iterable[Process]) -> None:
        """Set the processes that use the GPU."""
        with self._store.change() as state:
            find_card(state, gpu).processes = [
                ProcessState(each.pid, each.memory, each.gpu_instance, each.compute_instance)
                for each in processes
            ]

    def time_slice(self, gpu: str) -> TimeSlice:
        """Return the time slice of the GPU."""
        with self._store.change() as state:
            return TimeSlice(find_card(state, gpu).time_slice)

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
            card = find_card(state, gpu)
            if card.gone or card.refusal == _NOT_FOUND:
                raise GpuNotFoundError(f"there is no GPU {gpu}", name, 6)
            if card.lost:
                raise GpuLostError(f"{gpu} is lost", name, 15)
            if card.refusal:
                raise error_of(card.refusal, f"{name} of {gpu}", "an error of the simulator")
            yield state, card, CATALOG[card.model]
