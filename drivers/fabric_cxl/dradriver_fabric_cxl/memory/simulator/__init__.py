"""Simulated CXL memory of a node, with the kernel's behavior and its dangers.

- `hardware`: `SimulatedMemory`, the memory, and changes of its hardware.
- `kernel`: the changes that the kernel accepts.
- `rules`: their effect on the state.
- `state`: the state, in memory or in a file that outlives the process.
"""

from dradriver_fabric_cxl.memory.simulator.hardware import SimulatedMemory
from dradriver_fabric_cxl.memory.simulator.kernel import MemoryCall, MemoryHook
from dradriver_fabric_cxl.memory.simulator.state import MemoryFileStore, MemoryStore

__all__ = [
    "MemoryCall",
    "MemoryFileStore",
    "MemoryHook",
    "MemoryStore",
    "SimulatedMemory",
]
