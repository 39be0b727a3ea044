"""No selector takes much time, much memory or a deep Python stack."""

import sys
from collections.abc import Callable

import pytest
import re2

from dradriver.cel import CompileError, EvaluationError, Selector, SelectorDevice
from dradriver.cel.evaluate.regex import pattern_size
from tests.unit.cel.devices import GPU, matches

TEN = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"
SPARE_FRAMES = 60


def near_the_end_of_the_stack(action: Callable[[], object]) -> object:
    """Run an action while Python has only a few frames left."""

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
def test_an_expression_nested_deeper_than_kubernetes_accepts_does_not_compile(expression: str) -> None:
    with pytest.raises(CompileError, match="nested deeper than 250 levels"):
        Selector(expression)


def test_an_expression_of_more_than_ten_kibibytes_does_not_compile() -> None:
    assert Selector(f'"{"x" * 10_000}" != ""').matches(GPU)
    with pytest.raises(CompileError, match="longer than 10240 bytes"):
        Selector(f'"{"ü" * 5_200}" != ""')


EXPENSIVE = "lists.range(1000).distinct().size() == 1000"
ENDLESS = f"{TEN}.all(a, " * 6 + "true" + ")" * 6


def test_an_evaluation_that_costs_more_than_a_million_fails() -> None:
    with pytest.raises(EvaluationError, match="costs more than 1000000"):
        matches(EXPENSIVE)


def test_an_evaluation_that_makes_too_many_steps_fails() -> None:
    with pytest.raises(EvaluationError, match="takes more than 200000 steps"):
        matches(ENDLESS)


@pytest.mark.parametrize("expression", [EXPENSIVE, ENDLESS])
def test_no_operator_absorbs_an_exceeded_limit(expression: str) -> None:
    with pytest.raises(EvaluationError, match="more than"):
        matches(f"({expression}) || true")


def test_the_limit_is_for_one_evaluation() -> None:
    selector = Selector("lists.range(10000).map(x, x).size() == 10000")
    assert [selector.matches(GPU) for _ in range(3)] == [True, True, True]


def test_the_cost_of_a_large_device_is_counted() -> None:
    """The fast path counts no cost, so an unusually large device does not take it."""
    selector = Selector('device.attributes["d"].text.matches("(a|b)+x")')
    assert not selector.matches(SelectorDevice("d", {"text": "ab" * 100}))
    with pytest.raises(EvaluationError, match="more than"):
        selector.matches(SelectorDevice("d", {"text": "ab" * 3_000_000}))


def bindings_that_multiply(levels: int) -> str:
    """Return an expression with four times as many elements on each level."""
    source = "b.size() > 0"
    for _ in range(levels):
        source = f"cel.bind(b, b + b + b + b, {source})"
    return f"cel.bind(b, [1, 2, 3, 4], {source})"


@pytest.mark.parametrize(
    "expression",
    [
        "lists.range(300000).distinct().size() > 0",
        'lists.range(20000).all(i, "aaaa".matches("a{" + string(i % 1000) + "}") || true)',
        bindings_that_multiply(12),
        "lists.range(50000).all(i, i >= 0)",
        'cel.bind(t, lists.range(9000).map(i, "a").join(), '
        'lists.range(1000).all(i, t.lastIndexOf("ab" + t) < 0))',
        "lists.range(200).all(i, timestamp(0).getHours('No/Such' + string(i)) == 0 || true) && "
        "lists.range(200).all(i, timestamp(0).getHours('No/Such' + string(i)) == 0 || true)",
        'lists.range(3000).all(i, "a".matches("(a|b)*a(a|b){12}") || true)',
    ],
    ids=lambda expression: expression[:30],
)
def test_steps_are_spent_before_the_work(expression: str) -> None:
    with pytest.raises(EvaluationError, match="takes more than 200000 steps"):
        matches(expression)


def test_a_loop_of_eight_thousand_rounds_is_within_the_limit() -> None:
    assert matches("lists.range(8000).all(i, i >= 0)")


@pytest.mark.parametrize(
    "expression",
    [
        "optional.of(1)" + ".optMap(a, a)" * 40 + ".hasValue()",
        "optional.of(1)" + ".optFlatMap(a, optional.of(a))" * 40 + ".hasValue()",
    ],
    ids=["optMap", "optFlatMap"],
)
def test_macros_that_grow_exponentially_do_not_compile(expression: str) -> None:
    with pytest.raises(CompileError, match="too large after macro expansion"):
        Selector(expression)


@pytest.mark.parametrize("body", ["[a, b].size() == 2", "(true ? a : b) == a", "{a: b, b: a}.size() == 2"])
def test_types_with_shared_parts_compile_in_bounded_time(body: str) -> None:
    source = body
    for _ in range(30):
        source = f"cel.bind(a, {{a: a}}, cel.bind(b, {{b: b}}, {source}))"
    with pytest.raises(CompileError, match="the types in the expression are too large"):
        Selector(f"cel.bind(a, 1, cel.bind(b, 1, {source}))")


@pytest.mark.parametrize(
    "expression",
    [
        r'"".matches("\\pL{100}")',
        " || ".join(f'"".matches("a{{{900 + n}}}")' for n in range(20)),
        '"".matches("((a{30}){30}|b{900}){1,1000}")',
    ],
)
def test_literal_patterns_of_a_large_total_size_do_not_compile(expression: str) -> None:
    with pytest.raises(CompileError, match=r"too large|repetition"):
        Selector(expression)


@pytest.mark.parametrize(
    "pattern",
    [
        "a", "a|b", "[a-z]{50}", "[^/]{50}", ".{50}", r"\w{50}", r"\W{50}", r"\pL", r"\PN", "(a?){50}",
        "(a*)*" * 20, "(?i)k{50}", "(?i:[^k]){20}", "[[:alpha:]é-ÿ]{50}", r"[\x{100}-\x{10ffff}]{20}",
        "((a{5}){5}){5}", "é{50}", "(?P<name>a)+?", r"\Qa.b\E+", "^(A100|H100)$",
    ],
)  # fmt: skip
def test_the_estimated_size_of_a_pattern_is_an_upper_bound(pattern: str) -> None:
    compiled = re2.compile(pattern)
    assert pattern_size(pattern) >= max(compiled.programsize, compiled.reverseprogramsize)


def test_a_literal_pattern_is_compiled_with_the_selector() -> None:
    """A pattern from the device is compiled and counted in each round. A literal pattern is not."""
    device = SelectorDevice("d", {"pattern": "a{500}", "text": "b"})
    loop = 'lists.range(50).all(i, !device.attributes["d"].text.matches({}))'
    literal = Selector(loop.format('"a{500}"')).evaluate(device).steps
    dynamic = Selector(loop.format('device.attributes["d"].pattern')).evaluate(device).steps
    assert dynamic > 10 * literal


def test_an_error_shows_no_more_than_a_part_of_a_long_text() -> None:
    with pytest.raises(EvaluationError) as caught:
        matches('cel.bind(t, lists.range(1000).map(i, "x").join(), bool(t))')
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "body",
    ["a == b", "dyn(a).indexOf(1) == 0", '"%s".format([a]) == ""'],
)
def test_values_with_shared_parts_are_compared_in_bounded_time(body: str) -> None:
    source = body
    for _ in range(40):
        source = f"cel.bind(a, [a, a], cel.bind(b, [b, b], {source}))"
    with pytest.raises(EvaluationError):
        matches(f"cel.bind(a, [dyn(1)], cel.bind(b, [dyn(1)], {source}))")


def test_a_pattern_for_catastrophic_backtracking_runs_in_linear_time() -> None:
    text = "a" * 200 + "!"
    assert not matches('device.attributes["d"].text.matches("^(a+)+$")', SelectorDevice("d", {"text": text}))
