"""Run the driver with `python -m dradriver_fpga`."""

import dradriver as dra
from dradriver_fpga import FpgaDriver

dra.run(FpgaDriver)
