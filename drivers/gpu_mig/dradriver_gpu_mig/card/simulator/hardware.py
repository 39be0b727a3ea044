"""Simulated cards with the interface of real cards."""

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
    make_error,
)
from dradriver_gpu_mig.card.hardware import GpuHardware
from dradriver_gpu_mig.card.simulator.catalog import CATALOG, GpuModel
from dradriver_gpu_mig.card.simulator.rules import assign_instance_id, find_obstacle
from dradriver_gpu_mig.card.simulator.state import (
    GpuMemoryStore,
    GpuNodeState,
    GpuState,
    GpuStore,
    InstanceState,
    ProcessState,
)
from dradriver_gpu_mig.card.simulator.views import (
    add_event,
    apply_pending_mig_mode,
    find_gpu,
    find_instance,
    make_gpu,
    make_uuid,
    require_mig_enabled,
    to_gpu,
    to_gpu_instance,
    to_mig_device,
)
from dradriver_gpu_mig.card.values import (
    ComputeMode,
    Event,
    EventKind,
    Fabric,
    Gpu,
    GpuInstance,
    MigDevice,
    MigMode,
    Placement,
    Process,
    Profile,
    RecoveryAction,
    System,
    TimeSlice,
    Virtualization,
)

__all__ = ["Hook", "SimulatedGpus"]

Moment: TypeAlias = Literal["before", "after"]
Hook: TypeAlias = Callable[[str, Moment], None]
"""Called before and after each call takes effect, with the call's name.

If it raises an exception, the call fails with this exception.
"""

_NOT_FOUND: Final = 6
_POLL_SECONDS: Final = 0.05
"""Seconds between two reads of the events, which can come from another process."""


def _inject_nothing(_call: str, _moment: Moment) -> None:
    """Default hook: does nothing."""


class SimulatedGpus(GpuHardware):
    """GPUs of the catalog.

    Args:
        models: the model of each GPU, as a name in the catalog. If the store already contains GPUs, these are
            used instead.
        store: holds the state. A `GpuFileStore` outlives the process and is shared with other processes.
        node: name of the node. The UUIDs are made from it, so they differ between nodes and never change on one
            node.
        mig: whether cards that support MIG start with MIG on.
        hook: injects faults in tests.
    """

    def __init__(
        self,
        models: Sequence[str] = ("a100-40",),
        *,
        store: GpuStore | None = None,
        node: str = "node",
        mig: bool = True,
        hook: Hook = _inject_nothing,
    ) -> None:
        self.hook = hook
        self._store = store or GpuMemoryStore()
        self._initial_gpus = [
            make_gpu(model, f"GPU-{make_uuid(f'{node}/{index}')}", mig=mig)
            for index, model in enumerate(models)
        ]
        self._last_event: int | None = None

    def open(self) -> None:
        """See `GpuHardware`."""
        with self._call("open") as state:
            self._last_event = state.event_count

    def close(self) -> None:
        """See `GpuHardware`."""
        self._last_event = None

    def system(self) -> System:
        """See `GpuHardware`."""
        with self._call("system"):
            return System("580.82.07", "13.0")

    def count(self) -> int:
        """See `GpuHardware`."""
        with self._call("count") as state:
            return sum(not gpu.removed for gpu in state.gpus)

    def uuid_at(self, index: int) -> str:
        """See `GpuHardware`."""
        with self._call("uuid_at") as state:
            uuids = [gpu.uuid for gpu in state.gpus if not gpu.removed]
        with self._gpu_call("uuid_at", uuids[index]):
            return uuids[index]

    def gpu(self, gpu: str) -> Gpu:
        """See `GpuHardware`."""
        with self._gpu_call("gpu", gpu) as (state, card, _):
            return to_gpu(state.gpus.index(card), card, len(state.gpus))

    def profiles(self, gpu: str) -> tuple[Profile, ...]:
        """See `GpuHardware`."""
        with self._gpu_call("profiles", gpu) as (_, card, model):
            profiles = [profile.to_profile() for profile in model.profiles]
            profiles.sort(key=lambda each: (each.memory_slices, each.slices, -each.max_instances))
            return tuple(
                replace(each, placements=()) if each.id in card.placement_errors else each for each in profiles
            )

    def gpu_instances(self, gpu: str) -> tuple[GpuInstance, ...]:
        """See `GpuHardware`."""
        with self._gpu_call("gpu_instances", gpu) as (_, card, model):
            return tuple(
                to_gpu_instance(model, number, card.instances[number]) for number in sorted(card.instances)
            )

    def find_gpu_instance(self, gpu: str, profile_id: int, placement: Placement) -> GpuInstance | None:
        """See `GpuHardware`."""
        with self._gpu_call("find_gpu_instance", gpu) as (_, card, model):
            instances = (to_gpu_instance(model, number, each) for number, each in card.instances.items())
            wanted = (profile_id, placement)
            return next((each for each in instances if (each.profile_id, each.placement) == wanted), None)

    def mig_devices(self, gpu: str, instance: GpuInstance) -> tuple[MigDevice, ...]:
        """See `GpuHardware`."""
        with self._gpu_call("mig_devices", gpu) as (_, card, _):
            compute_ids = sorted(find_instance(card, instance.id).compute)
            return tuple(to_mig_device(gpu, instance.id, number) for number in compute_ids)

    def create_gpu_instance(self, gpu: str, profile_id: int, placement: Placement) -> GpuInstance:
        """See `GpuHardware`."""
        with self._gpu_call("create_gpu_instance", gpu) as (state, card, model):
            require_mig_enabled(card)
            profile = model.profiles_by_id.get(profile_id)
            if profile is None:
                raise NotSupportedError(f"{gpu} has no profile {profile_id}")
            if placement.size != profile.size or placement.start not in profile.starts:
                raise InvalidArgumentError(f"profile {profile.name} of {gpu} has no placement {placement}")
            new = InstanceState(profile_id, placement.start)
            if reason := find_obstacle(model, card.instances.values(), new):
                raise InsufficientResourcesError(
                    f"profile {profile.name} at {placement.start} of {gpu}: {reason}"
                )
            number = assign_instance_id(model, new)
            card.instances[number] = new
            add_event(state, EventKind.MIG_CHANGED, gpu)
            return to_gpu_instance(model, number, new)

    def create_compute_instance(self, gpu: str, instance: GpuInstance) -> MigDevice:
        """See `GpuHardware`."""
        with self._gpu_call("create_compute_instance", gpu) as (state, card, model):
            found = find_instance(card, instance.id)
            if found.compute:
                raise InsufficientResourcesError(f"GPU instance {instance.id} of {gpu} has a compute instance")
            found.compute[0] = model.profiles_by_id[found.profile].slices
            add_event(state, EventKind.MIG_CHANGED, gpu)
            return to_mig_device(gpu, instance.id, 0)

    def destroy_compute_instance(self, gpu: str, gpu_instance: int, compute_instance: int) -> None:
        """See `GpuHardware`."""
        with self._gpu_call("destroy_compute_instance", gpu) as (state, card, _):
            instance = find_instance(card, gpu_instance)
            name = f"compute instance {compute_instance} of GPU instance {gpu_instance} of {gpu}"
            if compute_instance not in instance.compute:
                raise InstanceNotFoundError(f"{name} does not exist")
            users = (each for each in card.processes if each.gpu_instance == gpu_instance)
            if any(user.compute_instance == compute_instance for user in users):
                raise InUseError(f"a process uses {name}")
            del instance.compute[compute_instance]
            add_event(state, EventKind.MIG_CHANGED, gpu)

    def destroy_gpu_instance(self, gpu: str, gpu_instance: int) -> None:
        """See `GpuHardware`."""
        with self._gpu_call("destroy_gpu_instance", gpu) as (state, card, _):
            if find_instance(card, gpu_instance).compute:
                raise InUseError(f"GPU instance {gpu_instance} of {gpu} contains a compute instance")
            del card.instances[gpu_instance]
            add_event(state, EventKind.MIG_CHANGED, gpu)

    def set_mig_mode(self, gpu: str, *, enabled: bool) -> MigMode:
        """See `GpuHardware`."""
        with self._gpu_call("set_mig_mode", gpu) as (state, card, model):
            if not model.profiles:
                raise NotSupportedError(f"{gpu} does not support MIG")
            if card.processes:
                raise InUseError(f"a process uses {gpu}")
            card.pending = enabled
            if not model.mig_needs_reset and card.mig != enabled:
                apply_pending_mig_mode(card)
                add_event(state, EventKind.MIG_CHANGED, gpu)
            return MigMode(card.mig, card.pending)

    def compute_mode(self, gpu: str) -> ComputeMode:
        """See `GpuHardware`."""
        with self._gpu_call("compute_mode", gpu) as (_, card, _):
            return ComputeMode(card.compute_mode)

    def set_compute_mode(self, gpu: str, mode: ComputeMode) -> None:
        """See `GpuHardware`."""
        with self._gpu_call("set_compute_mode", gpu) as (_, card, _):
            if card.mig:
                raise NotSupportedError(f"{gpu}: the compute mode cannot be set while MIG is on")
            card.compute_mode = mode.value

    def set_time_slice(self, gpu: str, time_slice: TimeSlice) -> None:
        """See `GpuHardware`."""
        with self._gpu_call("set_time_slice", gpu) as (_, card, _):
            card.time_slice = time_slice.value

    def processes(self, gpu: str) -> tuple[Process, ...]:
        """See `GpuHardware`."""
        with self._gpu_call("processes", gpu) as (_, card, _):
            profiles = (
                Process(each.pid, each.memory, each.gpu_instance, each.compute_instance)
                for each in card.processes
            )
            return tuple(sorted(profiles, key=lambda process: process.pid))

    def recovery_action(self, gpu: str) -> RecoveryAction | None:
        """See `GpuHardware`."""
        with self._gpu_call("recovery_action", gpu) as (_, card, _):
            return None if card.recovery_action is None else RecoveryAction(card.recovery_action)

    def wait_event(self, timeout: float) -> Event | None:
        """See `GpuHardware`."""
        end = time.monotonic() + timeout
        while True:
            with self._store.change() as state:
                for event in state.events:
                    if self._last_event is not None and event.number > self._last_event:
                        self._last_event = event.number
                        return Event(
                            event.kind, event.gpu, event.xid, event.gpu_instance, event.compute_instance
                        )
            left = end - time.monotonic()
            if left <= 0:
                return None
            time.sleep(min(_POLL_SECONDS, left))

    # Changes of the hardware, for tests and demonstrations.

    def lose(self, gpu: str) -> None:
        """Make the GPU fall off the bus.

        Args:
            gpu: UUID of the GPU.
        """
        with self._store.change() as state:
            find_gpu(state, gpu).lost = True
            add_event(state, EventKind.GPU_LOST, gpu)

    def remove(self, gpu: str) -> None:
        """Remove the GPU: it is not listed, and its UUID is not found.

        Args:
            gpu: UUID of the GPU.
        """
        with self._store.change() as state:
            find_gpu(state, gpu).removed = True

    def fail_calls(self, gpu: str, code: int) -> None:
        """Make every call for the GPU fail with a return code of NVML; 0 makes calls work again.

        Args:
            gpu: UUID of the GPU.
            code: return code of NVML (`nvmlReturn_t`).
        """
        with self._store.change() as state:
            find_gpu(state, gpu).error_code = code

    def fail_placements(self, gpu: str, profile: int, code: int) -> None:
        """Make reading the placements of a profile fail. With code 0, reading works again for all profiles.

        Args:
            gpu: UUID of the GPU.
            profile: ID of the profile.
            code: return code of NVML (`nvmlReturn_t`).
        """
        with self._store.change() as state:
            card = find_gpu(state, gpu)
            card.placement_errors = {profile: code} if code else {}

    def reset(self, gpu: str) -> None:
        """Reset the GPU: it switches to its pending MIG mode and loses all instances.

        Args:
            gpu: UUID of the GPU.
        """
        with self._store.change() as state:
            card = find_gpu(state, gpu)
            card.lost, card.compute_mode, card.time_slice = False, 0, 0
            if card.recovery_action is not None:
                card.recovery_action = RecoveryAction.NONE.value
            card.removed, card.error_code = False, 0
            card.processes = []
            apply_pending_mig_mode(card)
            add_event(state, EventKind.MIG_CHANGED, gpu)

    def report_error(
        self,
        gpu: str,
        kind: EventKind,
        *,
        xid: int | None = None,
        gpu_instance: int | None = None,
    ) -> None:
        """Report an error of the GPU or of one of its instances.

        Args:
            gpu: UUID of the GPU.
            kind: kind of the event.
            xid: number of the XID; None for other kinds of events.
            gpu_instance: ID of the affected GPU instance; None: the whole GPU.
        """
        with self._store.change() as state:
            compute = None if gpu_instance is None else 0
            add_event(state, kind, gpu, xid, gpu_instance, compute)

    def set_recovery_action(self, gpu: str, action: RecoveryAction | None) -> None:
        """Set the recovery action of the GPU, and report that it changed.

        Args:
            gpu: UUID of the GPU.
            action: the action; None: the driver is too old to report recovery actions.
        """
        with self._store.change() as state:
            find_gpu(state, gpu).recovery_action = None if action is None else action.value
            if action is not None:
                add_event(state, EventKind.RECOVERY_ACTION, gpu)

    def set_virtualization(self, gpu: str, mode: Virtualization) -> None:
        """Make the GPU a vGPU, or a GPU that serves vGPUs.

        Args:
            gpu: UUID of the GPU.
            mode: the mode.
        """
        with self._store.change() as state:
            find_gpu(state, gpu).virtualization = mode.value

    def set_memory_and_fabric(self, gpu: str, addressing_mode: str, fabric: Fabric | None) -> None:
        """Set how the GPU addresses the host's memory, and its NVLink fabric.

        Args:
            gpu: UUID of the GPU.
            addressing_mode: `HMM`, `ATS` or `None`; "": the platform has none.
            fabric: the fabric; None: the GPU has none.
        """
        with self._store.change() as state:
            card = find_gpu(state, gpu)
            card.addressing_mode = addressing_mode
            card.cluster_uuid = fabric.cluster_uuid if fabric else ""
            card.clique_id = fabric.clique_id if fabric else None

    def set_processes(self, gpu: str, processes: Iterable[Process]) -> None:
        """Set the processes that use the GPU.

        Args:
            gpu: UUID of the GPU.
            processes: all processes of the GPU and its instances.
        """
        with self._store.change() as state:
            find_gpu(state, gpu).processes = [
                ProcessState(each.pid, each.memory, each.gpu_instance, each.compute_instance)
                for each in processes
            ]

    def time_slice(self, gpu: str) -> TimeSlice:
        """Return the time slice of the GPU.

        Args:
            gpu: UUID of the GPU.
        """
        with self._store.change() as state:
            return TimeSlice(find_gpu(state, gpu).time_slice)

    @contextmanager
    def _call(self, name: str) -> Iterator[GpuNodeState]:
        if name != "open" and self._last_event is None:
            raise DriverNotLoadedError("the hardware is not open", name, 1)
        self.hook(name, "before")
        with self._store.change() as state:
            state.gpus = state.gpus or self._initial_gpus
            yield state
        self.hook(name, "after")

    @contextmanager
    def _gpu_call(self, name: str, gpu: str) -> Iterator[tuple[GpuNodeState, GpuState, GpuModel]]:
        with self._call(name) as state:
            card = find_gpu(state, gpu)
            if card.removed or card.error_code == _NOT_FOUND:
                raise GpuNotFoundError(f"GPU {gpu} does not exist", name, 6)
            if card.lost:
                raise GpuLostError(f"{gpu} is lost", name, 15)
            if card.error_code:
                raise make_error(card.error_code, f"{name} of {gpu}", "an error of the simulator")
            yield state, card, CATALOG[card.model]
