"""`Hardware` on NVML."""

import logging
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import pynvml

from dradriver_gpu_mig.card.errors import GpuNotFoundError, LibraryNotFoundError, NotSupportedError
from dradriver_gpu_mig.card.nvml.discovery import (
    Handle,
    instance_ids,
    read_gpu,
    read_mig_mode,
    read_profiles,
    text,
)
from dradriver_gpu_mig.card.nvml.events import Watch
from dradriver_gpu_mig.card.nvml.instances import (
    InstanceHandle,
    create_compute_instance,
    create_gpu_instance,
    read_compute_instances,
    read_gpu_instances,
    read_mig_devices,
)
from dradriver_gpu_mig.card.nvml.library import NAME, find_library, load_library
from dradriver_gpu_mig.card.nvml.return_codes import answers, error_of, known
from dradriver_gpu_mig.card.nvml.time_slices import set_time_slice
from dradriver_gpu_mig.card.values import (
    ComputeInstance,
    ComputeMode,
    Event,
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

__all__ = ["NvmlHardware"]

_log: Final = logging.getLogger(__name__)
_FINAL: Final = frozenset(
    {pynvml.NVML_ERROR_INVALID_ARGUMENT, pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND}
)
"""Errors for placements that do not change when the call is repeated."""
_NO_GPUS: Final = 1
"""NVML_INIT_FLAG_NO_GPUS: a node may have no GPUs, or get them later."""

_PROCESSES: Final = (
    (pynvml.nvmlDeviceGetComputeRunningProcesses_v3, pynvml.nvmlDeviceGetComputeRunningProcesses_v2),
    (pynvml.nvmlDeviceGetGraphicsRunningProcesses_v3, pynvml.nvmlDeviceGetGraphicsRunningProcesses_v2),
    (pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v3, pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v2),
)
"""Functions that list processes, each for new drivers and for old ones."""


class NvmlHardware:
    """The GPUs that the driver of this node manages.

    Args:
        library: libnvidia-ml.so.1; None: the one below `driver_root`, or, if that is `/`, the one that the
            dynamic linker finds.
        driver_root: folder below which the driver is installed: `/`, or `/run/nvidia/driver`.
        sysfs: mount point of sysfs.
    """

    def __init__(
        self, library: Path | None = None, *, driver_root: Path = Path("/"), sysfs: Path = Path("/sys")
    ) -> None:
        self._library = library
        self._driver_root = driver_root
        self._sysfs = sysfs
        self._handles: dict[str, Handle] = {}
        self._indices: dict[str, int] = {}
        self._failed: dict[int, int] = {}
        self._cuda = 0
        self._profiles: dict[str, tuple[Profile, ...]] = {}
        self._placeless: dict[str, Mapping[int, int]] = {}
        self._watch: Watch | None = None
        self._watching = threading.Lock()
        self._reset = False

    @answers
    def open(self) -> None:
        """See `Hardware`."""
        if self._library is None and self._driver_root != Path("/"):
            self._library = find_library(self._driver_root)
            if self._library is None:
                raise LibraryNotFoundError(f"there is no {NAME} below {self._driver_root}", "open", 12)
        load_library(self._library)
        pynvml.nvmlInitWithFlags(_NO_GPUS)
        try:
            self.gpus()
            with self._watching:
                self._watch = Watch(self._handles)
        except BaseException:
            pynvml.nvmlShutdown()
            raise

    @answers
    def close(self) -> None:
        """See `Hardware`."""
        with self._watching:
            if self._watch is not None:
                self._watch.close()
            self._watch = None
        self._handles, self._indices, self._failed = {}, {}, {}
        self._profiles, self._placeless = {}, {}
        pynvml.nvmlShutdown()

    @answers
    def system(self) -> System:
        """See `Hardware`."""
        cuda = self._cuda = known(pynvml.nvmlSystemGetCudaDriverVersion_v2, self._cuda)
        version = f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else ""
        return System(text(pynvml.nvmlSystemGetDriverVersion()), version)

    @answers
    def gpus(self) -> tuple[Gpu, ...]:
        """See `Hardware`."""
        found: dict[str, tuple[Gpu, Handle]] = {}
        failed: dict[int, int] = {}
        for index in range(pynvml.nvmlDeviceGetCount()):
            try:
                handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                gpu = read_gpu(index, handle, self._sysfs)
            except pynvml.NVMLError as error:
                failed[index] = error.value  # the other GPUs are read nevertheless
                if index not in self._indices.values() and self._failed.get(index) != error.value:
                    _log.warning("GPU %d is left out, nobody knows which it is: NVML answers %s", index, error)
            else:
                found[gpu.uuid] = gpu, handle
        self._failed = failed
        # Events of a GPU that does not answer this time are still received, unless it is lost.
        silent = {index for index, code in failed.items() if code != pynvml.NVML_ERROR_GPU_IS_LOST}
        kept = {
            uuid: index for uuid, index in self._indices.items() if index in silent and uuid in self._handles
        }
        self._indices = {**kept, **{gpu.uuid: gpu.index for gpu, _ in found.values()}}
        self._handles = {
            **{uuid: self._handles[uuid] for uuid in kept},
            **{uuid: handle for uuid, (_, handle) in found.items()},
        }
        return tuple(sorted((gpu for gpu, _ in found.values()), key=lambda gpu: gpu.pci_address))

    @answers
    def gpu(self, gpu: str) -> Gpu:
        """See `Hardware`."""
        handle = _find(gpu)
        return read_gpu(pynvml.nvmlDeviceGetIndex(handle), handle, self._sysfs)

    @answers
    def profiles(self, gpu: str) -> tuple[Profile, ...]:
        """See `Hardware`."""
        # Profiles change only with the driver, and reading each takes four calls.
        if gpu in self._profiles:
            return self._profiles[gpu]
        profiles, refused = read_profiles(self._handle(gpu))
        if refused != self._placeless.get(gpu, {}):
            self._placeless[gpu] = refused
            _log.warning(
                "%s: profiles are not offered because NVML refuses their placements: %s",
                gpu,
                ", ".join(f"ID {profile} ({pynvml.NVMLError(code)})" for profile, code in refused.items())
                or "none",
            )
        if _FINAL.issuperset(refused.values()):
            self._profiles[gpu] = profiles
        return profiles

    @answers
    def gpu_instances(self, gpu: str) -> tuple[GpuInstance, ...]:
        """See `Hardware`."""
        return read_gpu_instances(self._handle(gpu), self.profiles(gpu))

    @answers
    def compute_instances(self, gpu: str, gpu_instance: int) -> tuple[ComputeInstance, ...]:
        """See `Hardware`."""
        return read_compute_instances(self._instance(gpu, gpu_instance))

    @answers
    def mig_devices(self, gpu: str) -> tuple[MigDevice, ...]:
        """See `Hardware`."""
        return read_mig_devices(self._handle(gpu))

    @answers
    def create_gpu_instance(self, gpu: str, profile_id: int, placement: Placement) -> GpuInstance:
        """See `Hardware`."""
        return create_gpu_instance(self._handle(gpu), profile_id, placement)

    @answers
    def create_compute_instance(self, gpu: str, gpu_instance: int) -> MigDevice:
        """See `Hardware`."""
        instance = self._instance(gpu, gpu_instance)
        profile_id = pynvml.nvmlGpuInstanceGetInfo(instance).profileId
        (slices,) = (each.slices for each in self.profiles(gpu) if each.id == profile_id)
        return create_compute_instance(instance, slices)

    @answers
    def destroy_compute_instance(self, gpu: str, gpu_instance: int, compute_instance: int) -> None:
        """See `Hardware`."""
        instance = self._instance(gpu, gpu_instance)
        pynvml.nvmlComputeInstanceDestroy(
            pynvml.nvmlGpuInstanceGetComputeInstanceById(instance, compute_instance)
        )

    @answers
    def destroy_gpu_instance(self, gpu: str, gpu_instance: int) -> None:
        """See `Hardware`."""
        pynvml.nvmlGpuInstanceDestroy(self._instance(gpu, gpu_instance))

    @answers
    def set_mig_mode(self, gpu: str, *, enabled: bool) -> MigMode:
        """See `Hardware`."""
        handle = self._handle(gpu)
        status = pynvml.nvmlDeviceSetMigMode(handle, int(enabled))
        self._reset = True
        # NVML reports success if the mode is only pending. The status has the reason.
        if status not in {pynvml.NVML_SUCCESS, pynvml.NVML_ERROR_RESET_REQUIRED}:
            raise error_of(status, f"set_mig_mode of {gpu}")
        mode = read_mig_mode(handle)
        if mode is None:
            raise NotSupportedError(f"{gpu} can't be divided", "nvmlDeviceGetMigMode", 3)
        return mode

    @answers
    def compute_mode(self, gpu: str) -> ComputeMode:
        """See `Hardware`."""
        return ComputeMode(pynvml.nvmlDeviceGetComputeMode(self._handle(gpu)))

    @answers
    def set_compute_mode(self, gpu: str, mode: ComputeMode) -> None:
        """See `Hardware`."""
        handle = self._handle(gpu)
        if (mig := read_mig_mode(handle)) is not None and mig.current:
            raise NotSupportedError(
                f"{gpu} is divided, so its compute mode can't be set", "set_compute_mode", 3
            )
        pynvml.nvmlDeviceSetComputeMode(handle, mode.value)

    def set_time_slice(self, gpu: str, time_slice: TimeSlice) -> None:
        """See `Hardware`."""
        set_time_slice(gpu, time_slice, self._driver_root, self._library)

    @answers
    def processes(self, gpu: str) -> tuple[Process, ...]:
        """See `Hardware`."""
        handle, found = self._handle(gpu), dict[tuple[int, int | None, int | None], Process]()
        for asks in _PROCESSES:
            answer: list[pynvml.c_nvmlProcessInfo_v3_t] = []
            for ask in asks:
                with suppress(pynvml.NVMLError_FunctionNotFound, pynvml.NVMLError_NotSupported):
                    answer = ask(handle)
                    break
            for each in answer:
                ids = instance_ids(each.gpuInstanceId, each.computeInstanceId)
                found[each.pid, *ids] = Process(each.pid, each.usedGpuMemory, *ids)
        return tuple(sorted(found.values(), key=lambda process: process.pid))

    @answers
    def needs_reset(self, gpu: str) -> bool | None:
        """See `Hardware`."""
        action = pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
        told = known(lambda: pynvml.nvmlDeviceGetFieldValues(self._handle(gpu), [action])[0], None)
        if told is None or told.nvmlReturn != pynvml.NVML_SUCCESS:
            return None
        return bool(told.value.uiVal != pynvml.NVML_GPU_RECOVERY_ACTION_NONE)

    @answers
    def wait_event(self, timeout: float) -> Event | None:
        """See `Hardware`."""
        with self._watching:
            watch = self._watch
            if watch is None:
                return None
            if self._reset or set(watch.gpus) != set(self._handles):
                # GPUs were added, removed or reset. Events of the present GPUs are received from now on.
                self._reset = False
                watch = self._watch = watch.renewed(self._handles)
            return watch.wait(timeout)

    def _handle(self, gpu: str) -> Handle:
        if gpu not in self._handles:
            self._handles[gpu] = _find(gpu)
        return self._handles[gpu]

    def _instance(self, gpu: str, gpu_instance: int) -> InstanceHandle:
        return pynvml.nvmlDeviceGetGpuInstanceById(self._handle(gpu), gpu_instance)


def _find(gpu: str) -> Handle:
    """Return the present handle of a UUID.

    Raises:
        GpuNotFoundError: NVML knows no such GPU. In other calls, NOT_FOUND is about an instance.
        NVMLError: NVML returns another error.
    """
    try:
        return pynvml.nvmlDeviceGetHandleByUUID(gpu)
    except pynvml.NVMLError_NotFound as error:
        raise GpuNotFoundError(f"there is no GPU {gpu}", "nvmlDeviceGetHandleByUUID", error.value) from error
