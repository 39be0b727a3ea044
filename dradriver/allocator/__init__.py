"""Allocates devices of pools to claims, or refuses the claims with reasons (KEP-4381, KEP-4815, KEP-5963).

Rule for code in this package: every function must be pure and must read only its arguments. It must not use
I/O, a clock or randomness. The search uses only integers. One search handles all features. It evaluates
selectors through a provider (`request.selectors`) and reports its progress to a reporter (`explain.refusal`).

The steps of one request:

1. `request` reads the claims.
2. `supply` reads the pools as this node sees them.
3. `search.candidates` finds the devices that can serve each request.
4. `search.plan` joins the requests with their candidates.
5. `search.search` chooses the devices.
6. `result` builds the allocations.

A device is allocated to one claim as a whole. A device that allows multiple allocations can be allocated to
several claims as shares, and each share consumes capacity (`supply.capacity`). The claims record the
compatibility groups that are in force on a counter set (`model.resource.recorded_groups`).

Modules:

- `device_choice`: chooses the devices for the claims of one pod on one node.
- `features`: the feature gates of the allocator.
- `meter`: limits the work of the decision about one pod.
- `result`: builds `status.allocation` from the chosen devices.

Rooms:

- `request`: reads claims and returns subrequests with selectors and constraints.
- `supply`: forms pools from slices, and computes their counters, compatibility groups and devices in use.
- `search`: finds candidates, plans the requests and searches depth first, with bounds and proofs.
- `explain`: defines refusals and verdicts, which explain results.
- `placement`: makes the same decisions for all nodes of a changing cluster, once for each class of equal nodes.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from dradriver.allocator.device_choice import choose_devices, parse_claims
from dradriver.allocator.explain.refusal import Kind, Reason, Refusal, Reporter
from dradriver.allocator.features import Features
from dradriver.allocator.meter import BUDGET, BudgetSpentError, Meter
from dradriver.allocator.request.cel_selectors import CelSelectors
from dradriver.allocator.request.selectors import Deriver, Matcher, SelectorProvider
from dradriver.allocator.result import build_allocations
from dradriver.allocator.supply.devices_in_use import InUse
from dradriver.allocator.supply.node_supply import Supply, iter_offers
from dradriver.allocator.supply.nodes import AllocationNode
from dradriver.allocator.supply.order import ORDERED, ORDERS, PACKED, Order
from dradriver.allocator.supply.pools import Inventory, PooledDevice, PoolView
from dradriver.model.resource.claim import Allocation, ResourceClaim
from dradriver.model.resource.deviceclass import DeviceClass

__all__ = [
    "BUDGET",
    "ORDERED",
    "ORDERS",
    "PACKED",
    "AllocationNode",
    "BudgetSpentError",
    "CelSelectors",
    "Deriver",
    "Features",
    "InUse",
    "Inventory",
    "Kind",
    "Matcher",
    "Meter",
    "Order",
    "PoolView",
    "PooledDevice",
    "Reason",
    "Refusal",
    "Reporter",
    "SelectorProvider",
    "allocate",
]

_DEFAULTS: Final = Features()
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
    meter: Meter | None = None,
) -> Mapping[str, Allocation]:
    """Allocate all claims of one pod on one node. If one claim can't be allocated, none is.

    Args:
        claims: the pod's claims that have no allocation yet, in the pod's order.
        inventory: all pools of the cluster.
        classes: all device classes by name.
        in_use: the devices that other claims hold.
        node: the node on which the pod would run.
        features: the enabled features.
        reporter: receives the progress of the search; None reports nothing.
        now: the timestamp of the allocations; None: no timestamp.
        order: the order in which devices are tried; see `dradriver.allocator.supply.order`.
        selectors: evaluates selectors. The default is CEL; tests may replace it.
        meter: limits the work. Work beyond its budget raises a refusal of kind `undecided`. None: a new meter
            with the default budget.

    Returns:
        The allocation of each claim, by claim UID (by `namespace/name` if the claim has no UID).

    Raises:
        Refusal: the claims can't be allocated. `kind` states whether another node can serve them.
    """
    meter = meter or Meter()
    parsed = parse_claims(claims, classes, features, selectors, meter)
    offers = iter_offers(node, inventory, in_use, features, skips_devices=order.skips_devices)
    supply = Supply(offers, features)
    devices = choose_devices(parsed, supply, node, features, order=order, meter=meter, reporter=reporter)
    return build_allocations(claims, devices.with_names(features), node, features, now)
