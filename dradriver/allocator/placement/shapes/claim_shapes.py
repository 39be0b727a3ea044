"""Claim shapes: the kinds of claims that pods have, and the nodes on which they fit best.

Pods with equal claims have one claim shape. It keeps its verdict for each class of nodes on which it was
evaluated. The classes are divided into groups: the classes of a group have equal candidates in the pools that
other nodes reach too, so the group has one verdict for the shared part of the claims. Each group has a heap
of its classes, sorted by the own part of the claims. The heaps are updated from the journal of `Classes`, so
a class without changes is not read again.
"""

from collections.abc import Hashable, Iterable, Iterator
from heapq import merge
from typing import Final

from dradriver.allocator.device_choice import ParsedClaims
from dradriver.allocator.meter import CLASSES, BudgetSpentError
from dradriver.allocator.placement.classes.lens import Lens
from dradriver.allocator.placement.classes.node_classes import Allows, NodeClass
from dradriver.allocator.placement.classes.node_signature import NodeSignature
from dradriver.allocator.placement.evaluation.part_evaluator import PartEvaluator
from dradriver.allocator.placement.evaluation.shape_view import ShapeView, view_shape
from dradriver.allocator.placement.evaluation.verdicts import (
    ShapeFits,
    join_verdicts,
)
from dradriver.allocator.placement.shapes.class_groups import BestNode, ClassGroup, Found, better
from dradriver.allocator.placement.shapes.ranked_groups import RankedGroups
from dradriver.allocator.supply.order import Preference

__all__ = ["ClaimShape"]

_MAX_VERDICTS: Final = 100_000
_MAX_OLD_GROUPS: Final = 256
_VIEW: Final = 8
"""Classes that can be evaluated in about the time in which a claim shape is read for one signature."""


class ClaimShape:
    """The equal claims of some pods.

    Args:
        parsed: the parsed claims of the first of these pods.
        lens: the classes of nodes that these claims distinguish.
        evaluator: evaluates the parts of the claims.

    Attributes:
        parsed: see above.
        fails: whether a selector fails on a device, as far as nodes were looked at.
    """

    def __init__(self, parsed: ParsedClaims, lens: Lens, evaluator: PartEvaluator) -> None:
        self.parsed = parsed
        self.lens = lens
        self.fails = False
        self._evaluator = evaluator
        self._views: dict[int, ShapeView] = {}
        self._groups: dict[Hashable, ClassGroup] = {}
        self._unranked: list[ClassGroup] = []
        self._ranked: dict[Hashable, RankedGroups] = {}
        self._group_of: dict[int, ClassGroup] = {}
        self._journal_position = (-1, 0)
        self._unread: dict[NodeClass, None] = {}
        self._live_groups = 0

    def find_best(self, allows: Allows) -> BestNode | None:
        """Return the best allowed node; None if the claims fit on no allowed node.

        The verdict is `ShapeFits` or `FAULTY`. `read_classes` must have been called. If the budget is spent,
        the result is the best of the nodes that were looked at. Another call looks at the other nodes.

        Raises:
            BudgetSpentError: the budget is spent, and the claims fit on no node that was looked at.
        """
        best: Found | None = None
        is_spent = bool(self._unread) or self.lens.is_partial
        groups: list[ClassGroup | RankedGroups] = [*self._unranked, *self._ranked.values()]
        for group in groups:
            try:
                best = better(best, group.find_best(allows, None if best is None else best.best))
            except BudgetSpentError:
                is_spent = True
        if best is None and is_spent:
            raise BudgetSpentError
        return None if best is None else self._join(best)

    def find_on(self, name: str) -> BestNode | None:
        """Return the verdict for a node; None if the claims don't fit there.

        Args:
            name: the node's name.

        Raises:
            BudgetSpentError: the budget is spent.
            KeyError: the node is unknown.
        """
        node_class = self.lens.node_class(name)
        found = self._find_group(node_class).find_on(node_class, name)
        return None if found is None else self._join(found)

    def iter_fitting(self, names: Iterable[str]) -> Iterator[tuple[str, Preference]]:
        """Yield those of the nodes on which the claims fit, with their ratings: one decision for each class.

        Args:
            names: the names of the nodes. They are read one by one.

        Raises:
            BudgetSpentError: the budget is spent.
            KeyError: a node is unknown.
        """
        ratings: dict[NodeClass, Preference | None] = {}
        find_class = self.lens.node_class
        for name in names:
            node_class = find_class(name)
            if node_class not in ratings:
                found = self._find_group(node_class).find_on(node_class, name)
                fits = found is not None and isinstance(found.best.verdict, ShapeFits)
                ratings[node_class] = found.best.rating if found is not None and fits else None
            rating = ratings[node_class]
            if rating is not None:
                yield name, rating

    def iter_bounds(self, allows: Allows) -> Iterator[tuple[Preference, str]]:
        """Yield the allowed nodes on which the claims may fit; see `ClassGroup.iter_bounds`.

        Args:
            allows: returns whether a node may be chosen.

        Raises:
            BudgetSpentError: the budget is spent.
        """
        return merge(*[group.iter_bounds(allows) for group in self._groups.values()])

    def is_partial(self) -> bool:
        """Return whether the last `iter_bounds` left out nodes because the budget was spent."""
        is_unread = bool(self._unread) or self.lens.is_partial
        return is_unread or any(group.is_partial for group in self._groups.values())

    def _join(self, found: Found) -> BestNode:
        """Return the node with the verdict of all parts."""
        best, group, node_class = found
        shared = group.find_shared(node_class.signature)
        if shared is None or not isinstance(best.verdict, ShapeFits):
            return best
        return BestNode(best.rating, best.name, join_verdicts(best.verdict, shared, self.parsed))

    def undecided(self) -> Iterator[NodeClass]:
        """Yield the classes on which the search gave up."""
        for group in self._groups.values():
            yield from group.list_undecided()

    def view(self, signature: NodeSignature, name: str) -> ShapeView:
        """Return the claim shape as the nodes with a signature see it.

        Args:
            signature: the signature.
            name: one of the nodes.
        """
        view = self._views.get(signature.number)
        if view is None:
            if len(self._views) > _MAX_VERDICTS:
                self._views.clear()
            evaluator = self._evaluator
            node = evaluator.fleet.members[name].node
            evaluator.meter.spend(CLASSES, _VIEW)
            view = view_shape(
                self.parsed, signature, node, evaluator.candidate_masks, evaluator.layout, evaluator.features
            )
            self._views[signature.number] = view
            self.fails = self.fails or view.fails
        return view

    def read_classes(self) -> None:
        """Read the classes that changed, so that `fails` is up to date.

        Raises:
            BudgetSpentError: the budget is spent. Another call continues.
        """
        classes = self.lens.classes
        epoch, start = self._journal_position
        self._journal_position = classes.epoch, len(classes.journal)
        # Groups of pools that are published anew are never used again.
        is_full = epoch != classes.epoch or len(self._groups) > 2 * self._live_groups + _MAX_OLD_GROUPS
        if is_full:
            self._groups.clear()
            self._unranked.clear()
            self._ranked.clear()
            self._group_of.clear()
            self._views.clear()
            self._unread.clear()
        for node_class in classes.with_nodes() if is_full else classes.journal[start:]:
            self._unread[node_class] = None
        while self._unread:
            node_class = next(iter(self._unread))
            if node_class.nodes:
                self._find_group(node_class).add(node_class)
            del self._unread[node_class]
        if is_full:
            self._live_groups = len(self._groups)

    def _find_group(self, node_class: NodeClass) -> ClassGroup:
        signature = node_class.signature
        group = self._group_of.get(signature.number)
        if group is None:
            name = node_class.first
            view = self.view(signature, name)
            key = signature.outlook.number, view.is_whole, view.shared and view.shared.key
            group = self._groups.get(key)
            if group is None:
                group = self._groups[key] = ClassGroup(self.view, self._evaluator, signature, name)
                self._sort_in(group)
            self._group_of[signature.number] = group
        return group

    def _sort_in(self, group: ClassGroup) -> None:
        if group.ranked_pools is None:
            self._unranked.append(group)
            return
        pools = group.ranked_pools
        key = tuple(map(id, pools))
        if key not in self._ranked:
            self._ranked[key] = RankedGroups(pools, self._evaluator.layout([pool.blueprint for pool in pools]))
        self._ranked[key].add(group)
