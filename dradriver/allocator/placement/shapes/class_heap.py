"""A heap of classes of nodes, sorted by their ratings for the own part of the claims.

A rating in the heap may be too small until the class is at the top. Then the class is evaluated.
"""

from collections.abc import Collection
from heapq import heappop, heappush, heapreplace
from typing import Final, TypeAlias

from dradriver.allocator.placement.classes.node_classes import Allows, NodeClass
from dradriver.allocator.placement.evaluation.verdicts import REFUSED, UNDECIDED, ShapeFits
from dradriver.allocator.placement.shapes.own_verdicts import OwnVerdicts
from dradriver.allocator.supply.order import Preference

__all__ = ["ClassHeap", "RatedNode"]

RatedNode: TypeAlias = tuple[Preference, str, NodeClass]
"""The rating of a node, its name and its class. Better nodes sort first."""

_MAX_STALE_ENTRIES: Final = 1000

_HeapEntry: TypeAlias = tuple[Preference, str, int, NodeClass]


class ClassHeap:
    """Finds the best class of some classes of nodes.

    Args:
        verdicts: the verdicts for the classes.
    """

    def __init__(self, verdicts: OwnVerdicts) -> None:
        self._verdicts = verdicts
        self._heap: list[_HeapEntry] = []
        self._pending: dict[NodeClass, None] = {}

    @property
    def has_pending(self) -> bool:
        """Return whether a class was not looked at, because the budget was spent."""
        return bool(self._pending)

    def add(self, node_class: NodeClass) -> None:
        """Add a class with nodes, or read it again after it got a node that is now the first by name."""
        if len(self._heap) > 2 * self._verdicts.size + _MAX_STALE_ENTRIES:
            self._pending.update(dict.fromkeys([entry[3] for entry in self._heap if entry[3].nodes]))
            self._heap.clear()
        self._verdicts.limit_size()
        if self._verdicts.has_bound(node_class):
            self._push(node_class, self._verdicts.find_bound(node_class))
        else:
            self._pending[node_class] = None

    def restart(self, classes: Collection[NodeClass]) -> None:
        """Read these classes again, because their verdicts are no longer valid. Forget all other classes."""
        self._heap.clear()
        self._pending = dict.fromkeys(classes)

    def push_pending(self) -> None:
        """Put the added classes into the heap for which this needs a part of the budget.

        Raises:
            BudgetSpentError: the budget is spent. Another call continues.
        """
        while self._pending:
            node_class = next(iter(self._pending))
            if node_class.nodes:
                self._push(node_class, self._verdicts.find_bound(node_class))
            del self._pending[node_class]

    def may_have_nodes(self, before: str | None) -> bool:
        """Return whether the claims may fit on a node of these classes.

        Args:
            before: the last node name that counts (inclusive), for an order without preferences. None: all
                nodes count.
        """
        if self._pending:
            return True
        return bool(self._heap) and (before is None or self._heap[0][1] <= before)

    def find_best(self, allows: Allows, *, by_name: bool) -> RatedNode | None:
        """Return the best allowed node of the classes in the heap; None if the claims fit on no such node.

        Args:
            allows: returns whether a node may be chosen.
            by_name: whether only the names of the nodes count. The returned rating may then be `()`.

        Raises:
            BudgetSpentError: the budget is spent.
        """
        if allows is None and not by_name:
            top = self._find_top()
            return None if top is None else (top[0], top[1], top[3])
        popped = []
        best: RatedNode | None = None
        try:
            while (top := self._find_top()) is not None:
                rating, name, _, node_class = top
                compared = () if by_name else rating
                if best is not None and (rating, name) > best[:2] and not by_name:
                    break
                popped.append(heappop(self._heap))
                first = node_class.first_allowed(allows)
                if first is not None and (best is None or (compared, first) < best[:2]):
                    best = compared, first, node_class
        finally:
            for entry in popped:
                heappush(self._heap, entry)
        return best

    def find_known(self, allows: Allows) -> RatedNode | None:
        """Return the best allowed node of the classes in the heap that are evaluated already."""
        best: RatedNode | None = None
        for _, _, _, node_class in self._heap:
            verdict = self._verdicts.get(node_class)
            if isinstance(verdict, ShapeFits) and node_class.nodes:
                first = node_class.first_allowed(allows)
                if first is not None and (best is None or (verdict.rating, first) < best[:2]):
                    best = verdict.rating, first, node_class
        return best

    def _push(self, node_class: NodeClass, bound: Preference | None) -> None:
        if bound is not None:
            heappush(self._heap, (bound, node_class.first, node_class.number, node_class))

    def _find_top(self) -> _HeapEntry | None:
        """Return the top entry of the heap, with its exact rating and first node; None if the heap is empty."""
        heap = self._heap
        while heap:
            top = heap[0]
            rating, name, number, node_class = top
            if not node_class.nodes:
                heappop(heap)
                continue
            verdict = self._verdicts.find(node_class)
            if verdict is REFUSED or verdict is UNDECIDED:
                heappop(heap)
                continue
            exact = verdict.rating if isinstance(verdict, ShapeFits) else ()
            first = node_class.first
            if first == name and exact == rating:
                return top
            heapreplace(heap, (exact, first, number, node_class))
        return None
