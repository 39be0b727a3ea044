"""Files that outlive the process, and that two processes share during a rolling update.

Law of this package: it knows nothing of GPUs. The owner of a file decides what is in it.

- `durable`: replaces and removes files so that they survive a crash of the node.
- `locks`: one process at a time works on the thing that a file stands for.
- `versions`: recognizes the records that a later version of the driver wrote.
"""

from dradriver_gpu_mig.files.durable import name_path, remove_file, write_file
from dradriver_gpu_mig.files.locks import BusyError, hold_lock
from dradriver_gpu_mig.files.versions import find_later_version

__all__ = ["BusyError", "find_later_version", "hold_lock", "name_path", "remove_file", "write_file"]
