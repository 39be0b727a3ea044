"""The node's half of the driver: makes attached memory and accelerators usable for claims.

Law of this package: it never talks to the fabric's manager. It reaches hardware only through the names that
`memory` and `accelerator` export.

- `driver`: `FabricCxlDriver`, the class that the SDK calls.
- `settings`: operator settings of a node (`$FABRIC_CXL_SETTINGS`).
- `factory`: chooses real or simulated hardware.
- `devices`: makes devices usable for claims, and takes them back.
- `wanted`: what a claim wants of a device. Pure.
- `plugged`: waits until devices appear.
- `records`: records of what a claim has on the node.
- `status`: problems of the devices that claims have. Pure.
- `containers`: CDI edits of a device. Pure.
- `errors`: errors of the node's half, and their reasons in a claim's status.
"""

from dradriver_fabric_cxl.node.driver import FabricCxlDriver

__all__ = ["FabricCxlDriver"]
