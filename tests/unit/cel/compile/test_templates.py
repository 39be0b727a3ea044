"""Selectors that differ only in literals beside `==` and `!=` share their compiled form."""

import pytest

from dradriver.cel import CompileError, EvaluationError, Selector
from dradriver.cel.compile import templates
from dradriver.cel.compile.templates import compile_selector_text
from tests.unit.cel.devices import MINE, matches


@pytest.fixture(autouse=True)
def no_templates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "_TEMPLATES", templates._Templates())


def shares(first: str, second: str) -> bool:
    """Return whether the second selector is filled from the first."""
    assert compile_selector_text(first).has_exact_offsets
    return not compile_selector_text(second).has_exact_offsets


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (f"{MINE}.model == 'a100'", f"{MINE}.model == 'h100'"),
        (f"{MINE}.model == 'a100'", f'{MINE}.model\n==\t"h100" // the same'),
        (f"'a100' != {MINE}.model", f"r'h' != {MINE}.model"),
        (f"{MINE}.count == 4", f"{MINE}.count == 0x5"),
        (f"[1].exists(i, {MINE}.count == 4 && true)", f"[1].exists(i, {MINE}.count == 5 && true)"),
        (
            f"cel.bind(m, {MINE}, m.model == 'x' ? true : 'y' == m.model)",
            f"cel.bind(m, {MINE}, m.model == '' ? true : 'z' == m.model)",
        ),
        (f"{MINE}.count + 1 == 4", f"{MINE}.count + 1 == 5"),
        (f"{MINE}.model == 'a' + 'b' && {MINE}.count == 4", f"{MINE}.model == 'a' + 'b' && {MINE}.count == 5"),
        (f"'a' in {MINE} == true && {MINE}.model == 'x'", f"'a' in {MINE} == true && {MINE}.model == 'y'"),
    ],
)
def test_a_literal_beside_an_equality_may_vary(first: str, second: str) -> None:
    assert shares(first, second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (f"{MINE}['model'] == device.driver", f"{MINE}['count'] == device.driver"),
        ("device.attributes['a'].x == 'a'", "device.attributes['b'].x == 'a'"),
        (f"{MINE}.model == 'a' + 'b'", f"{MINE}.model == 'c' + 'b'"),
        (f"{MINE}.model == 'a'.lowerAscii()", f"{MINE}.model == 'b'.lowerAscii()"),
        (f"{MINE}.model.matches('a') == true", f"{MINE}.model.matches('b') == true"),
        (f"{MINE}.version == semver('1.0.0')", f"{MINE}.version == semver('2.0.0')"),
        (f"{MINE}.model in ['a'] == true", f"{MINE}.model in ['b'] == true"),
        (f"{MINE}.count == -1", f"{MINE}.count == -2"),
        (f"{MINE}.count == 1", f"{MINE}.count == 1u"),
        (f"{MINE}.count < 1", f"{MINE}.count < 2"),
        (f"2 + 1 == {MINE}.count", f"2 + 2 == {MINE}.count"),
        (f"{MINE}.model == 'a'", f"{MINE}.model != 'a'"),
        (f"{MINE}.model == 'a'", f"{MINE}.model == '{'a' * 257}'"),
    ],
)
def test_another_literal_may_not_vary(first: str, second: str) -> None:
    assert not shares(first, second)


def test_a_filled_selector_compares_with_its_own_literal() -> None:
    assert matches(f"{MINE}.model == 'h100'") is False
    assert matches(f"{MINE}.model == 'a100'") is True
    assert matches(rf"{MINE}.model == '\u0061100'") is True
    assert matches(f"{MINE}.?model.orValue('') == 'b100'") is False
    assert matches(f"{MINE}.?model.orValue('') == 'a100'") is True


def test_an_error_of_a_filled_selector_has_its_own_place() -> None:
    Selector("'a' == device.driver && true || device.attributes['a'].missing == 1")
    selector = Selector("'abcdef' == device.driver && true || device.attributes['a'].missing == 1")
    for _ in range(2):
        with pytest.raises(EvaluationError, match="'abcdef'") as error:
            matches(selector.expression)
        assert error.value.position == (1, selector.expression.index(".missing") + 1)


def test_an_invalid_literal_does_not_hide_an_earlier_error() -> None:
    with pytest.raises(CompileError, match=r"unexpected '\)'"):
        Selector(r"device.driver == ) && device.driver == '\ud800'")
    with pytest.raises(CompileError, match="not a Unicode character") as error:
        Selector(r"device.driver == '\ud800'")
    assert error.value.position == (1, 18)
    with pytest.raises(CompileError, match="64 bits"):
        Selector("device.driver == 'x' && 9223372036854775808 == 1")


def test_old_templates_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "_MAX_TOKENS", 30)
    assert shares(f"{MINE}.model == 'a'", f"{MINE}.model == 'b'")
    assert shares(f"{MINE}.model != 'a' && {MINE}.count == 1", f"{MINE}.model != 'b' && {MINE}.count == 2")
    assert shares(f"{MINE}.model == 'a'", f"{MINE}.model == 'b'")
