"""Prints all that can be read of this node's GPUs, as JSON: `python -m tests.drivers.gpu_mig.read_cards`.

A process of its own, because a process has one libnvidia-ml, and that of the other tests is the shim. It exits
with `NOTHING_TO_READ` where there is no driver, or nothing that we may read.
"""

import sys

import msgspec

from dradriver_gpu_mig.card import DriverNotLoadedError, LibraryNotFoundError, NoPermissionError
from dradriver_gpu_mig.card.nvml import NvmlGpus
from tests.drivers.gpu_mig.card_suite import read

NOTHING_TO_READ = 3

if __name__ == "__main__":
    hardware = NvmlGpus()
    try:
        hardware.open()
        sys.stdout.buffer.write(msgspec.json.encode(read(hardware)))
        hardware.close()
    except (DriverNotLoadedError, LibraryNotFoundError, NoPermissionError) as error:
        print(error, file=sys.stderr)
        sys.exit(NOTHING_TO_READ)
