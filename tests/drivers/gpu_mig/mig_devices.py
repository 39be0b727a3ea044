"""Lists the MIG devices of a GPU."""

from dradriver_gpu_mig.card import GpuHardware, MigDevice

__all__ = ["list_mig_devices"]


def list_mig_devices(hardware: GpuHardware, gpu: str) -> tuple[MigDevice, ...]:
    """Return the MIG devices of all GPU instances of a GPU."""
    return tuple(
        device for instance in hardware.gpu_instances(gpu) for device in hardware.mig_devices(gpu, instance)
    )
