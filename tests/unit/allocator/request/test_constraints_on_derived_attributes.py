"""Attributes that a request computes for its constraints (KEP-6080)."""

from typing import Any

import pytest

from dradriver.allocator import Features, Refusal
from dradriver.cel import CompileError, EvaluationError, SelectorDevice, compile_derivation
from dradriver.model.resource.device import AttributeValue, Version
from tests.unit.allocator.worlds import DRIVER, Json, claim, devices, request, slice_, try_on

ON = Features(derived_attributes=True)
PCI = {"a": "0000:01:00.0", "b": "0000:01:00.1", "c": "0000:02:00.0"}
SLICES = [slice_("s", *({"name": n, "attributes": {"pci": {"string": p}}} for n, p in PCI.items()))]
CARD = f"device.attributes['{DRIVER}'].pci.substring(0, 7)"


def derived(name: str, expression: str = CARD, **wish: Any) -> Json:
    return request(name, derivedAttributes=[{"name": "card.example.com/id", "expression": expression}], **wish)


def test_devices_match_by_the_attribute_that_the_request_computes() -> None:
    same = [{"matchAttribute": "card.example.com/id"}]
    assert devices(try_on(SLICES, claim(derived("r", count=2), constraints=same), features=ON)) == ["a", "b"]
    other = [{"distinctAttribute": "card.example.com/id"}]
    assert devices(try_on(SLICES, claim(derived("r", count=2), constraints=other), features=ON)) == ["a", "c"]


def test_each_request_computes_its_own_attribute() -> None:
    requests = [derived("one", "'x'"), derived("two", f"{CARD} == '0000:02' ? 'x' : 'y'")]
    same = [{"matchAttribute": "card.example.com/id"}]
    assert devices(try_on(SLICES, claim(*requests, constraints=same), features=ON)) == ["a", "c"]


def test_an_expression_that_fails_on_a_device_is_an_error_of_the_claim() -> None:
    wanted = claim(derived("r", f"device.attributes['{DRIVER}'].missing"), constraints=[
        {"matchAttribute": "card.example.com/id"}])  # fmt: skip
    with pytest.raises(
        Refusal, match=r"derived attribute card.example.com/id on device .*: no such key"
    ) as caught:
        try_on(SLICES, wanted, features=ON)
    assert caught.value.kind == "claim"


def test_an_attribute_is_computed_only_if_the_device_satisfies_the_constraints_before() -> None:
    failing = derived("r", f"device.attributes['{DRIVER}'].missing")
    unmet, derives = {"matchAttribute": "rack.example.com/id"}, {"matchAttribute": "card.example.com/id"}
    with pytest.raises(Refusal) as caught:
        try_on(SLICES, claim(failing, constraints=[unmet, derives]), features=ON)
    assert caught.value.kind == "node"
    with pytest.raises(Refusal, match=r"derived attribute card\.example\.com/id") as caught:
        try_on(SLICES, claim(failing, constraints=[derives, unmet]), features=ON)
    assert caught.value.kind == "claim"


def test_of_two_attributes_that_fail_the_first_constraint_names_the_error() -> None:
    derivations = [
        {"name": f"{name}.example.com/id", "expression": f"device.attributes['{DRIVER}'].missing"}
        for name in ("rack", "card")
    ]
    constraints = [{"matchAttribute": f"{name}.example.com/id"} for name in ("card", "rack")]
    with pytest.raises(Refusal, match=r"derived attribute card\.example\.com/id"):
        try_on(SLICES, claim(request("r", derivedAttributes=derivations), constraints=constraints), features=ON)


def test_an_attribute_that_no_constraint_uses_is_not_computed() -> None:
    wanted = claim(derived("r", f"device.attributes['{DRIVER}'].missing"))
    assert devices(try_on(SLICES, wanted, features=ON)) == ["a"]


def test_the_gate_is_off_by_default() -> None:
    with pytest.raises(Refusal, match="DRADerivedAttributes feature is disabled") as caught:
        try_on(SLICES, claim(derived("r")))
    assert caught.value.kind == "claim"


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1 + 1", 2),
        ("'a' + 'b'", "ab"),
        ("device.driver == 'x'", False),
        ("semver('1.2.3-rc.1')", Version("1.2.3-rc.1")),
        ("[1, 2]", (1, 2)),
        ("[]", ()),
    ],
)
def test_an_expression_gives_any_value_of_an_attribute(expression: str, value: AttributeValue) -> None:
    found, _ = compile_derivation(expression).compute(SelectorDevice("d", {}))
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("expression", ["1.5", "{'a': 1}", "[[1]]", "quantity('1')", "1 +"])
def test_an_expression_of_another_type_does_not_compile(expression: str) -> None:
    with pytest.raises(CompileError):
        compile_derivation(expression)


@pytest.mark.parametrize("expression", ["dyn(1.5)", "[dyn(1), dyn('a')]", "dyn({'a': 1})", "1 / 0"])
def test_a_result_of_another_type_fails(expression: str) -> None:
    with pytest.raises(EvaluationError):
        compile_derivation(expression).compute(SelectorDevice("d", {}))
