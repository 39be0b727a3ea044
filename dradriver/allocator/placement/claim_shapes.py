"""Claim shapes: the kinds of claims that pods have, and their verdicts for classes of nodes.

Pods with equal claims have one claim shape. A claim shape stores its verdict for each class of nodes on which
it was evaluated. It also keeps a heap of the classes in which it may fit, the best first. The journal of the
classes updates the heap, so a class without changes is not read again.
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
        ask: the subrequest that it serves.
        pool: the number of the node's own pool, in order; -1 for a device that other nodes reach too.
        device: its number in that pool.
        shared: the device, if other nodes reach it too.
        consumed: the capacity that a share consumes; None if the device is allocated as a whole.
    """

    ask: Subrequest
    pool: int
    device: int
    shared: PooledDevice | None = None
    consumed: Mapping[str, Quantity] | None = None


@dataclass(frozen=True, slots=True)
class ShapeFits:
    """The claim shape fits.

    Attributes:
        rating: the preference; the smallest is best.
        choices: the devices.
    """

    rating: Preference
    choices: tuple[ClassChoice, ...]


@dataclass(frozen=True, slots=True)
class PlainSubrequest:
    """An alternative of the only request of a pod without constraints, as nodes with one signature see it.

    Attributes:
        ask: the subrequest.
        count: number of devices: one, or several devices that consume no counters.
        candidates: for each pool of the node, the devices that can serve it, as bits.
        late: for each pool, the candidates with binding conditions.
    """

    ask: Subrequest
    count: int
    candidates: tuple[int, ...]
    late: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ShapeView:
    """A claim shape as nodes with one signature see it.

    Attributes:
        plain: the subrequests of a plain claim shape; None if the claim shape is not plain on these nodes.
        fails: whether a selector, or another computation, may fail on one of their devices.
    """

    plain: tuple[PlainSubrequest, ...] | None
    fails: bool


REFUSED: Final = "refused"
UNDECIDED: Final = "undecided"
FAULTY: Final = "faulty"
"""The claims are wrong; this was found on this node."""

Verdict: TypeAlias = ShapeFits | str

_VERDICTS: Final = 100_000
_SLACK: Final = 1000


class ClaimShape:
    """The common claims of some pods.

    Attributes:
        wanted: the claims of the first of these pods.
        views: for each signature, by number, the claim shape as its nodes see it.
        undecided: the classes without a verdict.
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
        """Return the verdict for the nodes of a class."""
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
        """Return the best allowed node and its verdict; None if there is no such node.

        The verdict is that the claim shape fits, or that the claims are faulty.

        Args:
            classes: all classes.
            version: version of the shared pools; a different version invalidates all verdicts.
            wanted: tells whether a node may be chosen; None allows all.
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
        """Yield the top of the heap until the heap is empty. An entry that is not taken is yielded again."""
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
        # Under an order that prefers no device, a class needs a verdict only when it is at the top of the heap.
        verdict = self.verdict(alike) if self._rates else self._verdicts.get(alike.number)
        if verdict is REFUSED or verdict is UNDECIDED:
            return
        heappush(self._heap, (_rating(verdict), alike.first, alike.number, alike))


def _rating(verdict: Verdict | None) -> Preference:
    return verdict.rating if isinstance(verdict, ShapeFits) else ()
