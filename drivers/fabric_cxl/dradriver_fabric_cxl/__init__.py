"""DRA driver for fabric-attached CXL memory, over a Redfish fabric manager.

Law of this package: only `fabric` reaches the fabric manager, and only `memory` and `accelerator` reach the
hardware of a node. All other modules reach them through the names that these packages export.

- `pools`: `FabricPoolsDriver`, the control plane's half of the driver.
- `node`: `FabricCxlDriver`, the node's half of the driver.
- `offer`: computes the pool of devices.
- `fabric`: the fabric, real (Redfish) or simulated.
- `memory`: the CXL memory of a node, real or simulated.
- `accelerator`: the accelerators of a node, real or simulated.
- `configs`: opaque parameters of claims and device classes.
- `attached`: data of an attached device, from the pool driver for the node's driver.
- `names`: names that both drivers share.
- `simulation`: the folder that the simulators of both drivers share.
- `emulator`: a process that emulates a Redfish manager, for tests and demonstrations.
"""

from dradriver_fabric_cxl.configs import MemoryConfig
from dradriver_fabric_cxl.node import FabricCxlDriver
from dradriver_fabric_cxl.pools import FabricPoolsDriver

__all__ = ["FabricCxlDriver", "FabricPoolsDriver", "MemoryConfig"]
