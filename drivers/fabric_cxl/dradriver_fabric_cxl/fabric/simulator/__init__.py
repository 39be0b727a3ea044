"""A simulated fabric with the behavior of a manager: tasks, tags, lost answers and other failures on demand.

- `hardware`: `SimulatedFabric`, the fabric.
- `objects`: its objects and tasks, as a manager keeps them.
- `state`: the state, in memory or in a file that outlives the process.
- `faults`: failures on demand.
"""

from dradriver_fabric_cxl.fabric.simulator.faults import FabricCall, FabricFault
from dradriver_fabric_cxl.fabric.simulator.hardware import SimulatedFabric
from dradriver_fabric_cxl.fabric.simulator.objects import FabricHook
from dradriver_fabric_cxl.fabric.simulator.state import (
    FabricFileStore,
    FabricMemoryStore,
    FabricState,
    FabricStore,
    HostState,
)

__all__ = [
    "FabricCall",
    "FabricFault",
    "FabricFileStore",
    "FabricHook",
    "FabricMemoryStore",
    "FabricState",
    "FabricStore",
    "HostState",
    "SimulatedFabric",
]
