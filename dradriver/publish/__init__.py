"""Publish devices and counter sets of a driver as ResourceSlices on the API server.

Read it in this order:

1. `controller`: one loop for a driver; owns a worker for each pool.
2. `pool_worker`: one pool over time: an attempt, the wait after it, the pool's status.
3. `layout` and `plan`: the pure planner, from the wanted pool and the stored slices to the writes.
4. `writer`: executes the writes and records what the server stored.

Other modules:

- `context`: the values that the parts of one publisher share during one run.
- `own_slices`: the slices on the API server that belong to one publisher.
- `owner`: the owner reference of the slices.
- `status`: the decision and the status of each pool.

Rooms:

- `features`: what may be published while the server drops fields.
- `holds`: changes that wait while a claim holds a device.

Law of this package: what to publish (`layout`), what to write next (`plan`), what the server dropped
(`features.dropped_fields`) and what has to wait (`holds.pinned_changes`) are pure functions. The workers only
execute their decisions. A pool that is invalid, rejected or pinned never stops another one. A pool that is
unsafe without a dropped field never stays published.
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
