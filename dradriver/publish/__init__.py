"""Publish devices and counter sets of a driver as ResourceSlices on the API server.

Read it in this order:

1. `controller`: runs one loop for a driver, with a worker for each pool.
2. `pool_worker`: makes the attempts to publish one pool, waits between them, and keeps the pool's status.
3. `layout` and `plan`: pure functions that compute the writes from the wanted pool and the stored slices.
4. `writer`: executes the writes and records the slices that the server stored.

Other modules:

- `context`: the values that the parts of one publisher share during one run.
- `own_slices`: the slices on the API server that belong to one publisher.
- `owner`: the owner reference of the slices.
- `status`: the types for the decision about a pool and for its status.

Rooms:

- `features`: decides what may be published while the server drops fields.
- `holds`: finds changes that must wait because a claim holds a device.

Rules for code in this package: these decisions must be pure functions: the slices to publish (`layout`), the
next writes (`plan`), the fields that the server dropped (`features.dropped_fields`), and the changes that must
wait (`holds.pinned_changes`). Workers must only execute these decisions. An invalid, rejected or pinned pool
must not stop other pools. If the server drops a field without which a device is unsafe, the device must not
stay published.
"""

from dradriver.publish.context import OnDropped, OnStatus
from dradriver.publish.controller import PublishController
from dradriver.publish.features.dropped_fields import DroppedField
from dradriver.publish.holds.allocation_lookup import AllocationLookup
from dradriver.publish.layout import layout, refusals
from dradriver.publish.owner import OwnerRef
from dradriver.publish.status import NodeRef, PoolState, PoolStatus, Writes

__all__ = [
    "AllocationLookup",
    "DroppedField",
    "NodeRef",
    "OnDropped",
    "OnStatus",
    "OwnerRef",
    "PoolState",
    "PoolStatus",
    "PublishController",
    "Writes",
    "layout",
    "refusals",
]
