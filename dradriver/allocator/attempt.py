"""Allocates the claims of one pod on one node, from any source of pools."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dradriver.allocator.explain.refusal import Reporter
from dradriver.allocator.features import Features
from dradriver.allocator.request.constraints import constraints_of
from dradriver.allocator.request.selectors import SelectorProvider
from dradriver.allocator.request.subrequests import ParsedRequest, requests_of
from dradriver.allocator.result import ChosenDevice
from dradriver.allocator.search.candidates import CandidateFilter
from dradriver.allocator.search.plan import Planner
from dradriver.allocator.search.search import Pick, Search
from dradriver.allocator.search.state import SearchState
from dradriver.allocator.supply.node_supply import Supply
from dradriver.allocator.supply.nodes import AllocationNode
from dradriver.allocator.supply.order import WAITS, Order, Preference
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.deviceclass import DeviceClass
from dradriver.model.resource.recorded_groups import declared_groups

__all__ = ["ChosenDevices", "WantedClaims", "attempt", "wanted_by"]


@dataclass(frozen=True, slots=True)
class WantedClaims:
    """The requests of a pod, read once for all nodes.

    Attributes:
        claims: the pod's claims.
        requests: their requests, in order.
    """

    claims: Sequence[ResourceClaim]
    requests: Sequence[ParsedRequest]

    @property
    def expressions(self) -> Iterator[tuple[str, bool]]:
        """Return all CEL expressions, each with whether it derives an attribute."""
        for ask in (ask for request in self.requests for ask in request.alternatives):
            yield from ((selection.expression, False) for selection in ask.selections)
        for claim in self.claims:
            for request in claim.spec.devices.requests:
                wishes = [request.exactly] if request.exactly else request.first_available
                for wish in wishes:
                    yield from ((derived.expression, True) for derived in wish.derived_attributes)

    @property
    def derived(self) -> frozenset[str]:
        """Return the attributes, without domains, that some request computes itself.

        Constraints compare the computed values with those that devices publish.
        """
        asks = (ask for request in self.requests for ask in request.alternatives)
        return frozenset(name.rpartition("/")[2] for ask in asks for name in ask.derived)


def wanted_by(
    claims: Sequence[ResourceClaim],
    classes: Mapping[str, DeviceClass],
    features: Features,
    selectors: SelectorProvider,
) -> WantedClaims:
    """Parse the requests of a pod's claims and check their constraints.

    Args:
        claims: the pod's claims that have no allocation yet.
        classes: all device classes by name.
        features: the enabled features.
        selectors: evaluates selectors.

    Raises:
        Refusal: of kind `claim`, if no node can ever serve them.
    """
    wanted = WantedClaims(claims, requests_of(claims, classes, features, selectors))
    constraints_of(claims, features)
    return wanted


@dataclass(frozen=True, slots=True)
class ChosenDevices:
    """The devices that serve a pod, by position in the supply."""

    supply: Supply
    picks: Sequence[Pick]
    preferences: Sequence[Preference]

    @property
    def rating(self) -> Preference:
        """Return the rating of the chosen devices; smaller is better.

        It is the sum of the preferences of the devices, followed by the number of devices that can be had on
        the node. If the order prefers no device, it is `WAITS` if a device has binding conditions, else `()`.
        """
        if not self.preferences:
            devices = (self.supply.devices[position].device for _, position in self.picks)
            return WAITS if any(device.binding_conditions for device in devices) else ()
        against = map(sum, zip(*(self.preferences[position] for _, position in self.picks), strict=True))
        return *against, sum(map(self.supply.can_be_had, range(len(self.supply.devices))))

    def chosen(self, features: Features) -> list[ChosenDevice]:
        """Return the chosen devices with their names."""
        return [self._chosen(pick, groups=features.compatibility_groups) for pick in self.picks]

    def _chosen(self, pick: Pick, *, groups: bool) -> ChosenDevice:
        plan, position = pick
        pooled = self.supply.devices[position]
        is_share = self.supply.shared_out[position] is not None
        return ChosenDevice(
            plan.ask,
            pooled.id,
            pooled.device,
            pooled.source,
            plan.candidates.shares[position] if is_share else None,
            declared_groups(pooled.device) if groups else {},
        )


def attempt(
    wanted: WantedClaims,
    supply: Supply,
    node: AllocationNode,
    features: Features,
    *,
    order: Order,
    reporter: Reporter,
    max_steps: int,
) -> ChosenDevices:
    """Return the first allocation in the order of preference.

    Args:
        wanted: the requests.
        supply: the devices of the node; they are sorted in place into the order of preference.
        node: the node.
        features: the enabled features.
        order: the order of preference.
        reporter: receives the progress of the search.
        max_steps: number of device choices after which the search gives up.

    Raises:
        Refusal: no allocation exists, or the search gave up.
    """
    preferences = _arrange(supply, order)
    constraints = constraints_of(wanted.claims, features)
    state = SearchState(supply, constraints, admin_consumes=order.admin_consumes)
    planner = Planner(
        wanted.claims, supply, state, CandidateFilter(supply, state, node, features), reporter, node.name
    )
    picks = Search(planner, planner.plans(wanted.requests), reporter, max_steps).run()
    return ChosenDevices(supply, picks, preferences)


def _arrange(supply: Supply, order: Order) -> Sequence[Preference]:
    """Put the devices into the order of preference and return the preferences in that order."""
    if order.prefers is None:
        return ()
    preferences = order.prefers(supply)
    positions = sorted(range(len(preferences)), key=lambda position: (preferences[position], position))
    supply.arrange(positions)
    return [preferences[position] for position in positions]
