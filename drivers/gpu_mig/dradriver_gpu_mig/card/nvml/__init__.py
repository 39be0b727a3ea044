"""Real cards through `pynvml` (nvidia-ml-py).

Law of this package: NVML's numbers, structures, handles and the library are used only here. It reads and
writes hardware and makes no decisions.

- `hardware`: `NvmlHardware`, the implementation of `Hardware`.
- `discovery`: reads a GPU and its profiles.
- `instances`: reads, creates and destroys instances.
- `events`: waits for events.
- `time_slices`: sets time slices with `nvidia-smi`.
- `library`: finds and loads libnvidia-ml.so.1.
- `return_codes`: turns NVML's return codes into errors.
"""

from dradriver_gpu_mig.card.nvml.hardware import NvmlHardware
from dradriver_gpu_mig.card.nvml.library import find_library

__all__ = ["NvmlHardware", "find_library"]
