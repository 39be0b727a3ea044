"""Only `&&`, `||`, `all` and `exists` absorb an error, if the other operands decide."""

import pytest

from dradriver.cel import EvaluationError
from tests.unit.cel.devices import MINE, matches

ERROR = f"{MINE}.nosuch"


@pytest.mark.parametrize("expression", [f"{ERROR} && false", f"false && {ERROR}", f"{MINE}.count && false"])
def test_false_absorbs_an_error_on_either_side_of_and(expression: str) -> None:
    assert not matches(expression)


@pytest.mark.parametrize("expression", [f"{ERROR} || true", f"true || {ERROR}", f"{MINE}.count || true"])
def test_true_absorbs_an_error_on_either_side_of_or(expression: str) -> None:
    assert matches(expression)


@pytest.mark.parametrize(
    "expression",
    [
        f"{ERROR} && true",
        f"true && {ERROR}",
        f"{ERROR} || false",
        f"!{ERROR} || false",
        f"({ERROR} ? true : true)",
        f"{MINE}.count && true",
        f"[1, 2].exists(x, {ERROR} == x)",
        "[1, 2].all(x, 1 / (x - 1) > 0)",
        "[1, 2].exists_one(x, 1 / (x - 1) > 0)",
    ],
)
def test_an_error_remains_if_no_operand_decides(expression: str) -> None:
    with pytest.raises(EvaluationError):
        matches(expression)


def test_one_element_decides_all_and_exists_despite_errors() -> None:
    assert matches("[1, 2].exists(x, 1 / (x - 1) > 0)")
    assert not matches("[1, 2].all(x, 1 / (x - 1) > 5)")


def test_an_unused_binding_is_never_computed() -> None:
    assert matches("cel.bind(x, 1 / 0 == 1, true)")


def test_the_last_of_400_alternatives_decides() -> None:
    assert matches(" || ".join(["1 / 0 == 1"] * 399 + ["true"]))
