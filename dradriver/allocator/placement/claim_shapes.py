"""What pods want, and what is known of where it can be had.

Pods with equal claims have equal wishes. A wish knows its verdict for each class of nodes that it was held
against, and keeps a heap of the classes in which it may fit, the best first. The heap is brought up to date
from the journal of the classes, so a class in which nothing changed is not looked at again.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final, TypeAlias

from dradriver.allocator.attempt import WantedClaims
from dradriver.allocator.placement.classes import Classes, NodeClass
from dradriver.allocator.request.subrequests import Subrequest
from dradriver.allocator.supply.order import Preference
from dradriver.allocator.supply.pools import PooledDevice
from dradriver.model.quantity import Quantity

__all__ = [
    "FAULTY",
    "REFUSED",
    "UNDECIDED",
    "ClaimShape",
    "ClassChoice",
    "PlainSubrequest",
    "ShapeFits",
    "ShapeView",
    "Verdict",
]


@dataclass(frozen=True, slots=True)
class ClassChoice:
    """A device that would be chosen on any node of a class.

    Attributes:
        ask: for which ask.
        pool: the number of the node's own pool, in order; -1 for a device that other nodes reach too.
        device: its number in that pool.
        shared: the device that other nodes reach too.
        consumed: what a share takes of its capacities; None when it is taken as a whole.
    """

    ask: Subrequest
    pool: int
    device: int
    shared: PooledDevice | None = None
    consumed: Mapping[str, Quantity] | None = None


@dataclass(frozen=True, slots=True)
class ShapeFits:
    """The wish can be had.

    Attributes:
        rating: what is against it: the least is best.
        choices: the devices.
    """

    rating: Preference
    choices: tuple[ClassChoice, ...]


@dataclass(frozen=True, slots=True)
class PlainSubrequest:
    """An alternative of the only request of a pod without constraints, as nodes of one stock see it.

    Attributes:
        ask: the ask.
        count: how many devices are needed: one, or several of devices that consume no counters.
        candidates: per pool of the node the devices that may serve it, as bits.
        late: per pool those of them with binding conditions.
    """

    ask: Subrequest
    count: int
    candidates: tuple[int, ...]
    late: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ShapeView:
    """A wish as nodes of one stock see it.

    Attributes:
        plain: what makes it a plain wish there; None where it is none.
        fails: whether a selector, or what else is computed of a device, may fail on one of theirs.
    """

    plain: tuple[PlainSubrequest, ...] | None
    fails: bool


REFUSED: Final = "refused"
UNDECIDED: Final = "undecided"
FAULTY: Final = "faulty"
"""Something is wrong with the claims, as is found out on this node."""

Verdict: TypeAlias = ShapeFits | str

_VERDICTS: Final = 100_000
_SLACK: Final = 1000


class ClaimShape:
    """What some pods want.

    Attributes:
        wanted: the claims of the first of them.
        views: by the number of a stock how nodes see it there.
        undecided: the classes for which there is no verdict.
    """

    def __init__(
        self, wanted: WantedClaims, judge: Callable[["ClaimShape", NodeClass], Verdict], *, rates: bool
    ) -> None:
        self.wanted = wanted
        self.views: dict[int, ShapeView] = {}
        self.undecided: set[NodeClass] = set()
        self._judge = judge
        self._rates = rates
        self._verdicts: dict[int, Verdict] = {}
        self._heap: list[tuple[Preference, str, int, NodeClass]] = []
        self._seen: tuple[int, int] = (-1, 0)
        self._version = -1

    def verdict(self, alike: NodeClass) -> Verdict:
        """Whether the wish can be had on the nodes of a class."""
        found = self._verdicts.get(alike.number)
        if found is None:
            if len(self._verdicts) > _VERDICTS:
                self._verdicts.clear()
            found = self._verdicts[alike.number] = self._judge(self, alike)
            if found is UNDECIDED:
                self.undecided.add(alike)
        return found

    def best(
        self, classes: Classes, version: int, wanted: Callable[[str], bool] | None
    ) -> tuple[str, Verdict] | None:
        """The best node that is wanted, and its verdict: it fits, or the claims are faulty. None: no such node.

        Args:
            classes: all classes.
            version: of what is shared; with another one no verdict counts any more.
            wanted: which nodes may be chosen; None for all.
        """
        self._catch_up(classes, version)
        if wanted is None:
            top = next(self._tops(), None)
            return None if top is None else (top[1], self.verdict(top[3]))
        aside = []
        found: tuple[Preference, str, Verdict] | None = None
        for rating, name, _, alike in self._tops():
            if found is not None and (rating, name) > found[:2]:
                break
            aside.append(heappop(self._heap))
            mine = alike.first_of(wanted)
            if mine is not None and (found is None or (rating, mine) < found[:2]):
                found = rating, mine, self.verdict(alike)
        for entry in aside:
            heappush(self._heap, entry)
        return found and found[1:]

    def _tops(self) -> Iterator[tuple[Preference, str, int, NodeClass]]:
        """The top of the heap, for as long as there is one; whoever does not take it sees it again."""
        heap = self._heap
        while heap:
            rating, name, _, alike = heap[0]
            if not alike.nodes or (verdict := self.verdict(alike)) is REFUSED or verdict is UNDECIDED:
                heappop(heap)
            elif alike.first != name or _rating(verdict) != rating:
                heappop(heap)
                self._push(alike)
            else:
                yield heap[0]

    def _catch_up(self, classes: Classes, version: int) -> None:
        if version != self._version:
            self._version = version
            self._verdicts.clear()
            self.views.clear()
            self.undecided.clear()
            self._seen = -1, 0
        epoch, seen = self._seen
        news = classes.journal[seen:]
        if epoch != classes.epoch or len(self._heap) > 2 * classes.size + _SLACK:
            self._heap.clear()
            news = classes.occupied()
        for alike in dict.fromkeys(news):
            if alike.nodes:
                self._push(alike)
        self._seen = classes.epoch, len(classes.journal)

    def _push(self, alike: NodeClass) -> None:
        # Under an order that prefers no device a class needs no verdict before it leads the heap.
        verdict = self.verdict(alike) if self._rates else self._verdicts.get(alike.number)
        if verdict is REFUSED or verdict is UNDECIDED:
            return
        heappush(self._heap, (_rating(verdict), alike.first, alike.number, alike))


def _rating(verdict: Verdict | None) -> Preference:
    return verdict.rating if isinstance(verdict, ShapeFits) else ()
