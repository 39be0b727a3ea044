"""Real cards, through `pynvml` (nvidia-ml-py).

Law of this package: NVML's numbers, structures and handles stay in here, and so does the library. It asks and
tells; it decides nothing.
"""

from dradriver_gpu_mig.card.nvml.hardware import NvmlHardware
from dradriver_gpu_mig.card.nvml.library import find_library

__all__ = ["NvmlHardware", "find_library"]
