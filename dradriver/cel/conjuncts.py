"""Splits a selector at its outermost `&&` into parts that can be evaluated separately.

If all parts match, the selector matches. If a part does not match and no part before it fails, the selector
does not match. So a caller can evaluate first the parts that have one result for many devices.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from dradriver.cel.compile.analysis.bounds import MAX_DEVICE_SIZE
from dradriver.cel.compile.analysis.comparisons import Comparison
from dradriver.cel.compile.analysis.pieces import split_text
from dradriver.cel.compile.environment import SelectorDevice
from dradriver.cel.evaluate.errors import EvaluationError
from dradriver.cel.selector import Selector, compile_selector

__all__ = ["Conjunct", "split_conjuncts"]


@dataclass(frozen=True, slots=True)
class Conjunct:
    """One part of a selector.

    Attributes:
        expression: the source text of the part.
        reads: the names, without domains, of the attributes whose values the part reads.
        reads_capacity: whether the part may read a capacity.
        matches: returns whether a device matches. Raises `EvaluationError` if the part fails on the device. On
            an unusually large device every part fails, because only the whole selector's cost decides there.
        steps: the steps of an evaluation, as an estimate that does not depend on the device.
        compares: the comparison, if the part only compares one attribute with literals; otherwise None.
    """

    expression: str
    reads: frozenset[str]
    reads_capacity: bool
    matches: Callable[[SelectorDevice], bool]
    steps: int
    compares: Comparison | None


@lru_cache(maxsize=4096)
def split_conjuncts(expression: str) -> tuple[Conjunct, ...] | None:
    """Return the parts of a selector, in the order of the text; None if they can't replace the selector.

    If no part fails on a device, the selector matches the device if and only if all parts do. If a part fails,
    evaluate the whole selector: `&&` ignores most errors of a part if another part does not match, but not the
    errors that end an evaluation. A part whose `compares` is safe on the device does not fail there.

    The result is None if the selector's cost is not bounded, or if a part may read all attributes.

    Args:
        expression: the `cel.expression` of a device selector.

    Raises:
        CompileError: see `Selector`.
    """
    if not compile_selector(expression).is_bounded:
        return None
    parts: list[Conjunct] = []
    for text in split_text(expression):
        selector = compile_selector(text)
        if selector.reads is None:
            return None
        parts.append(
            Conjunct(
                text,
                selector.reads,
                selector.reads_capacity,
                _matcher(selector),
                selector.fast_steps,
                selector.comparison,
            )
        )
    return tuple(parts)


def _matcher(selector: Selector) -> Callable[[SelectorDevice], bool]:
    def matches(device: SelectorDevice) -> bool:
        if device.size > MAX_DEVICE_SIZE:
            raise EvaluationError(selector.expression, None, "the device is too large for a part of a selector")
        return selector.matches(device)

    return matches
