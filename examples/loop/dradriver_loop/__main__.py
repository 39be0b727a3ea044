"""Run the driver with `python -m dradriver_loop`."""

import dradriver as dra
from dradriver_loop import LoopDriver

dra.run(LoopDriver)
