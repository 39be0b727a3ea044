"""The steps of an evaluation limit its calls and its memory, and are the same each time.

`tests/faults` checks the law for CPU time, with many more selectors; this module measures no time.
"""

import os
import sys
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import FrameType

import pytest

from dradriver.cel import CompileError, EvaluationError, Selector
from dradriver.cel.compile.environment import FUNCTIONS
from dradriver.cel.compile.functions import Overload
from dradriver.cel.evaluate import steps
from tests.properties.cel.hostile_selectors import CALLS, DEVICE, MEMORY, direct_selector, hostile_selector

LIMIT = 10_000
"""Steps of an evaluation here, so that many fit into a short test; the law is the same for each step."""

CALLS_OF_A_STEP = 3.5
BYTES_OF_A_STEP = MEMORY / steps.LIMIT
SPARE = 100_000
SEED = int(os.environ.get("SEED", "0"))
SELECTORS = 80


def outcome(selector: Selector) -> object:
    """Return the verdict with cost and steps, or the error."""
    try:
        return selector.evaluate(DEVICE)
    except EvaluationError as error:
        return str(error)


def calls(action: Callable[[], object]) -> int:
    """Return the number of functions that are called, in Python and C."""
    count = 0

    def seen(frame: FrameType, event: str, arg: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(seen)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count


def memory(action: Callable[[], object]) -> int:
    """Return the peak of allocated bytes, beyond those before."""
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def check(selector: Selector, name: str) -> None:
    """Check the law for one selector; a second evaluation must equal the first."""
    first = outcome(selector)
    assert calls(partial(outcome, selector)) <= CALLS_OF_A_STEP * LIMIT, name
    assert memory(partial(outcome, selector)) <= BYTES_OF_A_STEP * LIMIT + SPARE, name
    assert outcome(selector) == first, f"{name}: the same selector and device, another outcome"


def test_work_and_memory_are_bounded_by_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "LIMIT", LIMIT)
    tried = 0
    for seed in range(SEED, SEED + SELECTORS):
        with suppress(CompileError):
            check(Selector(hostile_selector(seed)), f"SEED={seed}")
            tried += 1
    assert tried > SELECTORS / 2


SIZED = {"string", "bytes", "list", "map", "optional_type", "kubernetes.URL", "kubernetes.Semver", "dyn"}
"""Types of which a value can be large."""

CONSTANT = {
    "size", "charAt", "first", "last", "value", "hasValue", "or", "orValue", "optional.of",
    "optional.ofNonZeroValue", "dyn", "type", "string(string)", "bytes(bytes)", "_?_:_", "@append", "_[_]",
    "_[?_]", "format.named", "getScheme", "getHost", "major", "minor", "patch",
}  # fmt: skip
"""Functions that do the same for a large argument as for a small one."""


def large(overload: Overload) -> bool:
    return any(param.is_parameter or param.name in SIZED for param in overload.params)


def signature(overload: Overload) -> str:
    return f"{overload.name}({', '.join(param.name for param in overload.params)})"


LARGE = [overload for overloads in FUNCTIONS.values() for overload in overloads if large(overload)]


@pytest.mark.parametrize("overload", LARGE, ids=signature)
def test_a_function_that_takes_something_large_spends_steps_for_it(overload: Overload) -> None:
    declares = overload.work is not None or overload.metered
    assert declares != (overload.name in CONSTANT or signature(overload) in CONSTANT)


@pytest.mark.parametrize("overload", [each for each in LARGE if each in CALLS], ids=signature)
def test_each_function_spends_its_steps_before_it_works(
    overload: Overload, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "LIMIT", LIMIT)
    with suppress(CompileError):
        check(Selector(direct_selector(overload)), signature(overload))
