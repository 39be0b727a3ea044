"""`GpuHardware` on NVML."""

import logging
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import pynvml

from dradriver_gpu_mig.card.errors import GpuError, GpuNotFoundError, LibraryNotFoundError, NotSupportedError
from dradriver_gpu_mig.card.hardware import GpuHardware
from dradriver_gpu_mig.card.nvml.discovery import (
    Handle,
    convert_instance_ids,
    decode_text,
    read_gpu,
    read_mig_mode,
    read_profiles,
    update_gpu,
)
from dradriver_gpu_mig.card.nvml.events import EventSet
from dradriver_gpu_mig.card.nvml.instances import (
    ComputeProfile,
    InstanceHandle,
    create_compute_instance,
    create_gpu_instance,
    find_gpu_instance,
    read_compute_profiles,
    read_gpu_instances,
    read_mig_devices,
)
from dradriver_gpu_mig.card.nvml.library import LIBRARY_NAME, find_library, load_library
from dradriver_gpu_mig.card.nvml.return_codes import call_or_default, convert_return_code, translate_nvml_errors
from dradriver_gpu_mig.card.nvml.time_slices import set_time_slice
from dradriver_gpu_mig.card.values import (
    ComputeMode,
    Event,
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
)

__all__ = ["NvmlGpus"]

_log: Final = logging.getLogger(__name__)
_PERMANENT_ERRORS: Final = frozenset(
    {pynvml.NVML_ERROR_INVALID_ARGUMENT, pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND}
)
"""Errors of reading placements that occur again whenever the call is repeated."""
_INIT_FLAG_NO_GPUS: Final = 1
"""NVML_INIT_FLAG_NO_GPUS: a node may have no GPUs, or get them later."""

_PROCESS_CALLS: Final = (
    (pynvml.nvmlDeviceGetComputeRunningProcesses_v3, pynvml.nvmlDeviceGetComputeRunningProcesses_v2),
    (pynvml.nvmlDeviceGetGraphicsRunningProcesses_v3, pynvml.nvmlDeviceGetGraphicsRunningProcesses_v2),
    (pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v3, pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v2),
)
"""Functions that list processes. Each entry has one function for new drivers and one for old drivers."""


class NvmlGpus(GpuHardware):
    """The GPUs that the driver of this node manages.

    Args:
        library: path of libnvidia-ml.so.1; None: the library below `driver_root` or, if `driver_root` is `/`,
            the library that the dynamic linker finds.
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
        self._failed_indices: dict[int, int] = {}
        self._cuda_version = 0
        self._version = ""
        self._gpus: dict[str, Gpu] = {}
        # These change only with the driver, and reading them takes most of NVML's calls.
        self._profiles: dict[str, tuple[Profile, ...]] = {}
        self._compute_profiles: dict[tuple[str, int], tuple[ComputeProfile, ...]] = {}
        self._placement_errors: dict[str, Mapping[int, int]] = {}
        self._event_set: EventSet | None = None
        self._event_set_lock = threading.Lock()
        self._mig_switched = False

    @translate_nvml_errors
    def open(self) -> None:
        """See `GpuHardware`."""
        if self._library is None and self._driver_root != Path("/"):
            self._library = find_library(self._driver_root)
            if self._library is None:
                raise LibraryNotFoundError(
                    f"{LIBRARY_NAME} does not exist below {self._driver_root}", "open", 12
                )
        load_library(self._library)
        pynvml.nvmlInitWithFlags(_INIT_FLAG_NO_GPUS)
        try:
            self._forget_other_driver()
            with self._event_set_lock:
                self._event_set = EventSet()
        except BaseException:
            pynvml.nvmlShutdown()
            raise

    @translate_nvml_errors
    def close(self) -> None:
        """See `GpuHardware`."""
        with self._event_set_lock:
            if self._event_set is not None:
                self._event_set.close()
            self._event_set = None
        self._handles, self._indices, self._failed_indices, self._gpus = {}, {}, {}, {}
        pynvml.nvmlShutdown()

    @translate_nvml_errors
    def system(self) -> System:
        """See `GpuHardware`."""
        cuda = self._cuda_version = call_or_default(
            pynvml.nvmlSystemGetCudaDriverVersion_v2, self._cuda_version
        )
        version = f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else ""
        return System(decode_text(pynvml.nvmlSystemGetDriverVersion()), version)

    @translate_nvml_errors
    def count(self) -> int:
        """See `GpuHardware`."""
        count: int = pynvml.nvmlDeviceGetCount()
        return count

    @translate_nvml_errors
    def uuid_at(self, index: int) -> str:
        """See `GpuHardware`."""
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            uuid = decode_text(pynvml.nvmlDeviceGetUUID(handle))
        except pynvml.NVMLError as error:
            self._note_failed_index(index, error)
            raise
        self._failed_indices.pop(index, None)
        self._indices[uuid] = index
        self._handles[uuid] = handle
        return uuid

    @translate_nvml_errors
    def gpu(self, gpu: str) -> Gpu:
        """See `GpuHardware`."""
        try:
            handle = self._handles[gpu] = _find_handle(gpu)
            return self._read_gpu(gpu, pynvml.nvmlDeviceGetIndex(handle), handle)
        except (GpuNotFoundError, pynvml.NVMLError_GpuIsLost):
            # While a lost GPU is in the event set, NVML reports no events of other GPUs.
            self._handles.pop(gpu, None)
            raise

    @translate_nvml_errors
    def profiles(self, gpu: str) -> tuple[Profile, ...]:
        """See `GpuHardware`."""
        if gpu in self._profiles:
            return self._profiles[gpu]
        profiles, errors = read_profiles(self._handle(gpu))
        if errors != self._placement_errors.get(gpu, {}):
            self._placement_errors[gpu] = errors
            _log.warning(
                "%s: profiles are not offered because NVML does not return their placements: %s",
                gpu,
                ", ".join(f"ID {profile} ({pynvml.NVMLError(code)})" for profile, code in errors.items())
                or "none",
            )
        if _PERMANENT_ERRORS.issuperset(errors.values()):
            self._profiles[gpu] = profiles
        return profiles

    @translate_nvml_errors
    def gpu_instances(self, gpu: str) -> tuple[GpuInstance, ...]:
        """See `GpuHardware`."""
        return read_gpu_instances(self._handle(gpu), self.profiles(gpu))

    @translate_nvml_errors
    def find_gpu_instance(self, gpu: str, profile_id: int, placement: Placement) -> GpuInstance | None:
        """See `GpuHardware`."""
        profile = self._find_profile(gpu, profile_id)
        return find_gpu_instance(self._handle(gpu), profile, placement) if profile is not None else None

    @translate_nvml_errors
    def mig_devices(self, gpu: str, instance: GpuInstance) -> tuple[MigDevice, ...]:
        """See `GpuHardware`."""
        handle = self._instance(gpu, instance.id)
        return read_mig_devices(instance, handle, self._read_compute_profiles(gpu, instance, handle))

    @translate_nvml_errors
    def create_gpu_instance(self, gpu: str, profile_id: int, placement: Placement) -> GpuInstance:
        """See `GpuHardware`."""
        return create_gpu_instance(self._handle(gpu), profile_id, placement)

    @translate_nvml_errors
    def create_compute_instance(self, gpu: str, instance: GpuInstance) -> MigDevice:
        """See `GpuHardware`."""
        handle = self._instance(gpu, instance.id)
        profile = self._find_profile(gpu, instance.profile_id)
        if profile is None:
            raise NotSupportedError(f"{gpu} has no profile {instance.profile_id}", "create_compute_instance", 3)
        profiles = self._read_compute_profiles(gpu, instance, handle)
        return create_compute_instance(instance, handle, profiles, profile.slices)

    @translate_nvml_errors
    def destroy_compute_instance(self, gpu: str, gpu_instance: int, compute_instance: int) -> None:
        """See `GpuHardware`."""
        instance = self._instance(gpu, gpu_instance)
        pynvml.nvmlComputeInstanceDestroy(
            pynvml.nvmlGpuInstanceGetComputeInstanceById(instance, compute_instance)
        )

    @translate_nvml_errors
    def destroy_gpu_instance(self, gpu: str, gpu_instance: int) -> None:
        """See `GpuHardware`."""
        pynvml.nvmlGpuInstanceDestroy(self._instance(gpu, gpu_instance))

    @translate_nvml_errors
    def set_mig_mode(self, gpu: str, *, enabled: bool) -> MigMode:
        """See `GpuHardware`."""
        handle = self._handle(gpu)
        status = pynvml.nvmlDeviceSetMigMode(handle, int(enabled))
        self._mig_switched = True
        # NVML also reports success if the new mode is only pending. The status then contains the reason.
        if status not in {pynvml.NVML_SUCCESS, pynvml.NVML_ERROR_RESET_REQUIRED}:
            raise convert_return_code(status, f"set_mig_mode of {gpu}")
        mode = read_mig_mode(handle)
        if mode is None:
            raise NotSupportedError(f"{gpu} does not support MIG", "nvmlDeviceGetMigMode", 3)
        return mode

    @translate_nvml_errors
    def compute_mode(self, gpu: str) -> ComputeMode:
        """See `GpuHardware`."""
        return ComputeMode(pynvml.nvmlDeviceGetComputeMode(self._handle(gpu)))

    @translate_nvml_errors
    def set_compute_mode(self, gpu: str, mode: ComputeMode) -> None:
        """See `GpuHardware`."""
        handle = self._handle(gpu)
        if (mig := read_mig_mode(handle)) is not None and mig.current:
            raise NotSupportedError(
                f"{gpu}: the compute mode cannot be set while MIG is on", "set_compute_mode", 3
            )
        pynvml.nvmlDeviceSetComputeMode(handle, mode.value)

    def set_time_slice(self, gpu: str, time_slice: TimeSlice) -> None:
        """See `GpuHardware`."""
        set_time_slice(gpu, time_slice, self._driver_root, self._library)

    @translate_nvml_errors
    def processes(self, gpu: str) -> tuple[Process, ...]:
        """See `GpuHardware`."""
        handle, found = self._handle(gpu), dict[tuple[int, int | None, int | None], Process]()
        for calls in _PROCESS_CALLS:
            answer: list[pynvml.c_nvmlProcessInfo_v3_t] = []
            for call in calls:
                with suppress(pynvml.NVMLError_FunctionNotFound, pynvml.NVMLError_NotSupported):
                    answer = call(handle)
                    break
            for each in answer:
                ids = convert_instance_ids(each.gpuInstanceId, each.computeInstanceId)
                found[each.pid, *ids] = Process(each.pid, each.usedGpuMemory, *ids)
        return tuple(sorted(found.values(), key=lambda process: process.pid))

    @translate_nvml_errors
    def recovery_action(self, gpu: str) -> RecoveryAction | None:
        """See `GpuHardware`."""
        number = pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
        field = call_or_default(lambda: pynvml.nvmlDeviceGetFieldValues(self._handle(gpu), [number])[0], None)
        if field is None or field.nvmlReturn != pynvml.NVML_SUCCESS:
            return None
        try:
            return RecoveryAction(field.value.uiVal)
        except ValueError:
            return RecoveryAction.UNKNOWN

    @translate_nvml_errors
    def wait_event(self, timeout: float) -> Event | None:
        """See `GpuHardware`."""
        with self._event_set_lock:
            event_set = self._event_set
            if event_set is None:
                return None
            if not self._handles:
                self._find_handles()  # the first wait, or all GPUs are lost
            handles = dict(self._handles)
            if self._mig_switched or event_set.gpus.keys() - handles.keys():
                # GPUs were removed or reset. Events of the present GPUs are received from now on.
                self._mig_switched = False
                event_set = self._event_set = event_set.replace(handles)
            for uuid, handle in handles.items():
                if uuid not in event_set.gpus:
                    event_set.add(uuid, handle)
            return event_set.wait(timeout)

    def _handle(self, gpu: str) -> Handle:
        if gpu not in self._handles:
            self._handles[gpu] = _find_handle(gpu)
        return self._handles[gpu]

    def _find_handles(self) -> None:
        for index in range(self.count()):
            with suppress(GpuError):
                self.uuid_at(index)

    def _note_failed_index(self, index: int, error: pynvml.NVMLError) -> None:
        """Log a GPU that does not tell its UUID, once. A lost GPU's events are not waited for any more."""
        uuid = next((uuid for uuid, known in self._indices.items() if known == index), None)
        if uuid is not None and error.value == pynvml.NVML_ERROR_GPU_IS_LOST:
            self._handles.pop(uuid, None)
        if uuid is None and self._failed_indices.get(index) != error.value:
            _log.warning("GPU with index %d is skipped, its UUID is unknown: NVML returned %s", index, error)
        self._failed_indices[index] = error.value

    def _forget_other_driver(self) -> None:
        """Forget the profiles of another version of the driver. They outlive `close`, unlike the rest."""
        version = decode_text(pynvml.nvmlSystemGetDriverVersion())
        if version != self._version:
            self._version = version
            self._profiles, self._compute_profiles, self._placement_errors = {}, {}, {}

    def _read_gpu(self, uuid: str, index: int, handle: Handle) -> Gpu:
        if uuid in self._gpus:
            return update_gpu(self._gpus[uuid], index, handle)
        gpu = read_gpu(uuid, index, handle, self._sysfs)
        if gpu.brand and gpu.architecture:  # else the GPU did not report everything, and is read again
            self._gpus[uuid] = gpu
        return gpu

    def _find_profile(self, gpu: str, profile_id: int) -> Profile | None:
        return next((profile for profile in self.profiles(gpu) if profile.id == profile_id), None)

    def _read_compute_profiles(
        self, gpu: str, instance: GpuInstance, handle: InstanceHandle
    ) -> tuple[ComputeProfile, ...]:
        key = gpu, instance.profile_id
        if key not in self._compute_profiles:
            profiles = read_compute_profiles(handle)
            if not profiles:  # every GPU instance has at least one profile, so a call has failed
                raise NotSupportedError(
                    f"{gpu} reports no compute instance profiles of GPU instance {instance.id}",
                    "nvmlGpuInstanceGetComputeInstanceProfileInfo",
                    3,
                )
            self._compute_profiles[key] = profiles
        return self._compute_profiles[key]

    def _instance(self, gpu: str, gpu_instance: int) -> InstanceHandle:
        return pynvml.nvmlDeviceGetGpuInstanceById(self._handle(gpu), gpu_instance)


def _find_handle(gpu: str) -> Handle:
    """Return the present handle of the GPU with this UUID.

    Raises:
        GpuNotFoundError: NVML does not know the GPU. In other calls, NOT_FOUND means that an instance does not
            exist.
        NVMLError: NVML returns another error.
    """
    try:
        return pynvml.nvmlDeviceGetHandleByUUID(gpu)
    except pynvml.NVMLError_NotFound as error:
        raise GpuNotFoundError(f"GPU {gpu} does not exist", "nvmlDeviceGetHandleByUUID", error.value) from error
