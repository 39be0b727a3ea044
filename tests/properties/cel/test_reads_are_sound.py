"""What an expression does not read changes nothing about its result."""

from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dradriver.cel import CelError, CompileError, Selector, SelectorDevice
from tests.conformance.cel.cases import selector_device
from tests.interop.cel.random_expressions import random_device, random_expression
from tests.properties.cel.placer_idioms import idiomatic_expression

seeds = st.integers(0, 2**32)


def outcome(selector: Selector, device: SelectorDevice) -> object:
    """Return the verdict with cost and steps, or the text of the error."""
    try:
        return selector.evaluate(device)
    except CelError as error:
        return str(error)


def changed(random: Random, device: dict[str, Any], selector: Selector) -> dict[str, Any]:
    """Return the device with other values of everything that the selector does not read."""
    assert selector.reads is not None
    other = random_device(random)
    values = list(other["attributes"].values())
    attributes = {
        name: value if name.rpartition("/")[2] in selector.reads or not values else random.choice(values)
        for name, value in device["attributes"].items()
    }
    return {
        "driver": device["driver"],
        "attributes": attributes,
        "capacity": device["capacity"] if selector.reads_capacity else other["capacity"],
        "allowMultipleAllocations": (device if selector.reads_allow_multiple_allocations else other).get(
            "allowMultipleAllocations"
        ),
    }


def assert_sound(expression: str, random: Random) -> bool:
    """Assert the law, and return whether the expression was a test of it."""
    try:
        selector = Selector(expression)
    except CompileError:
        return False
    if selector.reads is None:
        return False
    device = random_device(random)
    expected = outcome(selector, selector_device(device))
    for _ in range(3):
        assert outcome(selector, selector_device(changed(random, device, selector))) == expected
    return True


@given(seeds, st.integers(0, 4))
@settings(max_examples=150)
def test_values_that_are_not_read_do_not_matter(seed: int, depth: int) -> None:
    random = Random(seed)
    assert_sound(idiomatic_expression(random, depth), random)


@given(seeds, st.integers(0, 4))
@settings(max_examples=80)
def test_values_that_are_not_read_do_not_matter_to_any_function(seed: int, depth: int) -> None:
    random = Random(seed)
    assert_sound(random_expression(random, depth), random)


def test_most_idioms_read_a_known_part() -> None:
    random = Random(1)
    assert sum(assert_sound(idiomatic_expression(random, 2), random) for _ in range(50)) > 25
