"""Limits the work of the decision about one pod.

The limit counts work, not time, so a decision is the same on every computer and in every run. Cached results
count as if they were computed, for the same reason.

The weights were measured by `python -m benchmarks.allocator.weights` on one core of a server. They are upper
bounds for common inputs, rounded up.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from dradriver.allocator.explain.refusal import Reason, Refusal

__all__ = [
    "BUDGET",
    "CHOICES",
    "CLASSES",
    "COMPILING",
    "DEVICES",
    "NODES",
    "PROOFS",
    "SELECTORS",
    "SORTING",
    "BudgetSpentError",
    "Meter",
    "WorkKind",
]

BUDGET: Final = 250_000
"""Work for the decision about one pod, in microseconds of one core."""


@dataclass(frozen=True, slots=True, eq=False)
class WorkKind:
    """A kind of work.

    Attributes:
        name: its name in messages.
        nanoseconds: the time of one unit on one core.
    """

    name: str
    nanoseconds: int


NODES: Final = WorkKind("preparing nodes", 100_000)
"""One node on which devices are chosen, apart from its devices."""

SORTING: Final = WorkKind("sorting nodes", 1_000)
"""One step of putting a node into its class, or of indexing its values of an attribute."""

CLASSES: Final = WorkKind("looking at nodes", 15_000)
"""One class of equal nodes on which no search is necessary."""

CHOICES: Final = WorkKind("device choices", 20_000)
"""One device that the search or a proof chooses and gives back."""

PROOFS: Final = WorkKind("proofs", 1_000)
"""One comparison of what requests need with what is available."""

SELECTORS: Final = WorkKind("selectors", 400)
"""One step of the evaluation of an expression (`dradriver.cel.evaluate.steps`)."""

COMPILING: Final = WorkKind("compiling expressions", 10_000)
"""One byte of an expression."""

DEVICES: Final = WorkKind("reading devices", 700)
"""One device that is numbered, or compared with a request or a constraint."""


class BudgetSpentError(Exception):
    """The budget does not suffice for the work that remains."""


class Meter:
    """Counts the work of the decision about one pod, on all nodes together.

    Args:
        budget: the limit in microseconds of one core.

    Attributes:
        budget: the limit in microseconds of one core.
        spent: the work so far by its kind, in nanoseconds.
    """

    def __init__(self, budget: int = BUDGET) -> None:
        self.budget = budget
        self._left = budget * 1000
        self._reserve = 0
        self.spent: dict[WorkKind, int] = {}
        self._done: set[tuple[WorkKind, str]] = set()

    def renew(self) -> "Meter":
        """Return a meter with the whole budget, for a second decision about the same pod.

        What is done only once for each key is not counted again.
        """
        renewed = Meter(self.budget)
        renewed._done = self._done
        return renewed

    @property
    def is_spent(self) -> bool:
        """Return whether nothing is left of the budget."""
        return self._left < 0

    def spend(self, kind: WorkKind, amount: int = 1) -> None:
        """Count work before it is done.

        Args:
            kind: the kind of work.
            amount: the number of its units.

        Raises:
            BudgetSpentError: the work exceeds the budget, or the part of it that one node may spend.
        """
        nanoseconds = kind.nanoseconds * amount
        self.spent[kind] = self.spent.get(kind, 0) + nanoseconds
        self._left -= nanoseconds
        if self._left < self._reserve:
            raise BudgetSpentError

    def spend_once(self, kind: WorkKind, key: str, amount: int) -> bool:
        """Count work that is done only once for each key.

        Args:
            kind: the kind of work.
            key: the key.
            amount: the number of units.

        Raises:
            BudgetSpentError: as in `spend`.

        Returns:
            Whether the work is counted now.
        """
        if (kind, key) in self._done:
            return False
        self.spend(kind, amount)
        self._done.add((kind, key))
        return True

    def spend_part(self, percent: int, work: Callable[[], None]) -> None:
        """Do work until it is complete or has spent a part of the budget, so that the rest is left.

        If nothing is left of the budget, no work is done.

        Args:
            percent: this part of the budget.
            work: does the work. If it raises `BudgetSpentError`, another call must be able to continue it.
        """
        if self._left < 0:
            return
        before = self._reserve
        self._reserve = max(self._left - self.budget * 10 * percent, before)
        try:
            work()
        except BudgetSpentError:
            pass
        finally:
            self._reserve = before

    @contextmanager
    def one_node(self) -> Iterator[None]:
        """Let the work on one node spend at most half of the budget, so that other nodes are tried too.

        Raises:
            BudgetSpentError: nothing is left of the budget, or the work exceeds the node's part.

        Returns:
            A context manager. The limit applies inside of it.
        """
        if self.is_spent:
            raise BudgetSpentError
        before = self._reserve
        self._reserve = max(self._left - self.budget * 500, before)  # half of the budget, in nanoseconds
        try:
            yield
        finally:
            self._reserve = before

    def refusal(self, node: str = "") -> Refusal:
        """Return the refusal for a decision that exceeds the budget.

        Args:
            node: the name of the node on which the work ended; empty if it belongs to no node.
        """
        total = sum(self.spent.values()) or 1
        # Shares are rounded to tens, so that the condition of a waiting pod is rarely rewritten.
        tens = {kind.name: (20 * spent + total) // (2 * total) for kind, spent in self.spent.items()}
        names = sorted(filter(tens.get, tens), key=lambda name: (-tens[name], name))
        shares = ", ".join(f"{10 * tens[name]} % {name}" for name in names)
        return Refusal(
            "undecided",
            f"cannot decide within {self.budget / 1000:g} ms of work: {shares}",
            node=node,
            reasons=[Reason("budget", f"the work exceeds the budget of {self.budget / 1000:g} ms")],
        )
