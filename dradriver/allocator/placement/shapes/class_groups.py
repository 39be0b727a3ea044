"""Classes of nodes with one verdict for the devices that several nodes reach."""

from collections.abc import Iterator
from dataclasses import replace
from heapq import heapify, heappop, heapreplace
from typing import Final, NamedTuple

from dradriver.allocator.meter import BudgetSpentError
from dradriver.allocator.placement.classes.node_classes import Allows, NodeClass
from dradriver.allocator.placement.classes.node_signature import NodeSignature
from dradriver.allocator.placement.evaluation.part_evaluator import PartEvaluator
from dradriver.allocator.placement.evaluation.verdicts import (
    FAULTY,
    UNDECIDED,
    ShapeFits,
    Verdict,
    add_ratings,
)
from dradriver.allocator.placement.fleet.pools import HeldPool
from dradriver.allocator.placement.shapes.class_heap import ClassHeap
from dradriver.allocator.placement.shapes.own_verdicts import FindView, OwnVerdicts
from dradriver.allocator.supply.order import BINDING_RATING, Preference

__all__ = ["BestNode", "ClassGroup", "Found", "better"]

_MAX_STALE_MEMBERS: Final = 1000
_LOOKING: Final = 25
"""Percentage of a pod's budget for bounds of all classes. The rest is for the best of them."""


class BestNode(NamedTuple):
    """A node with its verdict. Better nodes sort first."""

    rating: Preference
    name: str
    verdict: Verdict


class Found(NamedTuple):
    """A node that a group has found.

    Attributes:
        best: the node.
        group: the group.
        node_class: the node's class.
    """

    best: BestNode
    group: "ClassGroup"
    node_class: NodeClass


def better(one: Found | None, other: Found | None) -> Found | None:
    """Return the better of two nodes; None if there is none."""
    if one is None or other is None:
        return one or other
    return one if one.best[:2] <= other.best[:2] else other


class ClassGroup:
    """Classes of nodes with one verdict for the shared part of the claims.

    Args:
        find_view: returns the claims as nodes see them.
        evaluator: evaluates parts.
        signature: the signature of one of the nodes.
        name: one of the nodes with this signature.

    Attributes:
        is_partial: whether the last `iter_bounds` left out classes because the budget was spent.
    """

    def __init__(
        self, find_view: FindView, evaluator: PartEvaluator, signature: NodeSignature, name: str
    ) -> None:
        self._evaluator = evaluator
        self._signature = signature
        self._outlook = signature.outlook
        self._node = evaluator.fleet.members[name].node
        view = find_view(signature, name)
        self._shared_part = view.shared
        self._is_only_shared = not view.own.parsed.requests
        self._is_whole = view.is_whole
        self._stamp = self._outlook.stamp
        self._shared: Verdict | None = None
        self._verdicts = OwnVerdicts(find_view, evaluator)
        self._has_ratings = self._verdicts.has_ratings
        self._heap = ClassHeap(self._verdicts)
        self._members: dict[int, NodeClass] = {}
        self._bounds: dict[int, Preference | None] = {}
        self._live = 0
        self.is_partial = False

    def add(self, node_class: NodeClass) -> None:
        """Add a class with nodes, or read it again after it got a node that is now the first by name."""
        self._members[node_class.number] = node_class
        if len(self._members) > 2 * self._live + _MAX_STALE_MEMBERS:
            self._forget_empty()
            self._bounds = {number: each for number, each in self._bounds.items() if number in self._members}
            self._live = len(self._members)
        self._heap.add(node_class)

    def list_undecided(self) -> Iterator[NodeClass]:
        """Yield the classes on which the search gave up."""
        if self._shared is UNDECIDED:
            yield from self._members.values()
        yield from self._verdicts.undecided.values()

    def find_shared(self, signature: NodeSignature) -> ShapeFits | None:
        """Return the verdict of the shared part, for the nodes with a signature of this group."""
        if not isinstance(self._shared, ShapeFits):
            return None
        position = dict(zip(self._signature.shared, signature.shared, strict=True))
        choices = [replace(choice, entry=position[choice.entry]) for choice in self._shared.choices]
        return ShapeFits(self._shared.rating, tuple(choices))

    @property
    def ranked_pools(self) -> tuple[HeldPool, ...] | None:
        """Return the shared pools if the devices in them determine the order of the nodes; otherwise None.

        This is so if the only request is for one device of these pools.
        """
        part = self._shared_part
        if part is None or not self._has_ratings or part.plain is None or len(part.plain) != 1:
            return None
        if part.plain[0].count != 1 or not self._is_only_shared:
            return None
        return tuple([self._signature.entries[at].pool for at in part.positions])

    def list_candidates(self) -> tuple[int, ...]:
        """Return, for each of `ranked_pools`, the devices that can serve the request, as bits."""
        assert self._shared_part is not None  # noqa: S101 - there are ranked pools
        assert self._shared_part.plain is not None  # noqa: S101 - see above
        return self._shared_part.plain[0].candidates

    def find_best(self, allows: Allows, limit: BestNode | None) -> Found | None:
        """Return the best allowed node of the group, with its class.

        The rating is that of all parts, and the verdict is that of the own part.

        Args:
            allows: returns whether a node may be chosen.
            limit: a node of another group. A node that is not better may be left out.

        Raises:
            BudgetSpentError: the budget is spent, and the claims fit on no node that was looked at.
        """
        self._check_stamp()
        if isinstance(self._shared, str):
            return None  # the shared pools can't serve the claims
        heap = self._heap
        # Without preferences, only a node with a smaller name is better.
        if not heap.may_have_nodes(None if limit is None or limit.rating or self._has_ratings else limit.name):
            return None
        addition = self._rate_shared()
        if addition is None:
            return None
        try:
            if heap.has_pending:
                # A part of the budget stays for the classes that are known.
                self._evaluator.meter.spend_part(_LOOKING, heap.push_pending)
            # If the shared part makes all ratings equal, only the names of the nodes count.
            found = heap.find_best(allows, by_name=addition == BINDING_RATING)
        except BudgetSpentError:
            found = heap.find_known(allows)
            if found is None:
                raise
        if found is None:
            if heap.has_pending:
                raise BudgetSpentError
            return None
        rating, name, node_class = found
        verdict = self._verdicts.find(node_class)
        if isinstance(verdict, ShapeFits):
            rating = add_ratings(rating, addition)
        return Found(BestNode(rating, name, verdict), self, node_class)

    def find_on(self, node_class: NodeClass, name: str) -> Found | None:
        """Return a node of a class with its verdict, as `find_best` does; None if the claims don't fit.

        Args:
            node_class: the class.
            name: the node's name.
        """
        self._check_stamp()
        addition = self._rate_shared()
        verdict = None if addition is None else self._verdicts.find(node_class)
        if isinstance(verdict, ShapeFits) and addition is not None:
            return Found(BestNode(add_ratings(verdict.rating, addition), name, verdict), self, node_class)
        return Found(BestNode((), name, FAULTY), self, node_class) if verdict is FAULTY else None

    def iter_bounds(self, allows: Allows) -> Iterator[tuple[Preference, str]]:
        """Yield the allowed nodes on which the claims may fit, with a rating that is not greater than theirs.

        The rating is also not greater than that of the same claims with fewer candidates. Smaller ratings come
        first, then smaller names.

        Args:
            allows: returns whether a node may be chosen.
        """
        self._check_stamp()
        self.is_partial = False
        addition = self._rate_shared()
        if addition is None:
            return
        self.is_partial = True
        self._evaluator.meter.spend_part(_LOOKING, self._compute_bounds)
        entries = []
        for number, node_class in self._members.items():
            bound = self._bounds.get(number)
            if bound is not None and node_class.nodes:
                rating = add_ratings(bound, addition)
                entries.append((rating, node_class.first, number, node_class.iter_names()))
        heapify(entries)
        while entries:
            bound, name, number, names = entries[0]
            if allows is None or allows(name):
                yield bound, name
            following = next(names, None)
            following = next(names, None) if following == name else following
            if following is None:
                heappop(entries)
            else:
                heapreplace(entries, (bound, following, number, names))

    def _compute_bounds(self) -> None:
        for number, node_class in self._members.items():
            if number not in self._bounds and node_class.nodes:
                self._bounds[number] = self._verdicts.compute_bound(node_class)
        self.is_partial = False

    def _check_stamp(self) -> None:
        """Forget the verdicts that depend on shared pools if these have changed."""
        stamp = self._outlook.stamp if self._outlook.sights else self._stamp
        if stamp == self._stamp:
            return
        self._stamp = stamp
        self._shared = None
        if self._is_whole:
            self._verdicts.clear()
            self._bounds.clear()
            self._forget_empty()
            self._heap.restart(self._members.values())

    def _forget_empty(self) -> None:
        self._members = {number: each for number, each in self._members.items() if each.nodes}

    def _rate_shared(self) -> Preference | None:
        """Return what the shared pools add to the rating of a node; None if they can't serve the claims."""
        if self._shared_part is None:
            return () if self._is_whole else self._evaluator.rate_outlook(self._outlook)
        if self._shared is None:
            self._shared = self._evaluator.evaluate(
                self._shared_part, self._signature, self._node, self._signature.entries
            )
        return self._shared.rating if isinstance(self._shared, ShapeFits) else None
