"""The state of one pool: its slices taken together, its cards, and the nodes that reach it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dradriver.allocator import PoolView
from dradriver.allocator.supply.devices_in_use import PoolKey
from dradriver.allocator.supply.pools import offered_devices
from dradriver.model.resource.slices import ResourceSlice
from dradriver.model.resource.taint_rule import DeviceTaintRule, apply_rules
from dradriver.overview.cards import PoolFacts, build_cards
from dradriver.overview.pool_reach import find_local_node
from dradriver.overview.values import Card, Health, PoolProblem

__all__ = ["TrackedPool", "form_pool"]


@dataclass(frozen=True, slots=True, eq=False)
class TrackedPool:
    """A pool at one moment.

    Attributes:
        view: the newest generation of the pool, with the taints of DeviceTaintRules.
        node: the only node that reaches the pool; None if the pool selects nodes or names several.
        cards: the cards of the pool.
        health: the health of devices, as the kubelet reports it.
    """

    view: PoolView
    node: str | None
    cards: tuple[Card, ...] = ()
    health: Mapping[str, Health] | None = None

    @property
    def key(self) -> PoolKey:
        """Return driver and pool name."""
        return self.view.key

    @property
    def problem(self) -> PoolProblem | None:
        """Return why claims cannot use the pool; None if they can."""
        text = self.view.problem
        return None if text is None else PoolProblem(self.view.driver, self.view.name, self.node or "", text)

    def with_facts(self, facts: PoolFacts) -> "TrackedPool":
        """Return the pool with its cards.

        Args:
            facts: what other objects report about its devices.
        """
        return TrackedPool(self.view, self.node, build_cards(self.view, facts), facts.health)


def form_pool(slices: Sequence[ResourceSlice], rules: Iterable[DeviceTaintRule]) -> TrackedPool:
    """Return a pool without cards.

    Args:
        slices: all slices of the pool, of any generation.
        rules: all DeviceTaintRules, in the order of their names.
    """
    generation = max(source.spec.pool.generation for source in slices)
    rules = list(rules)
    newest = [source for source in slices if source.spec.pool.generation == generation]
    newest = [apply_rules(source, rules) for source in newest] if rules else newest
    # The API server has checked each slice. Checking all rules again takes most of the time of a large cluster.
    return TrackedPool(PoolView(newest, is_valid=_fit_together(newest)), find_local_node(newest))


def _fit_together(slices: Iterable[ResourceSlice]) -> bool:
    """Return whether names are unique, and the consumed counters exist (KEP-4815, Validation)."""
    slices = list(slices)
    sets = [counter_set for source in slices for counter_set in source.spec.shared_counters]
    counters = {counter_set.name: counter_set.counters.keys() for counter_set in sets}
    devices = [device for source in slices for device in offered_devices(source)]
    return (
        len(counters) == len(sets)
        and len({device.name for device in devices}) == len(devices)
        # Objects of files may consume a counter set twice, which the API server rejects.
        and all(
            len({taken.counter_set for taken in device.consumes_counters}) == len(device.consumes_counters)
            for device in devices
            if len(device.consumes_counters) > 1
        )
        and all(
            taken.counter_set in counters and taken.counters.keys() <= counters[taken.counter_set]
            for device in devices
            for taken in device.consumes_counters
        )
    )
