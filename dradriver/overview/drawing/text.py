"""Counter sets drawn as text: a letter for each device in use.

    gpu.example.com/node-1, counter set gpu-0
      memory-slice  0 1 2 3 4 5 6 7
                    A A A A B . . .
      memory        AAAAAAAAAAAABBB.........  24832Mi of 40192Mi
      A  gpu-0-mig-3g-20gb-0  claim default/train  pod default/train-0
      B  gpu-0-mig-1g-5gb-4   claim default/infer
      3 of 19 devices still fit

If counters have an amount of 1 and their names differ only in a number at the end, they become the cells of one
row. Each other counter becomes a bar. In the bar, each device has a part.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat
from typing import Final, TypeAlias

from dradriver.overview.counters.counter_use import CounterSetUse, CounterUse, HeldDevice
from dradriver.overview.counters.lanes import (
    arrange_counters,
    cell_number,
    describe_used,
    sort_by_first_cell,
)
from dradriver.overview.drawing.marks import LETTERS, NO_LETTER

__all__ = ["draw_counter_sets"]

_BAR_WIDTH: Final = 24
_CELLS_PER_LINE: Final = 32
_MAX_NAMES: Final = 4
_FREE: Final = "."
_CONFLICT: Final = "!"

_Marked: TypeAlias = Sequence[tuple[str, HeldDevice]]


def draw_counter_sets(uses: Iterable[CounterSetUse]) -> Iterator[str]:
    """Yield the lines of the drawing, with an empty line between counter sets.

    Args:
        uses: the counter sets.
    """
    for number, use in enumerate(uses):
        if number:
            yield ""
        yield from _counter_set(use)


def _counter_set(use: CounterSetUse) -> Iterator[str]:
    yield f"{use.driver}/{use.pool}, counter set {use.name}"
    rows, bars = arrange_counters(use)
    marked = list(zip(chain(LETTERS, repeat(NO_LETTER)), sort_by_first_cell(use.holders, rows), strict=False))
    names = [*rows, *(counter.name for counter in bars)]
    width = max(map(len, names), default=0)
    for name, numbered in rows.items():
        for line, start in enumerate(range(0, len(numbered), _CELLS_PER_LINE)):
            cells = list(_cells(numbered[start : start + _CELLS_PER_LINE], marked))
            label = name if not line else ""
            yield f"  {label:{width}}  " + " ".join(number for number, _ in cells)
            yield f"  {'':{width}}  " + " ".join(cell for _, cell in cells)
    for counter in bars:
        over = ", overdrawn" if counter.used > counter.total else ""
        amounts = f"{describe_used(counter)} of {counter.total}{over}"
        yield f"  {counter.name:{width}}  {_bar(counter, marked)}  {amounts}"
    yield from _legend(marked)
    yield f"  {len(use.fitting)} of {use.devices} devices still fit" + _list_names(use.fitting)


def _cells(row: Sequence[CounterUse], marked: _Marked) -> Iterator[tuple[str, str]]:
    numbers = [cell_number(counter.name) for counter in row]
    width = max(map(len, numbers), default=1)
    for number, counter in zip(numbers, row, strict=True):
        by = [mark for mark, holder in marked if counter.name in holder.consumes]
        cell = _FREE if not by else by[0] if len(by) == 1 else _CONFLICT
        yield f"{number:>{width}}", f"{cell:>{width}}"


def _bar(counter: CounterUse, marked: _Marked) -> str:
    """Return a bar with a part for each device.

    Even a device with a small amount has at least one letter, if the bar has space.
    """
    total, used, bar = counter.total.nano, 0, ""
    for mark, holder in marked:
        consumed = holder.consumes.get(counter.name)
        if consumed is None or not consumed.nano:
            continue
        used += consumed.nano
        end = _BAR_WIDTH if used >= total else max(len(bar) + 1, used * _BAR_WIDTH // total)
        bar = bar.ljust(min(end, _BAR_WIDTH), mark)
    return bar.ljust(_BAR_WIDTH, _FREE)


def _legend(marked: _Marked) -> Iterator[str]:
    width = max((len(holder.device) for _, holder in marked), default=0)
    for mark, holder in marked:
        by = f"claim {', '.join(holder.claims)}"
        pods = f"  pod {', '.join(holder.pods)}" if holder.pods else ""
        yield f"  {mark}  {holder.device:{width}}  {by}{pods}"


def _list_names(devices: Sequence[str]) -> str:
    if not devices:
        return ""
    more = f" and {len(devices) - _MAX_NAMES} more" if len(devices) > _MAX_NAMES else ""
    return f": {', '.join(devices[:_MAX_NAMES])}{more}"
