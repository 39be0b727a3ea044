"""Counter sets drawn as text: a letter for each device in use.

    gpu.example.com/node-1, counter set gpu-0
      memory-slice  0 1 2 3 4 5 6 7
                    A A A A B . . .
      memory        AAAAAAAAAAAABBB.........  24832Mi of 40192Mi
      A  gpu-0-mig-3g-20gb-0  claim default/train  pod default/train-0
      B  gpu-0-mig-1g-5gb-4   claim default/infer
      3 of 19 devices still fit

Counters with an amount of 1 whose names differ only in a number at the end are places. They become the cells of
one row. Every other counter becomes a bar in which each device has its part.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from string import ascii_lowercase, ascii_uppercase
from typing import Final, TypeAlias

from dradriver.cli.partitions.use import CounterSetUse, CounterUse, HoldingPod
from dradriver.model.quantity import Quantity

__all__ = ["drawing"]

_NUMBERED: Final = re.compile(r"(.+?)-?(\d+)")
_ONE: Final = Quantity("1").nano
_BAR: Final = 24
_CELLS: Final = 32
_NAMED: Final = 4
_LETTERS: Final = ascii_uppercase + ascii_lowercase
_FREE: Final = "."
_TWICE: Final = "!"
_CROWD: Final = "#"
"""Mark of all devices for which no letter is left."""

_Marked: TypeAlias = Sequence[tuple[str, HoldingPod]]


def drawing(uses: Iterable[CounterSetUse]) -> Iterator[str]:
    """Yield the lines of the drawing, with an empty line between counter sets."""
    for number, use in enumerate(uses):
        if number:
            yield ""
        yield from _counter_set(use)


def _counter_set(use: CounterSetUse) -> Iterator[str]:
    yield f"{use.driver}/{use.pool}, counter set {use.name}"
    rows, bars = _rows(counter for counter in use.counters if counter.total.nano or counter.used.nano)
    marked = list(zip(chain(_LETTERS, repeat(_CROWD)), _from_left(use.holders, rows), strict=False))
    names = [*rows, *(counter.name for counter in bars)]
    width = max(map(len, names), default=0)
    for name, numbered in rows.items():
        for line, start in enumerate(range(0, len(numbered), _CELLS)):
            cells = list(_cells(numbered[start : start + _CELLS], marked))
            label = name if not line else ""
            yield f"  {label:{width}}  " + " ".join(number for number, _ in cells)
            yield f"  {'':{width}}  " + " ".join(cell for _, cell in cells)
    for counter in bars:
        over = ", overdrawn" if counter.used > counter.total else ""
        told = f"{counter.used} of {counter.total}{over}"
        yield f"  {counter.name:{width}}  {_bar(counter, marked)}  {told}"
    yield from _legend(marked)
    yield f"  {len(use.fitting)} of {use.devices} devices still fit" + _named(use.fitting)


def _from_left(holders: Sequence[HoldingPod], rows: Mapping[str, Sequence[CounterUse]]) -> Sequence[HoldingPod]:
    """Return the holders in the order of their first places."""
    places = {cell.name: at for at, cell in enumerate(chain.from_iterable(rows.values()))}
    last = len(places)
    return sorted(
        holders, key=lambda holder: min((places.get(name, last) for name in holder.takes), default=last)
    )


def _rows(counters: Iterable[CounterUse]) -> tuple[dict[str, list[CounterUse]], list[CounterUse]]:
    """Return the counters that are places, grouped by prefix and ordered by number, and the other counters."""
    counters = list(counters)
    numbered: dict[str, dict[int, CounterUse]] = {}
    for counter in counters:
        match = _NUMBERED.fullmatch(counter.name)
        if match and counter.total.nano == _ONE:
            numbered.setdefault(match[1], {})[int(match[2])] = counter
    rows = {name: [found[n] for n in sorted(found)] for name, found in numbered.items() if len(found) > 1}
    placed = {counter.name for row in rows.values() for counter in row}
    return rows, [counter for counter in counters if counter.name not in placed]


def _cells(row: Sequence[CounterUse], marked: _Marked) -> Iterator[tuple[str, str]]:
    numbers = [match[2] for counter in row if (match := _NUMBERED.fullmatch(counter.name))]
    width = max(map(len, numbers), default=1)
    for number, counter in zip(numbers, row, strict=True):
        by = [mark for mark, holder in marked if counter.name in holder.takes]
        cell = _FREE if not by else by[0] if len(by) == 1 else _TWICE
        yield f"{number:>{width}}", f"{cell:>{width}}"


def _bar(counter: CounterUse, marked: _Marked) -> str:
    """Return a bar with a part for each device.

    While there is room, a device that uses anything has a letter.
    """
    total, taken, bar = counter.total.nano, 0, ""
    for mark, holder in marked:
        mine = holder.takes.get(counter.name)
        if mine is None or not mine.nano:
            continue
        taken += mine.nano
        end = _BAR if taken >= total else max(len(bar) + 1, taken * _BAR // total)
        bar = bar.ljust(min(end, _BAR), mark)
    return bar.ljust(_BAR, _FREE)


def _legend(marked: _Marked) -> Iterator[str]:
    width = max((len(holder.device) for _, holder in marked), default=0)
    for mark, holder in marked:
        by = f"claim {', '.join(holder.claims)}"
        pods = f"  pod {', '.join(holder.pods)}" if holder.pods else ""
        yield f"  {mark}  {holder.device:{width}}  {by}{pods}"


def _named(devices: Sequence[str]) -> str:
    if not devices:
        return ""
    more = f" and {len(devices) - _NAMED} more" if len(devices) > _NAMED else ""
    return f": {', '.join(devices[:_NAMED])}{more}"
