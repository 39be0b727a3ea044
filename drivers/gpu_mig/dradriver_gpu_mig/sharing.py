"""Sharing of a device by the processes of a claim: settings of the GPU, and edits of the containers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import dradriver as dra
from dradriver_gpu_mig.card import ComputeMode, GpuHardware, TimeSlice
from dradriver_gpu_mig.configs import GpuConfig, MigDeviceConfig, MpsConfig, TimeSlicingConfig
from dradriver_gpu_mig.instances import DeviceRecord
from dradriver_gpu_mig.settings import MpsSettings

__all__ = ["apply_sharing", "make_mps_edits", "read_sharing", "restore_sharing", "select_config"]

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


def select_config(device: dra.AllocatedDevice, *, is_whole_gpu: bool) -> GpuConfig | MigDeviceConfig | None:
    """Return the configuration of a device, or None if the claim has none.

    Raises:
        DraError: the device is a whole GPU, and the claim has only a configuration for MIG devices, or vice
            versa.
    """
    gpu, mig = device.config(GpuConfig), device.config(MigDeviceConfig)
    if is_whole_gpu:
        if gpu is None and mig is not None:
            raise dra.DraError(f"device {device.name}: a whole GPU needs GpuConfig, not MigDeviceConfig")
        return gpu
    if mig is None and gpu is not None:
        raise dra.DraError(f"device {device.name}: a MIG device needs MigDeviceConfig, not GpuConfig")
    return mig


def read_sharing(config: GpuConfig | MigDeviceConfig | None) -> tuple[ComputeMode | None, TimeSlice | None]:
    """Return the requested compute mode and time slice; None: the configuration does not change the value."""
    if not isinstance(config, GpuConfig):
        return None, None
    mode = _COMPUTE_MODES[config.compute_mode] if config.compute_mode else None
    if config.sharing is None or config.sharing.strategy != "TimeSlicing":
        return mode, None
    slicing = config.sharing.time_slicing_config or TimeSlicingConfig()
    return mode, _TIME_SLICES[slicing.interval]


def apply_sharing(
    hardware: GpuHardware, gpu: str, mode: ComputeMode | None, time_slice: TimeSlice | None
) -> None:
    """Set the requested compute mode and time slice. Repeating the call is a no-op. Blocking."""
    if mode is not None:
        hardware.set_compute_mode(gpu, mode)
    if time_slice is not None:
        hardware.set_time_slice(gpu, time_slice)


def restore_sharing(hardware: GpuHardware, record: DeviceRecord) -> None:
    """Revert the settings of a claim.

    Time slices cannot be read, so they are set to the driver's default. Blocking.
    """
    if record.compute_mode is not None:
        hardware.set_compute_mode(record.gpu, record.compute_mode)
    if record.time_slice:
        hardware.set_time_slice(record.gpu, TimeSlice.DEFAULT)


def make_mps_edits(
    config: GpuConfig | MigDeviceConfig | None, mps: MpsSettings | None, root: Path
) -> dra.ContainerEdits:
    """Return the edits that make a container's programs MPS clients; empty if MPS is not requested. Blocking.

    Args:
        config: configuration of the claim.
        mps: the node's control daemon; None: no daemon runs.
        root: root of the node, as this process sees it.

    Raises:
        DraError: MPS is requested, but no control daemon runs.
    """
    sharing = config.sharing if config else None
    if sharing is None or sharing.strategy != "MPS":
        return dra.ContainerEdits()
    if mps is None:
        raise dra.DraError("the claim requests MPS, and the settings of this node have no MPS control daemon")
    pipe_folder = Path(mps.pipe_directory)
    if not (root / pipe_folder.relative_to("/") / "control").exists():
        raise dra.DraError(
            f"the claim requests MPS, and no MPS control daemon listens in {pipe_folder} of this node"
        )
    return dra.ContainerEdits(
        env=dict(_make_variables(sharing.mps_config or MpsConfig(), mps)),
        mounts=[
            dra.Mount(str(pipe_folder), str(pipe_folder), ["rw"]),
            dra.Mount("/dev/shm", "/dev/shm", ["rw"]),  # noqa: S108 - the folder of MPS' shared memory
        ],
    )


def _make_variables(config: MpsConfig, mps: MpsSettings) -> Iterator[tuple[str, str]]:
    yield "CUDA_MPS_PIPE_DIRECTORY", mps.pipe_directory
    if config.default_active_thread_percentage is not None:
        yield "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", str(config.default_active_thread_percentage)
    if config.default_pinned_device_memory_limit is not None:
        mebibytes = int(dra.Quantity(config.default_pinned_device_memory_limit)) >> 20
        yield "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", f"0={mebibytes}M"
