"""Reads cards without asyncio."""

from dradriver_gpu_mig.card import GpuHardware, MigDevice
from dradriver_gpu_mig.snapshot import GpuCard, read_gpu

__all__ = ["list_mig_devices", "read_cards"]


def list_mig_devices(hardware: GpuHardware, gpu: str) -> tuple[MigDevice, ...]:
    """Return the MIG devices of all GPU instances of a GPU."""
    return tuple(
        device for instance in hardware.gpu_instances(gpu) for device in hardware.mig_devices(gpu, instance)
    )


def read_cards(hardware: GpuHardware) -> dict[str, GpuCard]:
    """Return the present state of all GPUs, by UUID."""
    return {gpu.uuid: read_gpu(hardware, gpu) for gpu in hardware.gpus()}
