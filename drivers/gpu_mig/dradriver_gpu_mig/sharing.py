"""Sharing of a device by the processes of a claim: settings of the GPU, and edits of the containers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import dradriver as dra
from dradriver_gpu_mig.card import ComputeMode, Hardware, TimeSlice
from dradriver_gpu_mig.configs import GpuConfig, MigDeviceConfig, MpsConfig
from dradriver_gpu_mig.instances import Record
from dradriver_gpu_mig.settings import Mps

__all__ = ["apply", "checked", "mps_edits", "requested_sharing", "restore"]

_MODES: Final = {
    "Default": ComputeMode.DEFAULT,
    "ExclusiveProcess": ComputeMode.EXCLUSIVE_PROCESS,
    "Prohibited": ComputeMode.PROHIBITED,
}
_SLICES: Final = {
    "Default": TimeSlice.DEFAULT,
    "Short": TimeSlice.SHORT,
    "Medium": TimeSlice.MEDIUM,
    "Long": TimeSlice.LONG,
}


def checked(device: dra.AllocatedDevice, *, whole: bool) -> GpuConfig | MigDeviceConfig | None:
    """Return the configuration of a device, or None if the claim has none.

    Raises:
        DraError: the claim has only a configuration for the other kind of device.
    """
    gpu, mig = device.config(GpuConfig), device.config(MigDeviceConfig)
    if whole:
        if gpu is None and mig is not None:
            raise dra.DraError(f"{device.name} is a whole GPU: it takes GpuConfig, not MigDeviceConfig")
        return gpu
    if mig is None and gpu is not None:
        raise dra.DraError(f"{device.name} is a MIG device: it takes MigDeviceConfig, not GpuConfig")
    return mig


def requested_sharing(
    config: GpuConfig | MigDeviceConfig | None,
) -> tuple[ComputeMode | None, TimeSlice | None]:
    """Return the compute mode and time slice that a configuration requests; None: unchanged."""
    if not isinstance(config, GpuConfig):
        return None, None
    slicing = config.sharing.time_slicing_config if config.sharing else None
    mode = _MODES[config.compute_mode] if config.compute_mode else None
    return mode, _SLICES[slicing.interval] if slicing else None


def apply(hardware: Hardware, gpu: str, mode: ComputeMode | None, time_slice: TimeSlice | None) -> None:
    """Set the requested compute mode and time slice. Repeating the call is a no-op. Blocking."""
    if mode is not None:
        hardware.set_compute_mode(gpu, mode)
    if time_slice is not None:
        hardware.set_time_slice(gpu, time_slice)


def restore(hardware: Hardware, record: Record) -> None:
    """Revert the settings of a claim.

    Time slices cannot be read, so they are set to the driver's default. Blocking.
    """
    if record.compute_mode is not None:
        hardware.set_compute_mode(record.gpu, record.compute_mode)
    if record.time_slice:
        hardware.set_time_slice(record.gpu, TimeSlice.DEFAULT)


def mps_edits(config: GpuConfig | MigDeviceConfig | None, mps: Mps | None, root: Path) -> dra.ContainerEdits:
    """Return the edits that make a container's programs MPS clients; empty if MPS is not requested. Blocking.

    Args:
        config: configuration of the claim.
        mps: the node's control daemon; None: there is none.
        root: root of the node, as this process sees it.

    Raises:
        DraError: MPS is requested and no control daemon runs.
    """
    sharing = config.sharing if config else None
    if sharing is None or sharing.strategy != "MPS":
        return dra.ContainerEdits()
    if mps is None:
        raise dra.DraError("the claim asks for MPS, and the settings of this node name no MPS control daemon")
    pipes = Path(mps.pipe_directory)
    if not (root / pipes.relative_to("/") / "control").exists():
        raise dra.DraError(f"the claim asks for MPS, and no control daemon listens in {pipes} of this node")
    return dra.ContainerEdits(
        env=dict(_variables(sharing.mps_config or MpsConfig(), mps)),
        mounts=[dra.Mount(str(pipes), str(pipes), ["rw"]), dra.Mount("/dev/shm", "/dev/shm", ["rw"])],  # noqa: S108 - where MPS has its shared memory
    )


def _variables(config: MpsConfig, mps: Mps) -> Iterator[tuple[str, str]]:
    yield "CUDA_MPS_PIPE_DIRECTORY", mps.pipe_directory
    if config.default_active_thread_percentage is not None:
        yield "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", str(config.default_active_thread_percentage)
    if config.default_pinned_device_memory_limit is not None:
        mebibytes = int(dra.Quantity(config.default_pinned_device_memory_limit)) >> 20
        yield "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", f"0={mebibytes}M"
