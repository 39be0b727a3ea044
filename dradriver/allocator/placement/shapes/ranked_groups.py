"""Groups of nodes that reach devices of the same shared pools, for a request of one device of these pools.

The best device is looked for in the pools, not on each node.
"""

from collections.abc import Sequence

from dradriver.allocator.meter import BudgetSpentError
from dradriver.allocator.placement.classes.node_classes import Allows
from dradriver.allocator.placement.evaluation.bit_search import Layout, Rank
from dradriver.allocator.placement.fleet.pools import HeldPool
from dradriver.allocator.placement.shapes.class_groups import BestNode, ClassGroup, Found, better

__all__ = ["RankedGroups"]


class RankedGroups:
    """Groups whose nodes reach devices of the same shared pools, for a request of one device of these pools.

    The best device is looked for in the pools. Only the groups whose nodes reach it are evaluated.
    """

    def __init__(self, pools: Sequence[HeldPool], layout: Layout) -> None:
        self._pools = pools
        self._layout = layout
        self._groups: list[tuple[int, ClassGroup]] = []
        self._candidates = 0
        self._version = -1
        self._ranks: Sequence[Rank] = ()

    def add(self, group: ClassGroup) -> None:
        """Add a group."""
        candidates = self._layout.join(group.list_candidates())
        self._groups.append((candidates, group))
        self._candidates |= candidates
        self._version = -1

    def find_best(self, allows: Allows, limit: BestNode | None) -> Found | None:
        """Return the best allowed node of the groups; see `ClassGroup.find_best`."""
        version = sum([pool.version for pool in self._pools])
        if version != self._version:
            self._version = version
            layout = self._layout
            available = layout.join([pool.free for pool in self._pools]) & self._candidates
            states = [self._pools[part.pool].states[part.number] for part in layout.parts]
            parts = layout.find_parts(available)
            self._ranks = layout.ranks(available & layout.without_counters, states, parts)
        for preference, devices in self._ranks:
            if limit is not None and limit.rating[: len(preference)] < preference:
                return None
            best: Found | None = None
            is_spent = False
            for candidates, group in self._groups:
                if candidates & devices:
                    try:
                        best = better(best, group.find_best(allows, None if best is None else best.best))
                    except BudgetSpentError:
                        is_spent = True
            if best is None and is_spent:
                raise BudgetSpentError
            if best is not None:
                return best
        return None
