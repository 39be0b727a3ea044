"""Laws of every selector and device."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from dradriver.cel import CompileError, Selector
from tests.conformance.cel.cases import selector_device, verdict
from tests.interop.cel.random_expressions import random_device, random_expression

seeds = st.integers(0, 2**32)


@given(seeds, st.integers(0, 4))
@settings(max_examples=300)
def test_the_fast_path_and_the_evaluator_give_the_same_result(seed: int, depth: int) -> None:
    random = Random(seed)
    verdict(random_expression(random, depth), selector_device(random_device(random)))  # it asserts this law


@given(seeds)
@settings(max_examples=100)
def test_an_evaluation_is_repeatable(seed: int) -> None:
    random = Random(seed)
    expression, device = random_expression(random, 3), selector_device(random_device(random))
    assert verdict(expression, device) == verdict(expression, device)


def compiles_or_is_refused(expression: str) -> bool:
    try:
        Selector(expression)
    except CompileError as error:
        return bool(error.reason) and (error.position is None or error.position >= (1, 1))
    return True


@given(st.text(max_size=60))
@settings(max_examples=300)
def test_any_text_compiles_or_is_rejected(text: str) -> None:
    assert compiles_or_is_refused(text)


@given(seeds, st.data())
@settings(max_examples=300)
def test_a_damaged_selector_compiles_or_is_rejected(seed: int, data: st.DataObject) -> None:
    expression = random_expression(Random(seed), 3)
    at = data.draw(st.integers(0, len(expression)))
    inserted = data.draw(
        st.sampled_from(["(", ")", ".", "?", "[", '"', "!", "-", "{", ",", " in ", "\\", "x", "1", ""])
    )
    assert compiles_or_is_refused(expression[:at] + inserted + expression[at + 1 :])
