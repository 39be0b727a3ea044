"""Turns pools and claims into allocations, or into a refusal with reasons (KEP-4381, KEP-4815, KEP-5963).

Law of this package: every function is pure and reads only a snapshot. There is no I/O, no clock and no
randomness. The search uses only integers. One search handles all features. The search evaluates selectors
through a provider (`request.selectors`) and reports its progress to a reporter (`explain.refusal`).

The steps of one request:

1. `request` reads the claims.
2. `supply` reads the pools as this node sees them.
3. `search.candidates` finds the devices that can serve each request.
4. `search.plan` joins the requests with their candidates.
5. `search.search` chooses the devices.
6. `result` builds the allocations.

A device is allocated to one claim as a whole. A device that allows multiple allocations can be allocated to
several claims as shares, and each share consumes capacity (`supply.capacity`). The compatibility groups in
force on a counter set are recorded in the claims (`model.resource.recorded_groups`).

Modules:

- `attempt`: allocates the claims of one pod on one node.
- `features`: the feature gates of the allocator.
- `result`: builds `status.allocation` from the chosen devices.

Rooms:

- `request`: claims to subrequests with selectors and constraints.
- `supply`: slices to pools, counters, groups and devices in use.
- `search`: candidates, plan, depth-first search, bounds and proofs.
- `explain`: refusals and verdicts.
- `placement`: decides for all nodes of a cluster that changes, by classes of equal nodes.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from dradriver.allocator.attempt import attempt, wanted_by
from dradriver.allocator.explain.refusal import Kind, Reason, Refusal, Reporter
from dradriver.allocator.features import Features
from dradriver.allocator.request.cel_selectors import CelSelectors
from dradriver.allocator.request.selectors import Deriver, Matcher, SelectorProvider
from dradriver.allocator.result import allocations_of
from dradriver.allocator.supply.devices_in_use import InUse
from dradriver.allocator.supply.node_supply import Supply, offers_on
from dradriver.allocator.supply.nodes import AllocationNode
from dradriver.allocator.supply.order import ORDERED, ORDERS, PACKED, Order
from dradriver.allocator.supply.pools import Inventory, PooledDevice, PoolView
from dradriver.model.resource.claim import Allocation, ResourceClaim
from dradriver.model.resource.deviceclass import DeviceClass

__all__ = [
    "MAX_STEPS",
    "ORDERED",
    "ORDERS",
    "PACKED",
    "AllocationNode",
    "CelSelectors",
    "Deriver",
    "Features",
    "InUse",
    "Inventory",
    "Kind",
    "Matcher",
    "Order",
    "PoolView",
    "PooledDevice",
    "Reason",
    "Refusal",
    "Reporter",
    "SelectorProvider",
    "allocate",
]

MAX_STEPS: Final = 32_000
"""Number of device choices, about one second of work, after which the answer is "undecided"."""

_DEFAULTS: Final = Features()
_SILENT: Final = Reporter()
_CEL: Final = CelSelectors()


def allocate(  # noqa: PLR0913 - the snapshot has this many parts
    claims: Sequence[ResourceClaim],
    inventory: Inventory,
    classes: Mapping[str, DeviceClass],
    in_use: InUse,
    node: AllocationNode,
    *,
    features: Features = _DEFAULTS,
    reporter: Reporter | None = None,
    now: datetime | None = None,
    order: Order = ORDERED,
    selectors: SelectorProvider = _CEL,
    max_steps: int = MAX_STEPS,
) -> Mapping[str, Allocation]:
    """Allocate all claims of one pod on one node, or none.

    Args:
        claims: the pod's claims that have no allocation yet, in the pod's order.
        inventory: all pools.
        classes: all device classes by name.
        in_use: the devices that other claims hold.
        node: the node on which the pod would run.
        features: the enabled features.
        reporter: receives the progress of the search; None reports nothing.
        now: the allocations' timestamp; None leaves it out.
        order: the order in which devices are tried; see `dradriver.allocator.supply.order`.
        selectors: evaluates selectors; CEL, except in tests that replace it.
        max_steps: number of device choices after which the answer is "undecided".

    Returns:
        The allocation of each claim, by claim UID (by `namespace/name` if the claim has no UID).

    Raises:
        Refusal: the claims can't be allocated. `kind` tells whether another node can serve them.
    """
    reporter = reporter or _SILENT
    wanted = wanted_by(claims, classes, features, selectors)
    offers = offers_on(node, inventory, in_use, features, skips_devices=order.skips_devices)
    supply = Supply(offers, features)
    found = attempt(wanted, supply, node, features, order=order, reporter=reporter, max_steps=max_steps)
    return allocations_of(claims, found.chosen(features), node, features, now)
