import pytest

from dradriver.cel import CompileError, Selector, compile_selector


def test_equal_expressions_make_equal_selectors() -> None:
    assert Selector("true") == Selector("true")
    assert len({Selector("true"), Selector("true"), Selector("false")}) == 2


def test_a_selector_is_immutable() -> None:
    with pytest.raises(AttributeError):
        Selector("true").expression = "false"


def test_a_selector_is_compiled_once() -> None:
    assert compile_selector("device.driver == 'x'") is compile_selector("device.driver == 'x'")


def test_a_selector_that_does_not_compile_fails_each_time() -> None:
    for _ in range(2):
        with pytest.raises(CompileError):
            compile_selector("device.")
