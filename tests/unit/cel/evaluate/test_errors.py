import pytest

from dradriver.cel import CelError, CompileError, EvaluationError, Selector
from dradriver.errors import DraError
from tests.unit.cel.devices import GPU, MINE


def compile_error(expression: str) -> CompileError:
    with pytest.raises(CompileError) as caught:
        Selector(expression)
    return caught.value


def evaluation_error(expression: str) -> EvaluationError:
    with pytest.raises(EvaluationError) as caught:
        Selector(expression).matches(GPU)
    return caught.value


def test_the_two_classes_share_a_base_for_users() -> None:
    assert issubclass(CompileError, CelError)
    assert issubclass(EvaluationError, CelError)
    assert issubclass(CelError, DraError)


def test_an_error_has_position_reason_and_hint() -> None:
    error = evaluation_error(f"true &&\n  {MINE}.nosuch == 1")
    assert error.position == (2, 39)
    assert error.reason == "no such key: nosuch"
    assert error.hint == "use has(...) or .?nosuch"
    assert error.expression.startswith("true")


def test_the_text_of_an_error_is_one_line() -> None:
    text = str(evaluation_error(f"true &&\n  {MINE}.nosuch == 1"))
    assert "\n" not in text
    assert text == (
        "selector failed: no such key: nosuch at line 2, column 39 of "
        '`true && device.attributes["gpu.example.com"].nosuch == 1`; use has(...) or .?nosuch'
    )


@pytest.mark.parametrize(
    ("expression", "position", "reason", "hint"),
    [
        ('device.capacity["d"].m > quantity("1")', (1, 24), "does not apply", "isGreaterThan"),
        ("device.driver == gpu", (1, 18), "undeclared name 'gpu'", "quotes"),
        ("device.driver =", (1, 15), "unexpected '='", ""),
        ("device.driver ==", (1, 17), "unexpected end of the expression", ""),
        ("has(device)", (1, 4), "has() needs a field", "device.attributes"),
        ("device.drivers == 'x'", (1, 7), "no field 'drivers'", "driver, allowMultipleAllocations"),
        ("nosuch(1)", (1, 7), "no function 'nosuch'", ""),
        ('device.driver.matches("(")', (1, 23), "not a pattern", "RE2"),
        ('duration("1d") > duration("1h")', (1, 9), "not a duration", "1h30m"),
        ("[1, 'a'].size() == 2", (1, 5), "expected int but found string", "one type"),
        ("99999999999999999999 > 0", (1, 1), "64 bits", "does not fit"),
        ("google.protobuf.Duration{} == null", (1, 25), "can't build objects", ""),
    ],
)
def test_a_compile_error_names_position_rule_and_hint(
    expression: str, position: tuple[int, int], reason: str, hint: str
) -> None:
    error = compile_error(expression)
    assert error.position == position
    assert reason in error.reason
    assert hint in (error.hint or "")


def test_a_long_expression_is_shortened_to_the_failing_part() -> None:
    text = str(evaluation_error("true && " * 200 + f"{MINE}.nosuch == 1"))
    assert len(text) < 300
    assert "…" in text
    assert ".nosuch" in text
