"""GPUs of NVIDIA and their MIG partitions as devices of DRA, over NVML.

Law of this package: what can be known of a card is asked of the card; nothing of its size, profiles or
placements is written down in code. `card` is the hardware; the rest is the driver, and sees hardware through
`card` alone.
"""

from dradriver_gpu_mig.configs import GpuConfig, MigDeviceConfig
from dradriver_gpu_mig.driver import GpuDriver

__all__ = ["GpuConfig", "GpuDriver", "MigDeviceConfig"]
