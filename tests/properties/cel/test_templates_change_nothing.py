"""A selector that is filled from a template equals the same selector compiled in full."""

import re
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dradriver.cel import CelError, CompileError, Selector, SelectorDevice
from dradriver.cel.compile import templates
from dradriver.cel.compile.templates import compile_expression, compile_selector_text
from tests.conformance.cel.cases import selector_device
from tests.interop.cel.random_expressions import random_device, random_expression
from tests.properties.cel.placer_idioms import conjunction, idiomatic_expression

seeds = st.integers(0, 2**32)

_LITERAL = r"""(?:r?"[^"\n]*"|'[^'\n]*'|\b[0-9]+\b)"""
_COMPARED = rf"(?<=[!=]= ){_LITERAL}|{_LITERAL}(?= [!=]=)"
_TEXTS = (
    '""', '"a100"', "'h100'", r'"a\u0031\x30\060"', r"r'\d'", "'''it's'''", '"""a"""', '"é☃"',
    r'"\n"', '"model"',
)  # fmt: skip
_ODD_TEXTS = (f'"{"x" * 256}"', f'"{"x" * 257}"', f'"{"é" * 5000}"', r'"\ud800"')
_INTS = ("0", "1", "4", "0x10", "2147483648", "9223372036854775807", "9223372036854775808")


def with_other_literals(random: Random, expression: str) -> str:
    """Return the expression with other literals: some of all, or all beside `==` and `!=`."""
    everywhere = random.random() < 0.2

    def replace(match: re.Match[str]) -> str:
        if everywhere and random.random() < 0.5:
            return match.group()
        texts = _ODD_TEXTS if random.random() < 0.05 else _TEXTS
        return random.choice(_INTS if match.group()[0].isdigit() else texts)

    return re.sub(_LITERAL if everywhere else _COMPARED, replace, expression)


def outcomes(expression: str, devices: list[SelectorDevice]) -> list[object]:
    """Return what is known about a selector, and what it does on some devices."""
    try:
        selector = Selector(expression)
    except CompileError as error:
        return [str(error)]
    results: list[object] = [
        selector.reads,
        selector.reads_capacity,
        selector.reads_allow_multiple_allocations,
        selector.comparison,
        selector.is_bounded,
    ]
    for device in devices:
        for call in (selector.matches, selector.evaluate):
            try:
                results.append(call(device))
            except CelError as error:
                results.append(str(error))
    return results


def outcomes_in_full(expression: str, devices: list[SelectorDevice]) -> list[object]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dradriver.cel.selector.compile_selector_text", compile_expression)
        return outcomes(expression, devices)


def assert_same(random: Random, expression: str) -> None:
    devices = [selector_device(random_device(random)) for _ in range(2)]
    for _ in range(3):
        assert outcomes(expression, devices) == outcomes_in_full(expression, devices)
        expression = with_other_literals(random, expression)


@given(seeds)
@settings(max_examples=60)
def test_a_template_changes_no_conjunction(seed: int) -> None:
    random = Random(seed)
    assert_same(random, conjunction(random))


@given(seeds, st.integers(0, 3))
@settings(max_examples=40)
def test_a_template_changes_no_idiom(seed: int, depth: int) -> None:
    random = Random(seed)
    assert_same(random, idiomatic_expression(random, depth))


@given(seeds, st.integers(0, 3))
@settings(max_examples=40)
def test_a_template_changes_no_expression(seed: int, depth: int) -> None:
    random = Random(seed)
    assert_same(random, random_expression(random, depth))


def test_many_selectors_come_from_templates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "_TEMPLATES", templates._Templates())
    random = Random(1)
    filled = 0
    for _ in range(100):
        expression = conjunction(random)
        for text in (expression, with_other_literals(random, expression)):
            try:
                filled += not compile_selector_text(text).has_exact_offsets
            except CompileError:
                break
    assert filled > 20
