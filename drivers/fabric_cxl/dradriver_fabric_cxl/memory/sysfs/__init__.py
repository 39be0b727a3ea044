"""CXL memory of this node through the kernel's sysfs, without a vendor's tool.

- `hardware`: `SysfsMemory`, the memory.
- `kernel`: changes the kernel's state.
- `survey`: reads the kernel's state.
- `paths`: the paths of a node's files.
- `files`: reads and writes attributes.
- `programs`: work that other processes do: it can hang, or end in a signal.
- `users`: finds programs that use a character device.
- `mailbox`: asks a device for its health.
- `uevents`: reports that devices were plugged or pulled.
"""

from dradriver_fabric_cxl.memory.sysfs.hardware import SysfsMemory
from dradriver_fabric_cxl.memory.sysfs.paths import MemoryPaths

__all__ = ["MemoryPaths", "SysfsMemory"]
