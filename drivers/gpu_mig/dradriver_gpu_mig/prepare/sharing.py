"""What the configuration of a claim says about compute mode, time slice and MPS, and settings of a GPU."""

from typing import Final, NamedTuple

import dradriver as dra
from dradriver_gpu_mig.card import ComputeMode, GpuHardware, TimeSlice
from dradriver_gpu_mig.configs import GpuConfig, MigDeviceConfig, MpsConfig, TimeSlicingConfig
from dradriver_gpu_mig.instances import DeviceRecord

__all__ = [
    "GpuSettingsOfClaim",
    "apply_settings",
    "choose_time_slice",
    "find_mps_config",
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

    A GPU with MPS gets the compute mode `ExclusiveProcess`, so that only the claim's MPS server uses it. A GPU
    that is offered in shares stays in the mode `Default`, because each claim has processes of its own on it.

    Args:
        device: name of the device.
        config: configuration of the claim; None: it has none.
        shared: whether the device is offered in shares.

    Raises:
        DraError: the claim requests a compute mode that excludes the other claims of a shared GPU.
    """
    if not isinstance(config, GpuConfig):
        return GpuSettingsOfClaim()
    mode = _COMPUTE_MODES[config.compute_mode] if config.compute_mode else None
    if shared and mode not in {None, ComputeMode.DEFAULT}:
        raise dra.DraError(
            f"device {device}: computeMode: must be Default, because this node offers the GPU in shares "
            "(consumableShares), and other claims may use it"
        )
    if config.sharing is None:
        return GpuSettingsOfClaim(mode)
    if config.sharing.strategy == "MPS":
        return GpuSettingsOfClaim(mode if shared else mode or ComputeMode.EXCLUSIVE_PROCESS)
    slicing = config.sharing.time_slicing_config or TimeSlicingConfig()
    return GpuSettingsOfClaim(mode, _TIME_SLICES[slicing.interval])


def choose_time_slice(
    device: str, record: DeviceRecord | None, claim: str, wanted: TimeSlice | None
) -> TimeSlice | None:
    """Return the time slice that a claim sets on a device. A GPU has one time slice for all processes.

    Args:
        device: name of the device.
        record: the present record of the device; None: nobody has it.
        claim: UID of the claim.
        wanted: the time slice that the claim requests for this share; None: none.

    Raises:
        DraError: another claim, or another share of this claim, has set another time slice.
    """
    own = None
    for holder in record.holders if record is not None else ():
        if wanted is not None and holder.time_slice is not None and holder.time_slice is not wanted:
            raise dra.DraError(
                f"device {device}: timeSlicingConfig.interval: must be {holder.time_slice.name.capitalize()}, "
                f"which the claim with UID {holder.claim} has set: a GPU has one time slice for all processes"
            )
        if holder.claim == claim:
            own = holder.time_slice
    return own if wanted is None else wanted


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
    is_set = any(holder.time_slice is not None for holder in record.holders)
    if is_set and not any(holder.time_slice is not None for holder in others):
        hardware.set_time_slice(record.gpu, TimeSlice.DEFAULT)
