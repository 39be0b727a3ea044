"""Packs items into bins, or proves that they don't fit.

A proof is quick if few sets of items fill a bin exactly. The largest remaining item is packed first, together
with items that fill its bin as far as possible. Equal bins are tried once. What all bins together leave unused
may not exceed the difference between the size of all bins and the size of all items.

Sources: Martello and Toth, "Knapsack Problems", chapter 8 (bound L2, dominance); Korf, "A new algorithm for
optimal bin packing" (bin completion); Fekete and Schepers (dual feasible functions).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from math import gcd
from typing import Final, TypeAlias

from dradriver.allocator.search.backtracking import backtrack

__all__ = ["Bin", "Item", "Packing", "exceeds_bins", "pack"]

Packing: TypeAlias = list[dict[int, int]]
"""For each item of the input: how many copies of it are in which bin, by the bin's name."""

_SUMS_PER_STEP: Final = 10_000
"""Sums that are added in about the time of a step."""

_Levels: TypeAlias = "Iterator[_Levels | None]"
_Choice: TypeAlias = tuple[tuple[int, int], ...]

_MOST_COUNTED: Final = 6
"""Items that fit at least once, but fewer times than this, into a bin are counted for a bound."""

_MAX_SUMS: Final = 200_000
"""Largest bin for which the sums of the items are listed, in units of the items' greatest common divisor."""


@dataclass(frozen=True, slots=True)
class Item:
    """Equal items.

    Attributes:
        size: the size of one of them, at least 1.
        count: their number.
        rooms: how many of them a bin may hold, by the bin's name, whatever else the bin holds.
    """

    size: int
    count: int
    rooms: dict[int, int]


@dataclass(frozen=True, slots=True)
class Bin:
    """A bin. `name` is any number, `left` is what the bin can still hold."""

    name: int
    left: int


def exceeds_bins(items: Sequence[Item], bins: Sequence[Bin]) -> bool:
    """Return whether a bound proves that the items don't fit into the bins.

    If a function is superadditive and never falls, the items of a bin together have at most the value of the
    bin. So all items together have at most the value of all bins. The functions are `size // step`, which
    counts large items, and those of the bound L2.
    """
    largest = max((each.left for each in bins), default=0)
    sizes = sorted({item.size for item in items})
    steps = {1, *sizes, *(largest // (count + 1) + 1 for count in range(1, _MOST_COUNTED))}
    functions: list[Callable[[int], int]] = [_count_steps_of(step) for step in steps]
    functions += [_l2_function(least, largest) for least in sizes if 2 * least <= largest]
    return any(
        sum(item.count * value(item.size) for item in items) > sum(value(each.left) for each in bins)
        for value in functions
    )


def _count_steps_of(step: int) -> Callable[[int], int]:
    """Return the function that counts how often `step` fits."""
    return lambda size: size // step


def _l2_function(least: int, largest: int) -> Callable[[int], int]:
    """Return the function of the bound L2 for bins of at most `largest`.

    Sizes below `least` count nothing. Sizes that leave less than `least` in the largest bin count like it.
    """
    return lambda size: 0 if size < least else (size if size <= largest - least else largest)


def pack(items: Sequence[Item], bins: Sequence[Bin], spend: Callable[[int], None]) -> Packing | None:
    """Return a packing of all items; None if there is none.

    Args:
        items: the items.
        bins: the bins.
        spend: called with the number of small steps before they are made. It may raise an exception.
    """
    spend((len(items) + len(bins)) * (_MOST_COUNTED + 2 * len(items)) // 8)
    if exceeds_bins(items, bins):
        return None
    return _Packer(items, bins, spend).run()


class _Packer:
    """One search for a packing. Sizes are divided by their greatest common divisor."""

    def __init__(self, items: Sequence[Item], bins: Sequence[Bin], spend: Callable[[int], None]) -> None:
        unit = reduce(gcd, (item.size for item in items), 0) or 1
        self._spend = spend
        self._order = sorted(range(len(items)), key=lambda number: -items[number].size)
        self._sizes = [items[number].size // unit for number in self._order]
        self._counts = [items[number].count for number in self._order]
        types: dict[tuple[int, tuple[int, ...]], list[int]] = {}
        for each in sorted(bins, key=lambda each: each.left):
            rooms = tuple(
                min(item.count, item.rooms.get(each.name, 0)) for item in (items[n] for n in self._order)
            )
            types.setdefault((each.left // unit, rooms), []).append(each.name)
        self._types = list(types)
        self._names = list(types.values())
        self._free = [len(names) for names in self._names]
        self._slack = sum(left * free for (left, _), free in zip(self._types, self._free, strict=True)) - sum(
            size * count for size, count in zip(self._sizes, self._counts, strict=True)
        )
        self._is_unrestricted = all(
            room >= count for _, rooms in self._types for room, count in zip(rooms, self._counts, strict=True)
        )
        self._item_of_size = {size: item for item, size in enumerate(self._sizes)}
        self._dead: set[tuple[tuple[int, ...], tuple[int, ...]]] = set()
        self._chosen: list[tuple[int, _Choice]] = []

    def run(self) -> Packing | None:
        if self._slack < 0 or not backtrack(self._fill()):
            return None
        packing: Packing = [{} for _ in self._order]
        next_of_type = [0] * len(self._types)
        for kind, choice in self._chosen:
            name = self._names[kind][next_of_type[kind]]
            next_of_type[kind] += 1
            for item, count in choice:
                packing[self._order[item]][name] = count
        return packing

    def _fill(self) -> _Levels:
        """Yield the ways to fill one bin.

        It is the smallest bin if this bin is much smaller than others, because few sets of items fill it. Else
        it is any bin that gets the largest remaining item.
        """
        first = next((item for item, count in enumerate(self._counts) if count), None)
        if first is None:
            yield None
            return
        state = tuple(self._counts), tuple(self._free)
        kinds = [kind for kind, free in enumerate(self._free) if free]
        if state in self._dead or not kinds:
            return
        gets_first = 2 * self._types[kinds[0]][0] > self._types[kinds[-1]][0]
        for kind in kinds if gets_first else kinds[:1]:
            left, rooms = self._types[kind]
            for choice, waste in self._completions(first, left, rooms, gets_first=gets_first):
                self._apply(kind, choice, waste, 1)
                yield self._fill()
                self._apply(kind, choice, waste, -1)
        self._dead.add(state)

    def _apply(self, kind: int, choice: _Choice, waste: int, sign: int) -> None:
        self._free[kind] -= sign
        self._slack -= sign * waste
        for item, count in choice:
            self._counts[item] -= sign * count
        if sign > 0:
            self._chosen.append((kind, choice))
        else:
            self._chosen.pop()

    def _suffix_sums(self, first: int, left: int) -> list[int]:
        """Return, for each item, the sums up to `left` that it and the smaller items can have, as bits."""
        self._spend((len(self._sizes) - first) * (1 + left // _SUMS_PER_STEP))
        mask = (2 << left) - 1
        sums = [1] * (len(self._sizes) + 1)
        for item in range(len(self._sizes) - 1, first - 1, -1):
            reached, size, count, times = sums[item + 1], self._sizes[item], self._counts[item], 1
            while count and size * min(times, count) <= left:
                taken = min(times, count)
                reached |= reached << (size * taken) & mask
                count -= taken
                times *= 2
            sums[item] = reached
        return sums

    def _completions(
        self, first: int, left: int, rooms: Sequence[int], *, gets_first: bool
    ) -> Iterator[tuple[_Choice, int]]:
        """Yield the sets of items that fill a bin as far as possible, and what they waste.

        Args:
            first: the largest remaining item.
            left: the size of the bin.
            rooms: how many of each item the bin may hold.
            gets_first: whether the bin gets at least one of `first`.
        """
        exact = self._find_exact(first, left - self._sizes[first] * gets_first, gets_first=gets_first)
        if exact is not None:
            # Another set that fills the bin can change places with the one item, so no packing is lost.
            chosen = ([first] if gets_first else []) + [exact]
            yield tuple((item, chosen.count(item)) for item in dict.fromkeys(chosen)), 0
            return
        sums = self._suffix_sums(first, left) if left <= _MAX_SUMS else None
        stack: list[tuple[int, int, _Choice]] = [(first, left, ())]
        while stack:
            self._spend(1)
            item, rest, choice = stack.pop()
            if sums is not None and not (sums[item] & ((2 << rest) - 1)) >> max(rest - self._slack, 0):
                continue
            needs_first = gets_first and not choice
            while not needs_first and item < len(self._sizes) and not self._most(item, rest, rooms):
                item += 1
            if item == len(self._sizes):
                if rest <= self._slack and self._is_maximal(first, rest, rooms, choice):
                    yield choice, rest
                continue
            stack += (
                (item + 1, rest - count * self._sizes[item], (*choice, (item, count)) if count else choice)
                for count in range(1 if needs_first else 0, self._most(item, rest, rooms) + 1)
            )

    def _most(self, item: int, rest: int, rooms: Sequence[int]) -> int:
        """Return how many of the item fit into the rest of a bin."""
        return min(self._counts[item], rooms[item], rest // self._sizes[item])

    def _find_exact(self, first: int, rest: int, *, gets_first: bool) -> int | None:
        """Return the item that fills the rest of the bin exactly, if bins hold any number of each item."""
        item = self._item_of_size.get(rest, -1) if self._is_unrestricted else -1
        return item if item >= first and self._counts[item] > (gets_first and item == first) else None

    def _is_maximal(self, first: int, rest: int, rooms: Sequence[int], choice: _Choice) -> bool:
        """Return whether no other item fits into what is left."""
        chosen = dict(choice)
        return not any(
            self._sizes[item] <= rest and chosen.get(item, 0) < min(self._counts[item], rooms[item])
            for item in range(first, len(self._sizes))
        )
