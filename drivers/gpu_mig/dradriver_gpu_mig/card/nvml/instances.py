"""Reads, creates and destroys instances of a GPU."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from ctypes import byref, c_uint
from typing import NamedTuple, TypeAlias

import pynvml

from dradriver_gpu_mig.card.nvml.discovery import Handle, decode_text
from dradriver_gpu_mig.card.nvml.return_codes import call_or_default
from dradriver_gpu_mig.card.values import GpuInstance, MigDevice, Placement, Profile

__all__ = [
    "ComputeProfile",
    "InstanceHandle",
    "create_compute_instance",
    "create_gpu_instance",
    "find_gpu_instance",
    "read_compute_profiles",
    "read_gpu_instances",
    "read_mig_devices",
]

InstanceHandle: TypeAlias = pynvml.c_nvmlGpuInstance_t


class ComputeProfile(NamedTuple):
    """One kind of compute instance. All GPU instances of a profile have the same kinds.

    Attributes:
        id: number that a call passes to create or list compute instances.
        slices: compute slices of a compute instance.
        max_instances: maximum number of such compute instances in an empty GPU instance.
    """

    id: int
    slices: int
    max_instances: int


def read_gpu_instances(handle: Handle, profiles: tuple[Profile, ...]) -> tuple[GpuInstance, ...]:
    """Return the existing GPU instances, sorted by ID. NVML lists instances only by profile."""
    found: list[GpuInstance] = []
    for profile in profiles:
        try:
            found += _read_instances_of(handle, profile)
        except pynvml.NVMLError_NotSupported:
            if _is_mig_enabled(handle):
                raise  # MIG is on, so the error has another reason
            return ()
    return tuple(sorted(found, key=lambda each: each.id))


def find_gpu_instance(handle: Handle, profile: Profile, placement: Placement) -> GpuInstance | None:
    """Return the GPU instance with a profile and a placement, or None."""
    try:
        instances = _read_instances_of(handle, profile)
        return next((each for each in instances if each.placement == placement), None)
    except pynvml.NVMLError_NotSupported:
        if _is_mig_enabled(handle):
            raise
        return None


def read_mig_devices(
    instance: GpuInstance, handle: InstanceHandle, profiles: Sequence[ComputeProfile]
) -> tuple[MigDevice, ...]:
    """Return the MIG devices of a GPU instance, sorted by ID.

    A compute instance refers to its MIG device. NVML also lists the MIG devices of a whole GPU by index, but on
    a busy node that takes seconds.
    """
    found: list[MigDevice] = []
    for profile in profiles:
        limit = profile.max_instances
        buffer, count = (pynvml.c_nvmlComputeInstance_t * limit)(), c_uint(limit)
        pynvml.nvmlGpuInstanceGetComputeInstances(handle, profile.id, buffer, byref(count))
        found += (_read_mig_device(instance, compute) for compute in buffer[: count.value])
    return tuple(sorted(set(found), key=lambda each: each.compute_instance))


def create_gpu_instance(handle: Handle, profile: int, placement: Placement) -> GpuInstance:
    """Create a GPU instance at a placement."""
    nvml_placement = pynvml.c_nvmlGpuInstancePlacement_t(placement.start, placement.size)
    return _read_gpu_instance(
        pynvml.nvmlDeviceCreateGpuInstanceWithPlacement(handle, profile, byref(nvml_placement))
    )


def create_compute_instance(
    instance: GpuInstance, handle: InstanceHandle, profiles: Sequence[ComputeProfile], slices: int
) -> MigDevice:
    """Create the compute instance that uses all `slices` of a GPU instance."""
    profile = next((each for each in profiles if each.slices == slices), None)
    if profile is None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    return _read_mig_device(instance, pynvml.nvmlGpuInstanceCreateComputeInstance(handle, profile.id))


def read_compute_profiles(handle: InstanceHandle) -> tuple[ComputeProfile, ...]:
    """Return the kinds of compute instances of a GPU instance."""
    return tuple(_read_compute_profile_slots(handle))


def _is_mig_enabled(handle: Handle) -> bool:
    """Return whether MIG is on; False for a GPU that does not support MIG."""
    modes: list[int] | None = call_or_default(lambda: pynvml.nvmlDeviceGetMigMode(handle), None)
    return modes is not None and modes[0] == pynvml.NVML_DEVICE_MIG_ENABLE


def _read_instances_of(handle: Handle, profile: Profile) -> Iterator[GpuInstance]:
    buffer, count = (pynvml.c_nvmlGpuInstance_t * profile.max_instances)(), c_uint(profile.max_instances)
    pynvml.nvmlDeviceGetGpuInstances(handle, profile.id, buffer, byref(count))
    return map(_read_gpu_instance, buffer[: count.value])


def _read_gpu_instance(instance: InstanceHandle) -> GpuInstance:
    info = pynvml.nvmlGpuInstanceGetInfo(instance)
    return GpuInstance(info.id, info.profileId, Placement(info.placement.start, info.placement.size))


def _read_mig_device(instance: GpuInstance, compute: pynvml.c_nvmlComputeInstance_t) -> MigDevice:
    info = pynvml.nvmlComputeInstanceGetInfo(compute)
    return MigDevice(decode_text(pynvml.nvmlDeviceGetUUID(info.device)), instance.id, info.id)


def _read_compute_profile_slots(handle: InstanceHandle) -> Iterator[ComputeProfile]:
    for slot in range(pynvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
        with suppress(pynvml.NVMLError_NotSupported, pynvml.NVMLError_InvalidArgument):
            info = _read_compute_profile(handle, slot)
            yield ComputeProfile(info.id, info.sliceCount, info.instanceCount)


def _read_compute_profile(
    instance: InstanceHandle, slot: int
) -> pynvml.c_nvmlComputeInstanceProfileInfo_v2_t | pynvml.c_nvmlComputeInstanceProfileInfo_t:
    engines = pynvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED
    try:
        return pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, slot, engines)
    except (pynvml.NVMLError_FunctionNotFound, pynvml.NVMLError_ArgumentVersionMismatch):
        return pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, slot, engines, version=1)
