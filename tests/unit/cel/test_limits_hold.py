"""No selector takes long, much memory or Python's stack, whatever it says."""

import sys
from collections.abc import Callable

import pytest

from dradriver.cel import CompileError, EvaluationError, Selector, SelectorDevice
from tests.unit.cel.devices import GPU, matches

TEN = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"
SPARE_FRAMES = 60


def near_the_end_of_the_stack(action: Callable[[], object]) -> object:
    """Runs an action where Python has only a few frames left."""

    def descend(left: int) -> object:
        return action() if left <= 0 else descend(left - 1)

    depth = 0
    frame = sys._getframe()
    while frame is not None:
        depth += 1
        frame = frame.f_back  # type: ignore[assignment]
    return descend(sys.getrecursionlimit() - depth - SPARE_FRAMES)


@pytest.mark.parametrize(
    "expression",
    [
        "(" * 249 + "true" + ")" * 249,
        "!(" * 249 + "true" + ")" * 249,
        "[" * 249 + "1" + "]" * 249 + ".size() == 1",
        "true ? true : " * 249 + "true",
        "1 + " * 240 + "1 > 0",
        "(true && " * 240 + "true" + ")" * 240,
        "[1].all(a, " * 200 + "true" + ")" * 200,
        "cel.bind(a, 1, " * 200 + "a == 1" + ")" * 200,
        "dyn(1)" + ".x" * 240 + " == 1 || true",
        "[1]" + ".map(x, [[[[[[[[x]]]]]]]])" * 30 + " == [] || true",
        " || ".join(["false"] * 400 + ["true"]),
        "true == (" * 120 + "true" + ")" * 120,
    ],
    ids=lambda expression: expression[:20],
)
def test_deep_expressions_need_no_deep_stack(expression: str) -> None:
    limit = sys.getrecursionlimit()
    verdict = near_the_end_of_the_stack(lambda: Selector(expression).evaluate(GPU)[0])
    assert verdict is (not expression.startswith("!("))
    assert sys.getrecursionlimit() == limit


@pytest.mark.parametrize(
    "expression",
    ["(" * 250 + "true" + ")" * 250, "1 + " * 300 + "1 > 0", "dyn(1)" + ".x" * 251 + " == 1"],
    ids=lambda expression: expression[:10],
)
def test_what_nests_deeper_than_kubernetes_accepts_does_not_compile(expression: str) -> None:
    with pytest.raises(CompileError, match="nested deeper than 250 levels"):
        Selector(expression)


def test_more_than_ten_kibibytes_do_not_compile() -> None:
    assert Selector(f'"{"x" * 10_000}" != ""').matches(GPU)
    with pytest.raises(CompileError, match="longer than 10240 bytes"):
        Selector(f'"{"ü" * 5_200}" != ""')


def test_an_evaluation_that_costs_more_than_a_million_fails() -> None:
    expression = f"{TEN}.all(a, " * 6 + "true" + ")" * 6
    with pytest.raises(EvaluationError, match="costs more than 1000000"):
        matches(expression)


def test_nothing_absorbs_the_cost_limit() -> None:
    with pytest.raises(EvaluationError, match="costs more than 1000000"):
        matches(f"({TEN}.all(a, " * 1 + f"{TEN}.all(b, " * 5 + "true" + ")" * 6 + ") || true")


def test_the_budget_is_that_of_one_evaluation() -> None:
    selector = Selector("lists.range(60000).map(x, x).size() == 60000")
    assert [selector.matches(GPU) for _ in range(3)] == [True, True, True]


def test_a_large_device_costs_what_it_costs() -> None:
    """The fast path knows no cost, so it is not taken where the device is unusually large."""
    selector = Selector('device.attributes["d"].text.matches("(a|b)+x")')
    assert not selector.matches(SelectorDevice("d", {"text": "ab" * 100}))
    with pytest.raises(EvaluationError, match="costs more"):
        selector.matches(SelectorDevice("d", {"text": "ab" * 3_000_000}))


@pytest.mark.parametrize(
    "body",
    ["a == b", "dyn(a).indexOf(1) == 0", '"%s".format([a]) == ""'],
)
def test_values_that_share_their_parts_do_not_take_for_ever(body: str) -> None:
    source = body
    for _ in range(40):
        source = f"cel.bind(a, [a, a], cel.bind(b, [b, b], {source}))"
    with pytest.raises(EvaluationError):
        matches(f"cel.bind(a, [dyn(1)], cel.bind(b, [dyn(1)], {source}))")


def test_a_pattern_that_would_backtrack_for_ever_is_harmless() -> None:
    text = "a" * 200 + "!"
    assert not matches('device.attributes["d"].text.matches("^(a+)+$")', SelectorDevice("d", {"text": text}))
