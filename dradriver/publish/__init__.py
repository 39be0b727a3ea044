"""Devices and counter sets of a driver as ResourceSlices on the API server.

Read it in this order:

1. `controller`: one loop for a driver; owns a worker for each pool.
2. `pool_worker`: one pool over time: a try, the wait after it, the pool's status.
3. `layout` and `plan`: the pure planner, from the wanted pool and the stored slices to the writes.
4. `writer`: executes the writes and records what the server stored.

`features` decides what may be published while the server drops fields, `holds` what has to wait for claims.

Law of this package: what to publish (`layout`), what to write next (`plan`), what the server dropped
(`features.dropped_fields`) and what has to wait (`holds.pinned_changes`) are pure functions; the workers do
nothing that those functions did not decide. A pool that is wrong, refused or held never stops another one, and
nothing is left published that is unsafe without a field that the server dropped.
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
