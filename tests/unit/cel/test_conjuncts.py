"""A selector is split at its outermost `&&`."""

import pytest

from dradriver.cel import CompileError, EvaluationError, SelectorDevice, compile_selector, split_conjuncts
from dradriver.cel.compile.analysis.bounds import MAX_DEVICE_SIZE
from dradriver.cel.library.semver import Semver
from dradriver.model.resource.device import AttributeValue, Version
from tests.unit.cel.devices import GPU, MINE

X = 'device.attributes["d"].x'


def texts(expression: str) -> list[str]:
    parts = split_conjuncts(expression)
    assert parts is not None
    return [part.expression for part in parts]


@pytest.mark.parametrize(
    ("expression", "parts"),
    [
        ("true", ["true"]),
        (f"{X} == 'a'", [f"{X} == 'a'"]),
        (f"{X} == '&&' && true", [f"{X} == '&&'", "true"]),
        (f"(({X} == 1 && true) && (false && !{X}))", [f"{X} == 1", "true", "false", f"!{X}"]),
        (f"true && ({X} || false) && (true)", ["true", f"{X} || false", "true"]),
        (f"{X} || true && false", [f"{X} || true && false"]),
        (f"true && false ? true && {X} : false", [f"true && false ? true && {X} : false"]),
        (f"true && (true && {X} ? true : false)", ["true", f"true && {X} ? true : false"]),
        (f"true &&// a comment\n {X} == \n'a'", ["true", f"{X} == \n'a'"]),
        ("cel.bind(a, device.driver, a == 'a' && true)", ["cel.bind(a, device.driver, a == 'a' && true)"]),
        ("device.attributes['(&&'].x && true", ["device.attributes['(&&'].x", "true"]),
    ],
)
def test_the_parts_are_the_operands(expression: str, parts: list[str]) -> None:
    assert texts(expression) == parts


def test_a_part_knows_what_it_reads() -> None:
    first, second = split_conjuncts(f"({X} == 1 || has({X})) && {MINE}.y == 2") or ()
    assert first.reads == frozenset({"x"})
    assert second.reads == frozenset({"y"})
    (capacity,) = split_conjuncts("device.capacity['d'].memory.isGreaterThan(quantity('1Gi'))") or ()
    assert capacity.reads_capacity


@pytest.mark.parametrize("expression", ["[1].exists(i, true)", f"{X} == {{}} && device.attributes == {{}}"])
def test_a_selector_of_unbounded_cost_is_not_split(expression: str) -> None:
    assert split_conjuncts(expression) is None


def test_a_selector_that_does_not_compile_is_not_split() -> None:
    with pytest.raises(CompileError):
        split_conjuncts("true && 1")


def test_a_part_evaluates_devices() -> None:
    first, second = split_conjuncts(f"{MINE}.model == 'a100' && {MINE}.missing") or ()
    assert first.matches(GPU)
    with pytest.raises(EvaluationError, match="missing"):
        second.matches(GPU)


def test_a_part_fails_on_a_large_device() -> None:
    large = SelectorDevice("d", {"x": "a" * (MAX_DEVICE_SIZE + 1)})
    (part,) = split_conjuncts(f"{X} == 'a'") or ()
    assert compile_selector(part.expression).matches(large) is False
    assert part.compares is not None
    assert not part.compares.is_safe(large)
    with pytest.raises(EvaluationError, match="too large"):
        part.matches(large)


VALUES: dict[str, AttributeValue] = {
    "bool": True,
    "int": 4,
    "str": "a",
    "tuple": ("a",),
    "Semver": Version("1.2.3"),
}


@pytest.mark.parametrize(
    ("expression", "equals", "safe"),
    [
        (f"{X} == 'a'", "a", "bool int str tuple"),
        (f"'a' == {X}", "a", "bool int str tuple Semver"),
        (f"{X} != 'a'", None, "bool int str tuple Semver"),
        (f"{X} == 4", 4, "bool int str tuple"),
        (f"{X} == -4", -4, "bool int str tuple"),
        (f"true == {X}", True, "bool int str tuple Semver"),
        (f"{X} == 4.0", None, "bool int str tuple"),
        (f"{X} == 4u", None, "bool int str tuple"),
        (f"!({X} == 'a')", None, "bool int str tuple"),
        (f"{X} in ['a', 'b']", None, "bool int str tuple"),
        (f"!({X} in ['a', 'b'])", None, "bool int str tuple"),
        (f"{X} in [1, 4]", None, "bool int str tuple"),
        (f"{X} < 5", None, "int"),
        (f"{X} >= 'a'", None, "str"),
        (f"{X}.startsWith('a')", None, "str"),
        (f"!{X}.endsWith('a')", None, "str"),
        (f"{X}.contains('a')", None, "str"),
        (X, None, "bool"),
        (f"!{X}", None, "bool"),
        ("device.attributes['d']['x'] == 'a'", "a", "bool int str tuple"),
        ("device.attributes.d.x == 'a'", "a", "bool int str tuple"),
        ("device.attributes['d'].?x.orValue('') == 'a'", "a", "bool int str tuple"),
        ("device.attributes['d'][?'x'].orValue('a') == 'a'", None, "bool int str tuple"),
        ("device.attributes['d'].?x.orValue(1) == true", True, "bool int str tuple"),
        ("device.attributes['d'].?x.orValue(1) < 5", None, "int"),
    ],
)
def test_a_comparison_is_safe_where_it_does_not_fail(expression: str, equals: object, safe: str) -> None:
    (part,) = split_conjuncts(expression) or ()
    compares = part.compares
    assert compares is not None
    assert (compares.domain, compares.attribute) == ("d", "x")
    assert (compares.equals, type(compares.equals)) == (equals, type(equals))
    found = []
    for name, value in VALUES.items():
        device = SelectorDevice("d", {"x": value})
        if compares.is_safe(device):
            found.append(name)
            part.matches(device)
        else:
            with pytest.raises(EvaluationError):
                part.matches(device)
    assert found == safe.split()
    assert Semver in compares.classes or "Semver" not in safe
    for without in (SelectorDevice("d", {"y": "a"}), SelectorDevice("other", {"x": "a"})):
        assert compares.is_safe(without) is ("orValue" in expression)


@pytest.mark.parametrize(
    "expression",
    [
        "true",
        f"has({X})",
        f"{X} == device.driver",
        f"{X} == {X}",
        f"{X} == 'a' || {X} == 'b'",
        f"{X}.matches('a')",
        f"{X}.lowerAscii() == 'a'",
        "device.capacity['d'].x == quantity('1')",
        "'a' in device.attributes['d']",
        "device.attributes['d'].?x.orValue('a') < 5",
        "device.attributes['d'].?x.orValue(device.driver) == 'a'",
    ],
)
def test_other_forms_are_no_comparison(expression: str) -> None:
    (part,) = split_conjuncts(expression) or ()
    assert part.compares is None


def test_a_filled_comparison_has_its_own_literal() -> None:
    for text, equals in (("a", "a"), ("b", "b"), ("", None), ("c", "c")):
        (part,) = split_conjuncts(f"device.attributes['d'].?x.orValue('') == '{text}'") or ()
        assert part.compares is not None
        assert part.compares.equals == equals
