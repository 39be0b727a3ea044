"""The parts of a selector give its verdict."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from dradriver.cel import CompileError, Conjunct, EvaluationError, Selector, SelectorDevice, split_conjuncts
from tests.conformance.cel.cases import selector_device
from tests.interop.cel.random_expressions import random_device, random_expression
from tests.properties.cel.placer_idioms import conjunction

seeds = st.integers(0, 2**32)


def verdict(part: Conjunct | Selector, device: SelectorDevice) -> bool | None:
    """Return the verdict; None if the part or the selector fails."""
    try:
        return part.matches(device)
    except EvaluationError:
        return None


def assert_law(random: Random, expression: str) -> int:
    """Assert the law, and return the number of parts, 0 if there are none."""
    try:
        parts = split_conjuncts(expression)
    except CompileError:
        return 0
    if parts is None:
        return 0
    for _ in range(4):
        device = selector_device(random_device(random))
        whole = verdict(Selector(expression), device)
        verdicts = [verdict(part, device) for part in parts]
        if None not in verdicts:
            assert whole is all(verdicts)
        first = next((each for each in verdicts if each is not True), True)
        if first is not None:
            assert whole is first, "a part does not match and none before it fails"
        for part, each in zip(parts, verdicts, strict=True):
            if part.compares is not None and part.compares.is_safe(device):
                assert each is not None
                assert_equals(part, device, matches=each)
    return len(parts)


def assert_equals(part: Conjunct, device: SelectorDevice, *, matches: bool) -> None:
    assert part.compares is not None
    expected = part.compares.equals
    if expected is not None:
        names = device.view["attributes"][part.compares.domain]  # type: ignore[index]
        value = names.get(part.compares.attribute)
        assert matches is (type(value) is type(expected) and value == expected)


@given(seeds)
@settings(max_examples=80)
def test_the_parts_of_a_conjunction_give_its_verdict(seed: int) -> None:
    random = Random(seed)
    assert_law(random, conjunction(random))


@given(seeds, st.integers(1, 4))
@settings(max_examples=60)
def test_the_parts_of_any_selector_give_its_verdict(seed: int, depth: int) -> None:
    random = Random(seed)
    assert_law(random, random_expression(random, depth))


def test_many_conjunctions_have_parts() -> None:
    random = Random(1)
    assert sum(assert_law(random, conjunction(random)) > 1 for _ in range(40)) > 10
