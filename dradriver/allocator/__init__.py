"""From pools and claims to allocations, or to a refusal with reasons (KEP-4381, KEP-4815, KEP-5963).

Law of this package: pure functions of a snapshot. No I/O, no clock, no randomness; integers only where the
search runs; one search for all features. What the search asks of the world goes through a provider
(`selectors`), what it tells goes to a reporter (`explain`).

The way of a request: `asks` reads the claims, `supply` the pools as this node sees them, `candidates` says
which devices may serve which request, `plan` joins them, `search` chooses, `result` writes it down (`attempt`
is the whole way). For many nodes and a cluster that changes there is `placement`.

A device goes to one claim as a whole, or, where it allows multiple allocations, to several as shares, which
take of its capacities (`capacity`). What is in force between those who use one counter set is kept in the
claims (`snapshot`).
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
"""After so many tries of a device, about a second, the answer is "undecided"."""

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
    """Allocates all claims of one pod on one node, or none.

    Args:
        claims: the pod's claims that have no allocation yet, in the pod's order.
        inventory: all pools.
        classes: all device classes by name.
        in_use: the devices that other claims hold.
        node: where the pod would run.
        features: what is switched on.
        reporter: is told what the search does.
        now: the allocations' timestamp; None leaves it out.
        order: in which order devices are tried, see `dradriver.allocator.supply.order`.
        selectors: how selectors are evaluated; CEL unless a test has another way.
        max_steps: how often a device may be tried before the answer is "undecided".

    Returns:
        By claim UID (by `namespace/name` where a claim has none) the allocation.

    Raises:
        Refusal: the claims can't be allocated; `kind` says whether another node may do.
    """
    reporter = reporter or _SILENT
    wanted = wanted_by(claims, classes, features, selectors)
    offers = offers_on(node, inventory, in_use, features, skips_devices=order.skips_devices)
    supply = Supply(offers, features)
    found = attempt(wanted, supply, node, features, order=order, reporter=reporter, max_steps=max_steps)
    return allocations_of(claims, found.chosen(features), node, features, now)
