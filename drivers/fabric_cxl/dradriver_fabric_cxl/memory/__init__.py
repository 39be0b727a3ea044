"""The CXL memory of a node: plugged devices, regions, and how they are used.

Law of this package: it knows memory devices, regions and dax devices, and nothing of claims, fabrics or
Kubernetes. `hardware.Memory` is the only interface. The kernel's sysfs and a simulator implement it, and one
contract suite tests both.

- `hardware`: `Memory`, the interface.
- `node`: `NodeMemory`, the interface for asyncio.
- `values`: properties of the memory as frozen values.
- `errors`: one class for each error that callers distinguish.
- `kernel`: the changes that memory is made with, as the kernel accepts them.
- `actions`: the steps of making memory and taking it back, as values.
- `steps`: decides the next step.
- `executor`: executes the steps.
- `sysfs`: the kernel of this node.
- `simulator`: a node without hardware.
"""

from dradriver_fabric_cxl.memory.errors import (
    CxlMemoryError,
    MemoryDeviceNotFoundError,
    MemoryInUseError,
    NoAddressSpaceError,
    NodeUnsupportedError,
)
from dradriver_fabric_cxl.memory.hardware import Memory
from dradriver_fabric_cxl.memory.node import NodeMemory
from dradriver_fabric_cxl.memory.values import MemoryDevice, MemoryHealth, MemoryMode, UsableMemory

__all__ = [
    "CxlMemoryError",
    "Memory",
    "MemoryDevice",
    "MemoryDeviceNotFoundError",
    "MemoryHealth",
    "MemoryInUseError",
    "MemoryMode",
    "NoAddressSpaceError",
    "NodeMemory",
    "NodeUnsupportedError",
    "UsableMemory",
]
