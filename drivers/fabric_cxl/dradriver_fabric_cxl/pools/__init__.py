"""The driver of the control plane: hands out the devices of a fabric, and attaches and detaches them.

- `driver`: `FabricPoolsDriver`, the class that the SDK calls.
- `settings`: the operator's settings (`$FABRIC_CXL_POOLS_SETTINGS`).
- `access`: the fabric as this process uses it.
- `requests`: what the fabric is asked for, for a device that the scheduler has allocated.
- `allocator`, `room`, `wanted`: hands out devices by the controller (KEP-3063): executes, chooses, and reads
  what claims want.
- `factory`: chooses a real or a simulated fabric.
- `simulated`: a simulated fabric that plugs memory into simulated nodes.
- `attach_errors`: maps failures to conditions in a claim's status.
"""

from dradriver_fabric_cxl.pools.driver import FabricPoolsDriver

__all__ = ["FabricPoolsDriver"]
