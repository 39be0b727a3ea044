"""Reads, creates and destroys instances of a GPU."""

from collections.abc import Iterator
from contextlib import suppress
from ctypes import byref, c_uint
from typing import TypeAlias

import pynvml

from dradriver_gpu_mig.card.nvml.discovery import Handle, decode_text
from dradriver_gpu_mig.card.nvml.return_codes import call_or_default
from dradriver_gpu_mig.card.values import ComputeInstance, GpuInstance, MigDevice, Placement, Profile

__all__ = [
    "InstanceHandle",
    "create_compute_instance",
    "create_gpu_instance",
    "read_compute_instances",
    "read_gpu_instances",
    "read_mig_devices",
]

InstanceHandle: TypeAlias = pynvml.c_nvmlGpuInstance_t


def read_gpu_instances(handle: Handle, profiles: tuple[Profile, ...]) -> tuple[GpuInstance, ...]:
    """Return the existing GPU instances, sorted by ID. NVML lists instances only by profile."""
    found: list[GpuInstance] = []
    for profile in profiles:
        buffer, count = (pynvml.c_nvmlGpuInstance_t * profile.max_instances)(), c_uint(profile.max_instances)
        try:
            pynvml.nvmlDeviceGetGpuInstances(handle, profile.id, buffer, byref(count))
        except pynvml.NVMLError_NotSupported:
            if _is_mig_enabled(handle):
                raise  # MIG is on, so the error has another reason
            return ()
        found += map(_read_gpu_instance, buffer[: count.value])
    return tuple(sorted(found, key=lambda each: each.id))


def read_compute_instances(instance: InstanceHandle) -> tuple[ComputeInstance, ...]:
    """Return the compute instances of a GPU instance, sorted by ID."""
    found: list[ComputeInstance] = []
    for profile, slices, limit in _read_compute_profiles(instance):
        buffer, count = (pynvml.c_nvmlComputeInstance_t * limit)(), c_uint(limit)
        pynvml.nvmlGpuInstanceGetComputeInstances(instance, profile, buffer, byref(count))
        infos = map(pynvml.nvmlComputeInstanceGetInfo, buffer[: count.value])
        found += (ComputeInstance(info.id, slices) for info in infos)
    return tuple(sorted(set(found), key=lambda each: each.id))


def read_mig_devices(handle: Handle) -> tuple[MigDevice, ...]:
    """Return the MIG devices of a GPU, sorted by instance."""
    found: list[MigDevice] = []
    for index in range(call_or_default(lambda: pynvml.nvmlDeviceGetMaxMigDeviceCount(handle), 0)):
        # Indices have gaps, and a device may be destroyed while it is read.
        with suppress(pynvml.NVMLError_NotFound, pynvml.NVMLError_InvalidArgument):
            found.append(_read_mig_device(pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)))
    return tuple(sorted(found, key=lambda each: (each.gpu_instance, each.compute_instance)))


def create_gpu_instance(handle: Handle, profile: int, placement: Placement) -> GpuInstance:
    """Create a GPU instance at a placement."""
    nvml_placement = pynvml.c_nvmlGpuInstancePlacement_t(placement.start, placement.size)
    return _read_gpu_instance(
        pynvml.nvmlDeviceCreateGpuInstanceWithPlacement(handle, profile, byref(nvml_placement))
    )


def create_compute_instance(instance: InstanceHandle, slices: int) -> MigDevice:
    """Create the compute instance that uses all `slices` of a GPU instance."""
    profile = next((profile for profile, count, _ in _read_compute_profiles(instance) if count == slices), None)
    if profile is None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    info = pynvml.nvmlComputeInstanceGetInfo(pynvml.nvmlGpuInstanceCreateComputeInstance(instance, profile))
    # The device's own handle gives the UUID. Listing all MIG devices would take seconds on a busy node.
    gpu_instance = pynvml.nvmlGpuInstanceGetInfo(info.gpuInstance).id
    return MigDevice(decode_text(pynvml.nvmlDeviceGetUUID(info.device)), gpu_instance, info.id)


def _is_mig_enabled(handle: Handle) -> bool:
    """Return whether MIG is on; False for a GPU that does not support MIG."""
    modes: list[int] | None = call_or_default(lambda: pynvml.nvmlDeviceGetMigMode(handle), None)
    return modes is not None and modes[0] == pynvml.NVML_DEVICE_MIG_ENABLE


def _read_gpu_instance(instance: InstanceHandle) -> GpuInstance:
    info = pynvml.nvmlGpuInstanceGetInfo(instance)
    return GpuInstance(info.id, info.profileId, Placement(info.placement.start, info.placement.size))


def _read_mig_device(handle: Handle) -> MigDevice:
    return MigDevice(
        decode_text(pynvml.nvmlDeviceGetUUID(handle)),
        pynvml.nvmlDeviceGetGpuInstanceId(handle),
        pynvml.nvmlDeviceGetComputeInstanceId(handle),
    )


def _read_compute_profiles(instance: InstanceHandle) -> Iterator[tuple[int, int, int]]:
    """Yield the ID, slices and maximum count of each compute instance profile of a GPU instance."""
    for slot in range(pynvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
        with suppress(pynvml.NVMLError_NotSupported, pynvml.NVMLError_InvalidArgument):
            info = _read_compute_profile(instance, slot)
            yield info.id, info.sliceCount, info.instanceCount


def _read_compute_profile(
    instance: InstanceHandle, slot: int
) -> pynvml.c_nvmlComputeInstanceProfileInfo_v2_t | pynvml.c_nvmlComputeInstanceProfileInfo_t:
    engines = pynvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED
    try:
        return pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, slot, engines)
    except (pynvml.NVMLError_FunctionNotFound, pynvml.NVMLError_ArgumentVersionMismatch):
        return pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, slot, engines, version=1)
