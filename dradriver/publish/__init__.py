"""Devices and counter sets of a driver as ResourceSlices on the API server.

Law of this package: what to publish (`layout`), what to write next (`plan`), what the server dropped
(`dropped`) and what has to wait (`holding`) are pure functions; only the publisher's loop talks to the API
server, and it does nothing that those functions did not decide. A pool that is wrong, refused or held never
stops another one, and nothing is left published that is unsafe without a field that the server dropped.
"""

from dradriver.publish.features.dropped_fields import DroppedField
from dradriver.publish.holds.allocation_lookup import Holders
from dradriver.publish.layout import layout, refusals
from dradriver.publish.owner import OwnerRef
from dradriver.publish.publisher import Publisher
from dradriver.publish.status import NodeRef, PoolState, PoolStatus, Writes

__all__ = [
    "DroppedField",
    "Holders",
    "NodeRef",
    "OwnerRef",
    "PoolState",
    "PoolStatus",
    "Publisher",
    "Writes",
    "layout",
    "refusals",
]
