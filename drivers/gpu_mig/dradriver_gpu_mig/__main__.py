"""Run the driver with `python -m dradriver_gpu_mig`."""

import dradriver as dra
from dradriver_gpu_mig import GpuDriver

dra.run(GpuDriver)
