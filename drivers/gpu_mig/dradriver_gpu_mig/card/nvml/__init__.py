"""Real cards through `pynvml` (nvidia-ml-py).

Law of this package: no other package may use NVML's numbers, structures, handles or library. This package
reads and writes the hardware and must not make decisions.

- `hardware`: `NvmlGpus`, the implementation of `GpuHardware`.
- `discovery`: reads a GPU and its profiles.
- `instances`: reads, creates and destroys instances.
- `events`: waits for events.
- `time_slices`: sets time slices with `nvidia-smi`.
- `library`: finds and loads libnvidia-ml.so.1.
- `return_codes`: converts NVML's return codes into errors.
"""

from dradriver_gpu_mig.card.nvml.hardware import NvmlGpus
from dradriver_gpu_mig.card.nvml.library import find_library

__all__ = ["NvmlGpus", "find_library"]
