"""The verdicts of the own part of the claims, by class of nodes."""

from collections.abc import Callable
from typing import Final, TypeAlias

from dradriver.allocator.placement.classes.node_classes import NodeClass
from dradriver.allocator.placement.classes.node_signature import NodeSignature
from dradriver.allocator.placement.evaluation.part_evaluator import PartEvaluator
from dradriver.allocator.placement.evaluation.shape_view import Part, ShapeView
from dradriver.allocator.placement.evaluation.verdicts import REFUSED, UNDECIDED, ShapeFits, Verdict
from dradriver.allocator.supply.order import Preference

__all__ = ["FindView", "OwnVerdicts"]

FindView: TypeAlias = Callable[[NodeSignature, str], ShapeView]
"""Returns the claims as nodes see them, given their signature and the name of one of the nodes."""

_MAX_VERDICTS: Final = 100_000


class OwnVerdicts:
    """The verdicts for each class of nodes, about the requests that only a node's own pools can serve.

    They are computed when they are needed.

    Args:
        find_view: returns the view of the claims for the nodes of one signature.
        evaluator: evaluates parts.

    Attributes:
        has_ratings: whether the order has preferences, so that verdicts have ratings.
        undecided: the classes on which the search gave up, by number.
    """

    def __init__(self, find_view: FindView, evaluator: PartEvaluator) -> None:
        self.has_ratings = evaluator.order.compute_preferences is not None
        self.undecided: dict[int, NodeClass] = {}
        self._find_view = find_view
        self._evaluator = evaluator
        self._known: dict[int, Verdict] = {}

    @property
    def size(self) -> int:
        """Return the number of known verdicts."""
        return len(self._known)

    def get(self, node_class: NodeClass) -> Verdict | None:
        """Return the verdict for the nodes of a class; None if it is not known."""
        return self._known.get(node_class.number)

    def find(self, node_class: NodeClass) -> Verdict:
        """Return the verdict for the nodes of a class. The class must have a node.

        Raises:
            BudgetSpentError: the verdict is not known, and the budget is spent.
        """
        verdict = self._known.get(node_class.number)
        if verdict is None:
            member = self._evaluator.fleet.members[node_class.first]
            part = self._find_part(node_class)
            verdict = self._evaluator.evaluate(part, node_class.signature, member.node, member.entries)
            self._known[node_class.number] = verdict
            if verdict is UNDECIDED:
                self.undecided[node_class.number] = node_class
        return verdict

    def has_bound(self, node_class: NodeClass) -> bool:
        """Return whether `find_bound` needs no part of the budget."""
        return node_class.number in self._known or not self.has_ratings

    def find_bound(self, node_class: NodeClass) -> Preference | None:
        """Return a rating that is not greater than that of the class; None if the claims don't fit.

        Raises:
            BudgetSpentError: the bound is not known, and the budget is spent.
        """
        verdict = self._known.get(node_class.number)
        if verdict is None and self.has_ratings:
            if self._find_part(node_class).bits is not None:
                return self.compute_bound(node_class)
            verdict = self.find(node_class)
        if verdict is REFUSED or verdict is UNDECIDED:
            return None
        return verdict.rating if isinstance(verdict, ShapeFits) else ()

    def compute_bound(self, node_class: NodeClass) -> Preference | None:
        """Return a bound as `find_bound` does. It also holds for the same claims with fewer candidates.

        Raises:
            BudgetSpentError: the budget is spent.
        """
        entries = self._evaluator.fleet.members[node_class.first].entries
        return self._evaluator.bound(self._find_part(node_class), entries)

    def limit_size(self) -> None:
        """Forget all verdicts if there are too many."""
        if len(self._known) > _MAX_VERDICTS:
            self._known.clear()

    def clear(self) -> None:
        """Forget all verdicts, because devices that they depend on have changed."""
        self._known.clear()
        self.undecided.clear()

    def _find_part(self, node_class: NodeClass) -> Part:
        return self._find_view(node_class.signature, node_class.first).own
