"""Arranges the counters of a counter set as rows that are drawn to scale.

If counters have an amount of 1 and their names differ only in a number at the end, they become the cells of one
row. Each other counter becomes a bar.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Final

from dradriver.model.quantity import Quantity, exact_key
from dradriver.overview.counters.counter_use import CounterSetUse, CounterUse, HeldDevice
from dradriver.overview.values import Lane, Segment

__all__ = ["arrange_counters", "build_lanes", "cell_number", "describe_used", "sort_by_first_cell"]

_NUMBERED: Final = re.compile(r"(.+?)-?(\d+)")
_UNIT: Final = re.compile(r"\d+([KMGTPE]i)")
_MAX_FREE_LANES: Final = 1024
_FREE_LANES: Final[dict[tuple[tuple[str, int, str], ...], tuple[Lane, ...]]] = {}
"""The lanes of counter sets that are not in use. Most counter sets of a large cluster are equal."""
_ONE: Final = Quantity("1").nano


def arrange_counters(use: CounterSetUse) -> tuple[dict[str, list[CounterUse]], list[CounterUse]]:
    """Return the counters that become cells, grouped by prefix and sorted by number, and the other counters.

    Counters without any amount are left out.

    Args:
        use: the counter set.
    """
    counters = [counter for counter in use.counters if counter.total.nano or counter.used.nano]
    numbered: dict[str, dict[int, CounterUse]] = {}
    for counter in counters:
        parts = _split(counter.name) if counter.total.nano == _ONE else None
        if parts is not None:
            numbered.setdefault(parts[0], {})[int(parts[1])] = counter
    rows = {name: [cells[n] for n in sorted(cells)] for name, cells in numbered.items() if len(cells) > 1}
    in_rows = {counter.name for row in rows.values() for counter in row}
    bars = [counter for counter in counters if counter.name not in in_rows]
    return rows, sorted(bars, key=lambda counter: _natural_key(counter.name))


def cell_number(counter: str) -> str:
    """Return the number at the end of a counter's name; empty if it has none.

    Args:
        counter: name of the counter.
    """
    parts = _split(counter)
    return parts[1] if parts else ""


def describe_used(counter: CounterUse) -> str:
    """Return the used amount as text, in the unit of the total if possible: `29696Mi` beside `40192Mi`.

    Args:
        counter: the counter.
    """
    match = _UNIT.fullmatch(str(counter.total))
    if match is None or not counter.used.nano:
        return str(counter.used)
    number, rest = divmod(counter.used.nano, Quantity(f"1{match[1]}").nano)
    return str(counter.used) if rest else f"{number}{match[1]}"


def sort_by_first_cell(
    holders: Iterable[HeldDevice], rows: Mapping[str, Sequence[CounterUse]]
) -> list[HeldDevice]:
    """Return the devices in use in the order of their first cells.

    Args:
        holders: the devices.
        rows: the counters that become cells, as `arrange_counters` returns them.
    """
    positions = {cell.name: at for at, cell in enumerate(chain.from_iterable(rows.values()))}
    last = len(positions)
    return sorted(
        holders, key=lambda holder: min((positions.get(name, last) for name in holder.consumes), default=last)
    )


def build_lanes(use: CounterSetUse, listed: Mapping[str, int]) -> tuple[Lane, ...]:
    """Return the lanes of a counter set: rows of cells, then bars.

    If there are no cells, the counter with the largest total is the first lane. The other bars are ordered by
    name.

    Args:
        use: the counter set.
        listed: for each device in use, its index in `Card.listed`.
    """
    if use.holders:
        return _arrange_lanes(use, listed)
    key = tuple([(counter.name, *exact_key(counter.total)) for counter in use.counters])
    lanes = _FREE_LANES.get(key)
    if lanes is None:
        if len(_FREE_LANES) >= _MAX_FREE_LANES:
            _FREE_LANES.clear()
        lanes = _FREE_LANES[key] = _arrange_lanes(use, listed)
    return lanes


def _arrange_lanes(use: CounterSetUse, listed: Mapping[str, int]) -> tuple[Lane, ...]:
    rows, bars = arrange_counters(use)
    holders = sort_by_first_cell(use.holders, rows)
    lanes = [_row_lane(name, cells, holders, listed) for name, cells in rows.items()]
    if bars and not rows:
        largest = max(bars, key=lambda counter: counter.total.nano)
        bars = [largest, *(counter for counter in bars if counter is not largest)]
    return (*lanes, *(_bar_lane(counter, holders, listed) for counter in bars))


def _row_lane(
    name: str, cells: Sequence[CounterUse], holders: Iterable[HeldDevice], listed: Mapping[str, int]
) -> Lane:
    segments = []
    for holder in holders:
        taken = [at for at, cell in enumerate(cells) if cell.name in holder.consumes]
        segments += [
            Segment(listed[holder.device], first / len(cells), end / len(cells)) for first, end in _runs(taken)
        ]
    used = sum(cell.used.nano for cell in cells) // _ONE
    segments.sort(key=lambda segment: (segment.start, segment.device))
    return Lane(name, len(cells), str(len(cells)), str(used), tuple(segments))


def _runs(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the end of each run of consecutive numbers."""
    first = end = -1
    for number in numbers:
        if number != end:
            if end > first:
                yield first, end
            first = number
        end = number + 1
    if end > first:
        yield first, end


def _bar_lane(counter: CounterUse, holders: Iterable[HeldDevice], listed: Mapping[str, int]) -> Lane:
    total, used, segments = counter.total.nano, 0, []
    for holder in holders:
        taken = holder.consumes.get(counter.name)
        if taken is None or not taken.nano:
            continue
        used += taken.nano
        # A part beyond the total of an overdrawn counter is drawn at the end, over other parts.
        end = min(1.0, used / total) if total else 1.0
        start = max(0.0, end - taken.nano / total) if total else 0.0
        segments.append(Segment(listed[holder.device], start, end))
    segments.sort(key=lambda segment: (segment.start, segment.device))
    return Lane(counter.name, 0, str(counter.total), describe_used(counter), tuple(segments))


def _natural_key(name: str) -> tuple[str, int]:
    """Return a key that orders `host-2` before `host-10`."""
    parts = _split(name)
    return (parts[0], int(parts[1])) if parts is not None else (name, -1)


@lru_cache(maxsize=8192)
def _split(name: str) -> tuple[str, str] | None:
    """Return the prefix and the number at the end of a counter's name; None if it has no number."""
    match = _NUMBERED.fullmatch(name)
    return (match[1], match[2]) if match else None
