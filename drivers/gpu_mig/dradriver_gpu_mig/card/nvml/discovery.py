"""Reads the properties of a GPU."""

from collections.abc import Iterator, Mapping
from ctypes import byref, c_uint
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias
from uuid import UUID

import pynvml

import dradriver as dra
from dradriver_gpu_mig.card.nvml.return_codes import call_or_default
from dradriver_gpu_mig.card.values import Engines, Fabric, Gpu, MigMode, Placement, Profile, Virtualization

__all__ = [
    "Handle",
    "convert_instance_ids",
    "decode_text",
    "read_gpu",
    "read_mig_mode",
    "read_profiles",
    "update_gpu",
]

Handle: TypeAlias = pynvml.c_nvmlDevice_t
"""NVML's reference to a GPU, valid while NVML is initialized."""

_MIB: Final = 1 << 20
_GIB: Final = 1 << 30
_ALL_INSTANCES: Final = 0xFFFFFFFF
_MAX_PROFILE_SLOTS: Final = 64
"""Maximum number of profile slots to read.

It is needed if a card has no profiles and reports no slot as invalid.
"""

_ERRORS_OF_THE_GPU: Final = frozenset(
    {
        pynvml.NVML_ERROR_UNINITIALIZED,
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
        pynvml.NVML_ERROR_GPU_IS_LOST,
        pynvml.NVML_ERROR_RESET_REQUIRED,
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
    }
)
"""Errors that concern the whole GPU and not the profile of the call."""

_BRANDS: Final[Mapping[int, str]] = {
    pynvml.NVML_BRAND_QUADRO: "Quadro",
    pynvml.NVML_BRAND_TESLA: "Tesla",
    pynvml.NVML_BRAND_NVS: "NVS",
    pynvml.NVML_BRAND_GRID: "Grid",
    pynvml.NVML_BRAND_GEFORCE: "GeForce",
    pynvml.NVML_BRAND_TITAN: "Titan",
    pynvml.NVML_BRAND_NVIDIA_VAPPS: "NvidiaVApps",
    pynvml.NVML_BRAND_NVIDIA_VPC: "NvidiaVPC",
    pynvml.NVML_BRAND_NVIDIA_VCS: "NvidiaVCS",
    pynvml.NVML_BRAND_NVIDIA_VWS: "NvidiaVWS",
    pynvml.NVML_BRAND_NVIDIA_CLOUD_GAMING: "NvidiaCloudGaming",
    pynvml.NVML_BRAND_QUADRO_RTX: "QuadroRTX",
    pynvml.NVML_BRAND_NVIDIA_RTX: "NvidiaRTX",
    pynvml.NVML_BRAND_NVIDIA: "Nvidia",
    pynvml.NVML_BRAND_GEFORCE_RTX: "GeForceRTX",
    pynvml.NVML_BRAND_TITAN_RTX: "TitanRTX",
}
_ARCHITECTURES: Final[Mapping[int, str]] = {
    pynvml.NVML_DEVICE_ARCH_KEPLER: "Kepler",
    pynvml.NVML_DEVICE_ARCH_MAXWELL: "Maxwell",
    pynvml.NVML_DEVICE_ARCH_PASCAL: "Pascal",
    pynvml.NVML_DEVICE_ARCH_VOLTA: "Volta",
    pynvml.NVML_DEVICE_ARCH_TURING: "Turing",
    pynvml.NVML_DEVICE_ARCH_AMPERE: "Ampere",
    pynvml.NVML_DEVICE_ARCH_ADA: "Ada Lovelace",
    pynvml.NVML_DEVICE_ARCH_HOPPER: "Hopper",
    pynvml.NVML_DEVICE_ARCH_BLACKWELL: "Blackwell",
    pynvml.NVML_DEVICE_ARCH_RUBIN: "Rubin",
}
_ADDRESSING_MODES: Final[Mapping[int, str]] = {
    pynvml.NVML_DEVICE_ADDRESSING_MODE_NONE: "None",
    pynvml.NVML_DEVICE_ADDRESSING_MODE_HMM: "HMM",
    pynvml.NVML_DEVICE_ADDRESSING_MODE_ATS: "ATS",
}
_NAME_SUFFIXES: Final[Mapping[int, str]] = {
    pynvml.NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV1: "+me",
    pynvml.NVML_GPU_INSTANCE_PROFILE_2_SLICE_REV1: "+me",
    pynvml.NVML_GPU_INSTANCE_PROFILE_1_SLICE_GFX: "+gfx",
    pynvml.NVML_GPU_INSTANCE_PROFILE_2_SLICE_GFX: "+gfx",
    pynvml.NVML_GPU_INSTANCE_PROFILE_3_SLICE_GFX: "+gfx",
    pynvml.NVML_GPU_INSTANCE_PROFILE_4_SLICE_GFX: "+gfx",
    pynvml.NVML_GPU_INSTANCE_PROFILE_1_SLICE_NO_ME: "-me",
    pynvml.NVML_GPU_INSTANCE_PROFILE_2_SLICE_NO_ME: "-me",
    pynvml.NVML_GPU_INSTANCE_PROFILE_1_SLICE_ALL_ME: "+me.all",
    pynvml.NVML_GPU_INSTANCE_PROFILE_2_SLICE_ALL_ME: "+me.all",
}
"""Suffixes of profile names, for drivers that do not report names."""


def decode_text(value: str | bytes) -> str:
    """Return a text of NVML as a string. NVML's structures contain bytes, and its functions return strings."""
    return value.decode() if isinstance(value, bytes) else value


def convert_instance_ids(gpu_instance: int, compute_instance: int) -> tuple[int | None, int | None]:
    """Return the IDs of instances. The number by which NVML means "all instances" becomes None."""
    return (
        None if gpu_instance == _ALL_INSTANCES else gpu_instance,
        None if compute_instance == _ALL_INSTANCES else compute_instance,
    )


def update_gpu(gpu: Gpu, index: int, handle: Handle) -> Gpu:
    """Return a GPU with the properties that can change while the driver is loaded.

    The call that reads the memory fails if the GPU is lost. The other calls may succeed on a lost GPU.
    """
    return replace(
        gpu,
        index=index,
        minor=_read_minor(handle),
        memory=_read_memory(handle),
        mig=read_mig_mode(handle),
        # A GPU registers with its fabric some time after the driver was loaded.
        fabric=_read_fabric(handle) if gpu.fabric and not gpu.fabric.cluster_uuid else gpu.fabric,
    )


def read_gpu(uuid: str, index: int, handle: Handle, sysfs: Path) -> Gpu:
    """Return all properties of a GPU."""
    # NVML returns 00000000:07:00.0; sysfs uses four digits for the domain, and lower case.
    address = decode_text(pynvml.nvmlDeviceGetPciInfo(handle).busId).lower()[-12:]
    root, node = _read_pci_location(address, sysfs)
    return Gpu(
        index=index,
        uuid=uuid,
        minor=_read_minor(handle),
        pci_address=address,
        name=decode_text(pynvml.nvmlDeviceGetName(handle)),
        brand=_BRANDS.get(call_or_default(lambda: pynvml.nvmlDeviceGetBrand(handle), 0), ""),
        architecture=_ARCHITECTURES.get(
            call_or_default(lambda: pynvml.nvmlDeviceGetArchitecture(handle), 0), ""
        ),
        compute_capability=pynvml.nvmlDeviceGetCudaComputeCapability(handle),
        memory=_read_memory(handle),
        mig=read_mig_mode(handle),
        pcie_root=root,
        numa_node=node,
        virtualization=Virtualization(
            call_or_default(lambda: pynvml.nvmlDeviceGetVirtualizationMode(handle), 0)
        ),
        addressing_mode=_ADDRESSING_MODES.get(
            call_or_default(lambda: pynvml.nvmlDeviceGetAddressingMode(handle), -1), ""
        ),
        fabric=_read_fabric(handle),
    )


def _read_fabric(handle: Handle) -> Fabric | None:
    """Return the NVLink fabric; None if the GPU, the platform or the driver has none."""
    info = pynvml.c_nvmlGpuFabricInfo_v2_t()
    answer: int | None = call_or_default(lambda: pynvml.nvmlDeviceGetGpuFabricInfoV(handle, byref(info)), None)
    if answer is None or info.state == pynvml.NVML_GPU_FABRIC_STATE_NOT_SUPPORTED:
        return None
    is_registered = info.state == pynvml.NVML_GPU_FABRIC_STATE_COMPLETED and info.status == pynvml.NVML_SUCCESS
    cluster = bytes(info.clusterUuid)
    return Fabric(str(UUID(bytes=cluster)) if is_registered and any(cluster) else "", info.cliqueId)


def _read_minor(handle: Handle) -> int | None:
    minor: int | None = call_or_default(lambda: pynvml.nvmlDeviceGetMinorNumber(handle), None)
    return minor


def _read_memory(handle: Handle) -> int:
    memory: int = call_or_default(lambda: pynvml.nvmlDeviceGetMemoryInfo(handle).total, 0)
    return memory


def read_mig_mode(handle: Handle) -> MigMode | None:
    """Return whether MIG is on; None if the GPU does not support MIG."""
    modes: list[int] | None = call_or_default(lambda: pynvml.nvmlDeviceGetMigMode(handle), None)
    return None if modes is None else MigMode(*(mode == pynvml.NVML_DEVICE_MIG_ENABLE for mode in modes))


def read_profiles(handle: Handle) -> tuple[tuple[Profile, ...], Mapping[int, int]]:
    """Return the profiles of a GPU, and the errors for profiles whose placements the GPU does not report.

    Returns:
        The profiles, smallest first, and the error (`nvmlReturn_t`) by profile ID. A profile with an error has
        no placements. The other profiles are complete.
    """
    placement_errors: dict[int, int] = {}
    found = {profile.id: profile for profile in _read_profile_slots(handle, placement_errors)}
    ordered = sorted(found.values(), key=lambda each: (each.memory_slices, each.slices, -each.max_instances))
    return tuple(ordered), placement_errors


def _read_pci_location(address: str, sysfs: Path) -> tuple[str, int | None]:
    try:
        found = dra.pci_attributes(address, sysfs=sysfs)
    except dra.DraError:  # sysfs is missing, or is of another machine
        return "", None
    root, node = found.get("resource.kubernetes.io/pcieRoot"), found.get("resource.kubernetes.io/numaNode")
    return root if isinstance(root, str) else "", node if isinstance(node, int) else None


def _read_profile_slots(handle: Handle, placement_errors: dict[int, int]) -> Iterator[Profile]:
    for slot in range(_MAX_PROFILE_SLOTS):
        try:
            info = _read_profile_info(handle, slot)
        except pynvml.NVMLError_NotSupported:
            continue
        except pynvml.NVMLError_InvalidArgument:
            # This error ends the list. Drivers older than pynvml's table also report it for earlier slots.
            if slot >= pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT:
                return
            continue
        except pynvml.NVMLError_FunctionNotFound:
            return
        yield Profile(
            id=info.id,
            name=_read_profile_name(info, slot, handle),
            memory=info.memorySizeMB * _MIB,
            slices=info.sliceCount,
            engines=Engines(
                info.multiprocessorCount,
                info.copyEngineCount,
                info.decoderCount,
                info.encoderCount,
                info.jpegCount,
                info.ofaCount,
            ),
            max_instances=info.instanceCount,
            placements=_read_placements(handle, info.id, placement_errors),
        )


def _read_profile_info(handle: Handle, slot: int) -> pynvml.c_nvmlGpuInstanceProfileInfo_v2_t:
    try:
        return pynvml.nvmlDeviceGetGpuInstanceProfileInfo(handle, slot)
    except (pynvml.NVMLError_FunctionNotFound, pynvml.NVMLError_ArgumentVersionMismatch):
        return pynvml.nvmlDeviceGetGpuInstanceProfileInfo(handle, slot, version=1)


def _read_profile_name(info: pynvml.c_nvmlGpuInstanceProfileInfo_v2_t, slot: int, handle: Handle) -> str:
    if name := decode_text(getattr(info, "name", b"")).removeprefix("MIG "):
        return name
    # The memory of a profile is rounded up to eighths of the GPU's memory: 4864 MiB of 40 GiB is 5gb. For the
    # name, half a GiB is rounded up.
    total = _read_memory(handle)
    eighths = -(-info.memorySizeMB * _MIB * 8 // total) if total else 0
    return f"{info.sliceCount}g.{(eighths * -(-total // _GIB) + 4) // 8}gb{_NAME_SUFFIXES.get(slot, '')}"


def _read_placements(handle: Handle, profile: int, placement_errors: dict[int, int]) -> tuple[Placement, ...]:
    count = c_uint()
    try:
        pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(handle, profile, None, byref(count))
        found = (pynvml.c_nvmlGpuInstancePlacement_t * count.value)()
        pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(handle, profile, found, byref(count))
    except pynvml.NVMLError as error:
        if error.value in _ERRORS_OF_THE_GPU:
            raise
        placement_errors[profile] = error.value
        return ()
    return tuple(sorted(Placement(each.start, each.size) for each in found[: count.value]))
