"""The rows of the screen: nodes and reaches, with what sorting and filtering need."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

from dradriver.cli.top.bars import main_lanes
from dradriver.overview.values import Card, NodeOverview, Overview, Reach

__all__ = ["SORTS", "ItemFilter", "ItemIndex", "ItemKey", "ListItem", "Sort", "card_problems"]

Sort: TypeAlias = Literal["name", "used", "free", "problems"]
SortValue: TypeAlias = tuple[float, tuple[tuple[int, str], ...]]

_DIGITS: Final = re.compile(r"(\d+)")


class ItemKey(NamedTuple):
    """Identifies an item.

    Attributes:
        kind: `node` or `reach`. Reaches come first, because they span nodes.
        name: name of the node, or `driver/pool`.
    """

    kind: Literal["node", "reach"]
    name: str


@dataclass(frozen=True, slots=True)
class ListItem:
    """A node or a reach.

    Attributes:
        key: identifies the item.
        cards: its cards.
        drivers: drivers of the cards.
        used: how much of the cards is in use, from 0 to 1: the mean of their main lanes.
        fitting: number of devices that claims can still get.
        problems: what is wrong, each in few words.
        text: what a typed filter searches, in lower case.
        order: orders items by name, so that `node-2` is before `node-10`.
    """

    key: ItemKey
    cards: tuple[Card, ...]
    drivers: frozenset[str]
    used: float
    fitting: int
    problems: tuple[str, ...]
    text: str
    order: tuple[tuple[int, str], ...]

    def sort_value(self, sort: Sort) -> SortValue:
        """Return the value by which items are ordered.

        Args:
            sort: the order.
        """
        return SORTS[sort](self), self.order


SORTS: Final[Mapping[Sort, Callable[[ListItem], float]]] = {
    "name": lambda item: item.key.kind != "reach",
    "used": lambda item: -item.used,
    "free": lambda item: -item.fitting,
    "problems": lambda item: -len(item.problems),
}
"""Orders of the items. Items that are equal are ordered by name."""


class ItemFilter(NamedTuple):
    """Which items are shown, and in which order.

    Attributes:
        sort: the order.
        text: words that an item must contain, in any case: parts of names, labels, drivers, claims or pods.
        driver: the driver; empty for all.
        only_problems: whether only items with problems are shown.
        only_free: whether only items with devices that fit are shown.
    """

    sort: Sort = "name"
    text: str = ""
    driver: str = ""
    only_problems: bool = False
    only_free: bool = False

    def accepts(self, item: ListItem) -> bool:
        """Return whether an item is shown.

        Args:
            item: the item.
        """
        return (
            (not self.driver or self.driver in item.drivers)
            and (not self.only_problems or bool(item.problems))
            and (not self.only_free or item.fitting > 0)
            and all(word in item.text for word in self.text.lower().split())
        )


class ItemIndex:
    """The items of an overview. Only those that changed are computed again."""

    def __init__(self) -> None:
        self._items: dict[ItemKey, ListItem] = {}
        self._problems: dict[str, list[str]] = {}
        self._drivers: tuple[str, ...] = ()
        self._shown: tuple[ItemFilter, tuple[ItemKey, ...]] | None = None
        self._reaches: Mapping[ItemKey, Reach] = {}

    def apply(
        self, overview: Overview, nodes: Iterable[str] | None = None, *, problems_changed: bool = True
    ) -> None:
        """Compute items again.

        Args:
            overview: the overview.
            nodes: names of the nodes that changed; None for all. Reaches are always computed again if they are
                new objects.
            problems_changed: whether the pools that cannot be used changed.
        """
        dirty = set(overview.nodes) if nodes is None else set(nodes)
        if problems_changed:
            before, self._problems = self._problems, _problems_by_place(overview)
            dirty |= {
                place
                for place in before.keys() | self._problems.keys()
                if before.get(place) != self._problems.get(place)
            }
        for name in dirty:
            self._put(ItemKey("node", name), overview.nodes.get(name))
        old, self._reaches = self._reaches, {_key(reach): reach for reach in overview.reaches}
        for key in old.keys() | self._reaches.keys():
            if problems_changed or old.get(key) is not self._reaches.get(key):
                self._put(key, self._reaches.get(key))
        self._shown = None
        self._drivers = ()

    def _put(self, key: ItemKey, of: NodeOverview | Reach | None) -> None:
        if of is None:
            self._items.pop(key, None)
        else:
            self._items[key] = _build(key, of, self._problems.get(key.name, ()))

    def get(self, key: ItemKey) -> ListItem | None:
        """Return an item; None if it is gone.

        Args:
            key: identifies the item.
        """
        return self._items.get(key)

    def shown(self, wanted: ItemFilter) -> tuple[ItemKey, ...]:
        """Return the items that a filter accepts, in order.

        Args:
            wanted: the filter.
        """
        if self._shown is None or self._shown[0] != wanted:
            accepted = [item for item in self._items.values() if wanted.accepts(item)]
            accepted.sort(key=lambda item: item.sort_value(wanted.sort))
            self._shown = wanted, tuple(item.key for item in accepted)
        return self._shown[1]

    @property
    def drivers(self) -> Sequence[str]:
        """Return the drivers of all items, in order."""
        if not self._drivers:
            self._drivers = tuple(sorted({name for item in self._items.values() for name in item.drivers}))
        return self._drivers

    @property
    def total(self) -> int:
        """Return the number of items, shown or not."""
        return len(self._items)

    def totals(self) -> tuple[int, int, float]:
        """Return the number of nodes, the number of items with problems, and the mean share in use."""
        nodes = sum(key.kind == "node" for key in self._items)
        cards = sum(len(item.cards) for item in self._items.values())
        used = sum(item.used * len(item.cards) for item in self._items.values())
        return nodes, sum(bool(i.problems) for i in self._items.values()), used / cards if cards else 0.0


def card_problems(cards: Iterable[Card]) -> list[str]:
    """Return what is wrong with devices, each in few words: `2 tainted`.

    Args:
        cards: the cards.
    """
    counts = Counter[str]()
    for card in cards:
        for device in card.listed:
            counts["tainted"] += bool(device.taints)
            counts["unhealthy"] += device.health == "unhealthy"
    return [f"{count} {word}" for word, count in counts.items() if count]


def _build(key: ItemKey, of: NodeOverview | Reach, pool_problems: Sequence[str]) -> ListItem:
    problems = [] if isinstance(of, Reach) or of.is_ready else ["not ready"]
    problems += card_problems(of.cards)
    if pool_problems:
        problems.append(f"{len(pool_problems)} broken pool{'s' if len(pool_problems) > 1 else ''}")
    shares = [_used_share(card) for card in of.cards]
    return ListItem(
        key=key,
        cards=of.cards,
        drivers=frozenset(card.driver for card in of.cards),
        used=sum(shares) / len(shares) if shares else 0.0,
        fitting=sum(len(card.fitting) for card in of.cards),
        problems=tuple(problems),
        text=" ".join(_words(key, of)).lower(),
        order=_natural(key.name),
    )


def _used_share(card: Card) -> float:
    """Return how much of the main lanes is in use. Overlapping parts count once."""
    lanes, used = main_lanes(card), 0.0
    for lane in lanes:
        reached = 0.0
        for segment in lane.segments:
            used += max(0.0, segment.end - max(segment.start, reached))
            reached = max(reached, segment.end)
    return used / len(lanes) if lanes else 0.0


def _words(key: ItemKey, of: NodeOverview | Reach) -> Iterable[str]:
    yield key.name
    if isinstance(of, NodeOverview):
        yield from (f"{name}={value}" for name, value in of.labels.items())
    else:
        yield from of.nodes
    seen: set[str] = set()
    for card in of.cards:
        seen |= {card.driver, card.pool, card.product}
        for device in card.listed:
            seen |= {device.name, *device.claims, *device.pods}
    yield from sorted(seen)


def _problems_by_place(overview: Overview) -> dict[str, list[str]]:
    places: dict[str, list[str]] = {}
    for problem in overview.problems:
        places.setdefault(problem.node or f"{problem.driver}/{problem.pool}", []).append(problem.problem)
    return places


def _key(reach: Reach) -> ItemKey:
    return ItemKey("reach", f"{reach.driver}/{reach.pool}")


def _natural(name: str) -> tuple[tuple[int, str], ...]:
    """Return a value that orders `node-2` before `node-10`."""
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in _DIGITS.split(name) if part)
