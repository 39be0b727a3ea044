"""Nodes for the search on bit sets, built without a fleet."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from dradriver.allocator import AllocationNode, Features, Inventory, Order
from dradriver.allocator.device_choice import ParsedClaims
from dradriver.allocator.placement.evaluation.bit_search import MAX_STEPS, Layout, search_bits
from dradriver.allocator.placement.evaluation.verdicts import ShapeFits
from dradriver.allocator.placement.fleet.blueprint import Blueprint
from dradriver.allocator.placement.fleet.contents import ContentsInterner
from dradriver.allocator.placement.fleet.pools import HeldPool, PoolNames
from dradriver.allocator.placement.fleet.sections import SectionBuilder
from dradriver.allocator.placement.fleet.usage_index import UsageIndex
from dradriver.allocator.request.subrequests import Subrequest
from dradriver.allocator.supply.order import Preference
from dradriver.allocator.supply.pools import GatheredSlices, PoolOnNode
from dradriver.model.resource.claim import DeviceId, ResourceClaim
from tests.unit.allocator.bit_views import BitView, view_bits

__all__ = ["BitNode", "Decision"]

Decision = tuple[Preference, list[tuple[Subrequest, DeviceId]]]
"""The rating of an allocation, and the devices."""


@dataclass
class BitNode:
    """A node whose pools are entries of a search on bit sets.

    Attributes:
        pools: its pools, in the order in which they are tried.
    """

    node: AllocationNode
    inventory: Inventory
    held: Sequence[ResourceClaim]
    features: Features
    order: Order
    pools: list[HeldPool] = field(init=False)

    def __post_init__(self) -> None:
        usage = UsageIndex()
        for claim in self.held:
            usage.put(claim)
        seen = self.inventory.pools_on(self.node, self.features, skips_devices=self.order.skips_devices)
        pools = {_entry(number, pool, usage, self.features): pool for number, pool in enumerate(seen)}
        self.pools = sorted(pools, key=lambda pool: (pool.blueprint.is_binding, pool.key))
        self._on_node = [pools[pool] for pool in self.pools]
        self._layout = Layout([pool.blueprint for pool in self.pools])

    def view(self, parsed: ParsedClaims) -> BitView:
        """Return the claims as bit sets."""
        return view_bits(parsed, self._layout, self._on_node, self.node, self.features)

    def decide(self, parsed: ParsedClaims, max_steps: int = MAX_STEPS) -> Decision | str | None:
        """Return the rating and the devices; else REFUSED, or None if only the full search can decide."""
        shape = self.view(parsed).shape
        verdict = None if shape is None else search_bits(shape, self.pools, self.order, max_steps)
        if not isinstance(verdict, ShapeFits):
            return verdict
        devices = [
            (choice.subrequest, self._on_node[choice.entry].view.devices[choice.device].id)
            for choice in verdict.choices
        ]
        return verdict.rating, devices


def _entry(number: int, pool: PoolOnNode, usage: UsageIndex, features: Features) -> HeldPool:
    view = pool.view
    sets = dict.fromkeys(each.name for source in view.slices for each in source.spec.shared_counters)
    # An invalid pool may name counter sets that it lacks.
    sets |= dict.fromkeys(_consumed_sets(pool))
    names = PoolNames(tuple(device.id.device for device in view.devices), tuple(sets))
    interner = ContentsInterner()
    contents = [interner.contents(source) for source in view.slices]
    gathered = GatheredSlices(
        view.slices, [device.source for device in pool.devices], pool.problem, ignored=pool.ignored
    )
    division = None if view.invalid else SectionBuilder().divide(contents, names.sets, view)
    blueprint = Blueprint(number, view, gathered, contents, division, names.sets, features)
    columns = interner.columns.of_pool([(each.columns, len(each.devices)) for each in contents])
    entry = HeldPool(view.key, blueprint, names, contents, columns)
    entry.update((name, usage.device(view.key, name)) for name in usage.held_in(view.key))
    return entry


def _consumed_sets(pool: PoolOnNode) -> Iterable[str]:
    return (taken.counter_set for each in pool.view.devices for taken in each.device.consumes_counters)
