"""What the configuration of a claim says about compute mode, time slice and MPS, and settings of a GPU."""

from typing import Final, NamedTuple

from msgspec.structs import replace

import dradriver as dra
from dradriver_gpu_mig.card import ComputeMode, GpuHardware, TimeSlice
from dradriver_gpu_mig.configs import GpuConfig, MigDeviceConfig, MpsConfig, TimeSlicingConfig
from dradriver_gpu_mig.instances import DeviceRecord, Holder

__all__ = [
    "GpuSettingsOfClaim",
    "apply_settings",
    "find_mps_config",
    "merge_holder",
    "read_settings",
    "restore_settings",
    "select_config",
]

_COMPUTE_MODES: Final = {
    "Default": ComputeMode.DEFAULT,
    "ExclusiveProcess": ComputeMode.EXCLUSIVE_PROCESS,
    "Prohibited": ComputeMode.PROHIBITED,
}
_TIME_SLICES: Final = {
    "Default": TimeSlice.DEFAULT,
    "Short": TimeSlice.SHORT,
    "Medium": TimeSlice.MEDIUM,
    "Long": TimeSlice.LONG,
}


class GpuSettingsOfClaim(NamedTuple):
    """Settings of a GPU that a claim needs.

    Attributes:
        compute_mode: the compute mode; None: the claim does not change it.
        time_slice: the time slice; None: the claim does not change it.
    """

    compute_mode: ComputeMode | None = None
    time_slice: TimeSlice | None = None


def select_config(device: dra.AllocatedDevice, *, is_whole_gpu: bool) -> GpuConfig | MigDeviceConfig | None:
    """Return the configuration of a device, or None if the claim has none.

    Args:
        device: the device of the claim.
        is_whole_gpu: whether the device is a whole GPU; otherwise it is a MIG device.

    Raises:
        DraError: the claim has only a configuration for another kind of device.
    """
    gpu, mig = device.config(GpuConfig), device.config(MigDeviceConfig)
    if is_whole_gpu:
        if gpu is None and mig is not None:
            raise dra.DraError(f"device {device.name}: a whole GPU needs GpuConfig, not MigDeviceConfig")
        return gpu
    if mig is None and gpu is not None:
        raise dra.DraError(f"device {device.name}: a MIG device needs MigDeviceConfig, not GpuConfig")
    return mig


def find_mps_config(device: dra.AllocatedDevice, *, is_whole_gpu: bool) -> MpsConfig | None:
    """Return the configuration of MPS if a claim requests MPS for a device; else None.

    Args:
        device: the device of the claim.
        is_whole_gpu: whether the device is a whole GPU; otherwise it is a MIG device.
    """
    config = None if device.admin_access else select_config(device, is_whole_gpu=is_whole_gpu)
    if config is None or config.sharing is None or config.sharing.strategy != "MPS":
        return None
    return config.sharing.mps_config or MpsConfig()


def read_settings(
    device: str, config: GpuConfig | MigDeviceConfig | None, *, shared: bool
) -> GpuSettingsOfClaim:
    """Return the settings that a claim needs.

    A GPU with MPS gets the compute mode `ExclusiveProcess`, so that only the claim's MPS server uses it. The
    mode of a shared GPU is not changed, because each claim has processes of its own on it.

    Args:
        device: name of the device.
        config: configuration of the claim; None: it has none.
        shared: whether the claim has a share of the device.

    Raises:
        DraError: the claim requests a compute mode that excludes the other claims of a shared GPU.
    """
    if not isinstance(config, GpuConfig):
        return GpuSettingsOfClaim()
    mode = _COMPUTE_MODES[config.compute_mode] if config.compute_mode else None
    if shared and mode not in {None, ComputeMode.DEFAULT}:
        raise dra.DraError(
            f"device {device}: computeMode: must be Default, because the claim has a share of the GPU "
            "(consumableShares), and other claims may use it"
        )
    if config.sharing is None:
        return GpuSettingsOfClaim(mode)
    if config.sharing.strategy == "MPS":
        return GpuSettingsOfClaim(mode if shared else mode or ComputeMode.EXCLUSIVE_PROCESS)
    slicing = config.sharing.time_slicing_config or TimeSlicingConfig()
    return GpuSettingsOfClaim(mode, _TIME_SLICES[slicing.interval])


def merge_holder(record: DeviceRecord, holder: Holder) -> Holder:
    """Return a holder with what the claim has set for other shares of the device.

    Args:
        record: the present record of the device.
        holder: the claim, with what it needs for one share.

    Raises:
        DraError: another claim, or another share of this claim, has set another time slice. A GPU has one time
            slice for all processes.
    """
    for other in record.holders:
        if holder.time_slice is None or other.time_slice is None or other.time_slice is holder.time_slice:
            continue
        interval = other.time_slice.name.capitalize()
        raise dra.DraError(
            f"device {record.device}: timeSlicingConfig.interval: must be {interval}, which the claim with UID "
            f"{other.claim} has set: a GPU has one time slice for all processes"
        )
    own = next((each for each in record.holders if each.claim == holder.claim), None)
    if own is None or holder.time_slice is not None:
        return holder
    return replace(holder, time_slice=own.time_slice, has_unknown_time_slice=own.has_unknown_time_slice)


# The functions below run on the hardware's thread.


def apply_settings(hardware: GpuHardware, gpu: str, wanted: GpuSettingsOfClaim) -> None:
    """Apply the settings of a claim. Repeating the call is a no-op. Blocking.

    Args:
        hardware: the cards.
        gpu: UUID of the GPU.
        wanted: the settings.
    """
    if wanted.compute_mode is not None:
        hardware.set_compute_mode(gpu, wanted.compute_mode)
    if wanted.time_slice is not None:
        hardware.set_time_slice(gpu, wanted.time_slice)


def restore_settings(hardware: GpuHardware, record: DeviceRecord, claim: str) -> None:
    """Restore the settings that no holder but a claim needs.

    Time slices cannot be read, so they are set to the driver's default. Blocking.

    Args:
        hardware: the cards.
        record: the record, with the claim.
        claim: UID of the claim.
    """
    others = record.others(claim)
    if record.compute_mode is not None and not others:
        hardware.set_compute_mode(record.gpu, record.compute_mode)
    is_set = any(holder.sets_time_slice for holder in record.holders)
    if is_set and not any(holder.sets_time_slice for holder in others):
        hardware.set_time_slice(record.gpu, TimeSlice.DEFAULT)
