"""Chooses the devices for the claims of one pod on one node. The caller supplies the pools."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dradriver.allocator.explain.refusal import Reporter
from dradriver.allocator.features import Features
from dradriver.allocator.meter import DEVICES, NODES, BudgetSpentError, Meter
from dradriver.allocator.request.constraints import parse_constraints
from dradriver.allocator.request.selectors import SelectorProvider
from dradriver.allocator.request.subrequests import ParsedRequest, parse_requests
from dradriver.allocator.result import ChosenDevice
from dradriver.allocator.search.candidates import CandidateFilter
from dradriver.allocator.search.plan import Planner
from dradriver.allocator.search.search import Pick, Search
from dradriver.allocator.search.state import SearchState
from dradriver.allocator.supply.node_supply import Supply
from dradriver.allocator.supply.nodes import AllocationNode
from dradriver.allocator.supply.order import BINDING_RATING, Order, Preference
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.deviceclass import DeviceClass
from dradriver.model.resource.recorded_groups import declared_groups

__all__ = ["ChosenDevices", "ParsedClaims", "choose_devices", "parse_claims"]

_PASSES: Final = 4
"""How often each device is read before the search, and again for each constraint."""


@dataclass(frozen=True, slots=True)
class ParsedClaims:
    """The requests of a pod's claims. They are parsed once for all nodes.

    Attributes:
        claims: the pod's claims.
        requests: the requests of the claims, in order.
    """

    claims: Sequence[ResourceClaim]
    requests: Sequence[ParsedRequest]

    @property
    def expressions(self) -> Iterator[tuple[str, bool]]:
        """Yield each CEL expression, and whether it derives an attribute (else it is a selector)."""
        for subrequest in (subrequest for request in self.requests for subrequest in request.alternatives):
            yield from ((selection.expression, False) for selection in subrequest.selections)
        for claim in self.claims:
            for request in claim.spec.devices.requests:
                entries = [request.exactly] if request.exactly else request.first_available
                for entry in entries:
                    yield from ((derived.expression, True) for derived in entry.derived_attributes)

    @property
    def derived(self) -> frozenset[str]:
        """Return the names, without domains, of the attributes that some request derives.

        Constraints compare the derived values with the values that other devices publish.
        """
        subrequests = (subrequest for request in self.requests for subrequest in request.alternatives)
        return frozenset(name.rpartition("/")[2] for subrequest in subrequests for name in subrequest.derived)


def parse_claims(
    claims: Sequence[ResourceClaim],
    classes: Mapping[str, DeviceClass],
    features: Features,
    selectors: SelectorProvider,
    meter: Meter,
) -> ParsedClaims:
    """Parse the requests of a pod's claims and check their constraints.

    Args:
        claims: the pod's claims that have no allocation yet.
        classes: all device classes by name.
        features: the enabled features.
        selectors: evaluates selectors.
        meter: counts the work.

    Raises:
        Refusal: no node can ever serve the claims (`claim`), or the work exceeds the budget (`undecided`).
    """
    parsed = ParsedClaims(claims, parse_requests(claims, classes, features, selectors, meter))
    parse_constraints(claims, features)
    return parsed


@dataclass(frozen=True, slots=True)
class ChosenDevices:
    """The devices that serve a pod, as positions in the supply."""

    supply: Supply
    picks: Sequence[Pick]
    preferences: Sequence[Preference]

    @property
    def rating(self) -> Preference:
        """Return the rating of the chosen devices. A smaller rating is better.

        The rating is the sum of the preferences of the devices, followed by the number of available devices on
        the node. If the order has no preferences, the rating is `BINDING_RATING` if a device has binding
        conditions, else `()`.
        """
        if not self.preferences:
            devices = (self.supply.devices[position].device for _, position in self.picks)
            return BINDING_RATING if any(device.binding_conditions for device in devices) else ()
        sums = map(sum, zip(*(self.preferences[position] for _, position in self.picks), strict=True))
        return *sums, sum(map(self.supply.is_available, range(len(self.supply.devices))))

    def with_names(self, features: Features) -> list[ChosenDevice]:
        """Return the chosen devices, each with its name and its slice instead of a position."""
        return [self._with_names(pick, groups=features.compatibility_groups) for pick in self.picks]

    def _with_names(self, pick: Pick, *, groups: bool) -> ChosenDevice:
        plan, position = pick
        pooled = self.supply.devices[position]
        is_share = self.supply.held_shares[position] is not None
        return ChosenDevice(
            plan.subrequest,
            pooled.id,
            pooled.device,
            pooled.source,
            plan.candidates.share_capacity[position] if is_share else None,
            declared_groups(pooled.device) if groups else {},
        )


def choose_devices(
    parsed: ParsedClaims,
    supply: Supply,
    node: AllocationNode,
    features: Features,
    *,
    order: Order,
    meter: Meter,
    reporter: Reporter | None = None,
) -> ChosenDevices:
    """Return the first allocation in the order of preference.

    Args:
        parsed: the requests.
        supply: the devices of the node. The function sorts them in place into the order of preference.
        node: the node.
        features: the enabled features.
        order: the order of preference.
        meter: counts the work.
        reporter: receives the progress of the search; None reports nothing.

    Raises:
        Refusal: no allocation exists, or the work exceeds the budget (`undecided`).
    """
    reporter = reporter or Reporter()
    try:
        constraints = parse_constraints(parsed.claims, features)
        meter.spend(NODES)
        meter.spend(DEVICES, len(supply.devices) * (_PASSES + _PASSES * len(constraints)))
        preferences = _sort_by_preference(supply, order)
        state = SearchState(supply, constraints, admin_consumes=order.admin_consumes)
        devices = CandidateFilter(supply, state, node, features, meter)
        planner = Planner(parsed.claims, supply, state, devices, reporter, node.name, meter)
        picks = Search(planner, planner.plans(parsed.requests), reporter, meter).run()
    except BudgetSpentError:
        raise meter.refusal(node.name) from None
    return ChosenDevices(supply, picks, preferences)


def _sort_by_preference(supply: Supply, order: Order) -> Sequence[Preference]:
    """Sort the devices by preference and return their preferences in the new order."""
    if order.compute_preferences is None:
        return ()
    preferences = order.compute_preferences(supply)
    positions = sorted(range(len(preferences)), key=lambda position: (preferences[position], position))
    supply.reorder(positions)
    return [preferences[position] for position in positions]
