"""Rules of slices that the conformance suite does not test one by one."""

from typing import Any

import pytest

from dradriver.cluster.apiserver.validation.slices import check_slice as check
from tests.conformance.apiserver.suite import resource_slice

Json = dict[str, Any]


def problems(**spec: Any) -> set[tuple[str, str]]:
    return {
        (cause.field.removeprefix("spec."), cause.message) for cause in check(resource_slice("s", **spec), None)
    }


def of_device(**fields: Any) -> set[tuple[str, str]]:
    found = problems(devices=[{"name": "d", **fields}])
    return {(field.removeprefix("devices[0]").removeprefix("."), message) for field, message in found}


def test_a_plain_slice_is_valid() -> None:
    assert problems() == set()


TYPES = "`int`, `bool`, `string`, `version`, `ints`, `bools`, `strings`, `versions`"


@pytest.mark.parametrize(
    ("attribute", "path", "message"),
    [
        ({"string": "x" * 65}, "attributes[a].string", "Too long: may not be more than 64 bytes"),
        (
            {"version": "1.2"},
            "attributes[a].version",
            'Invalid value: "1.2": must be a string compatible with semver.org spec 2.0.0',
        ),
        ({}, "attributes[a]", f'Invalid value: "": must specify one of: {TYPES}'),
        (
            {"int": 1, "bool": True},
            "attributes[a]",
            f'Invalid value: "{{int, bool}}": must specify exactly one of: {TYPES}',
        ),
    ],
)
def test_attributes(attribute: Json, path: str, message: str) -> None:
    assert of_device(attributes={"a": attribute}) == {(path, message)}


def test_attributes_and_capacities_are_at_most_32_together() -> None:
    attributes = {f"a{index}": {"int": index} for index in range(20)}
    capacity = {f"c{index}": {"value": "1"} for index in range(13)}
    assert of_device(attributes=attributes, capacity=capacity) == {
        ("", "Invalid value: 33: the total number of attributes and capacities must not exceed 32")
    }


@pytest.mark.parametrize("name", ["1a", "a-b", "x" * 33, "/a", "example.com/"])
def test_names_of_attributes_are_c_identifiers(name: str) -> None:
    assert {field for field, _ in of_device(attributes={name: {"int": 1}})} == {"attributes"}


def test_taints_are_at_most_16() -> None:
    taints = [{"key": f"k{index}", "effect": "NoSchedule"} for index in range(17)]
    assert of_device(taints=taints) == {("taints", "Too many: 17: must have at most 16 items")}


def test_taints_have_a_key_and_an_effect() -> None:
    found = dict(of_device(taints=[{"key": "", "effect": "Sometimes"}]))
    assert set(found) == {"taints[0].key", "taints[0].effect"}
    assert found["taints[0].effect"].startswith('Unsupported value: "Sometimes"')


def test_counters_are_bounded() -> None:
    use: Json = {"counterSet": "s", "counters": {"m": {"value": "1"}}}
    assert ("consumesCounters", "Too many: 3: must have at most 2 items") in of_device(
        consumesCounters=[{**use, "counterSet": name} for name in "abc"]
    )
    many = {f"c{index}": {"value": "1"} for index in range(33)}
    assert of_device(consumesCounters=[{**use, "counters": many}]) == {
        ("consumesCounters[0].counters", "Too many: 33: must have at most 32 items")
    }
    repeated = 'Duplicate value: {"counterSet":"s","counters":{"m":{"value":"1"}}}'
    assert of_device(consumesCounters=[use, use]) == {("consumesCounters[1]", repeated)}
    assert of_device(consumesCounters=[{"counterSet": "s"}]) == {
        ("consumesCounters[0].counters", "Required value")
    }


def test_counter_sets_are_at_most_8() -> None:
    sets = [{"name": f"s{index}", "counters": {"m": {"value": "1"}}} for index in range(9)]
    assert problems(devices=None, sharedCounters=sets) == {
        ("sharedCounters", "Too many: 9: must have at most 8 items")
    }


def test_counter_names_are_dns_labels() -> None:
    found = problems(
        devices=None, sharedCounters=[{"name": "memorySlices", "counters": {"memorySlice0": {"value": "1"}}}]
    )
    assert {field for field, _ in found} == {"sharedCounters[0].name", "sharedCounters[0].counters"}


@pytest.mark.parametrize(
    ("conditions", "failures", "field"),
    [
        (["a"] * 2, ["b"], "bindingConditions[1]"),
        (["a"], ["a"], "bindingFailureConditions[0]"),
        ([], ["a"], "bindingConditions"),
        (list("abcde"), ["f"], "bindingConditions"),
    ],
)
def test_binding_conditions(conditions: list[str], failures: list[str], field: str) -> None:
    found = of_device(bindingConditions=conditions, bindingFailureConditions=failures)
    assert {path for path, _ in found} == {field}


def test_a_node_selector_has_one_term() -> None:
    term = {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
    assert problems(nodeName=None) == problems(nodeName=None)
    slice_ = resource_slice("s")
    del slice_["spec"]["nodeName"]
    slice_["spec"]["nodeSelector"] = {"nodeSelectorTerms": [term, term]}
    (cause,) = check(slice_, None)
    assert (cause.field, "must have exactly one node selector term" in cause.message) == (
        "spec.nodeSelector.nodeSelectorTerms",
        True,
    )


LABEL_VALUE = (
    'Invalid value: "no spaces": a valid label must be an empty string or consist of alphanumeric characters, '
    "'-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  "
    "or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


@pytest.mark.parametrize("operator", ["In", "NotIn"])
def test_each_value_of_a_node_selector_is_a_label_value(operator: str) -> None:
    expression = {"key": "zone", "operator": operator, "values": ["", "a", "no spaces", "x" * 64]}
    selector = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    at = "nodeSelector.nodeSelectorTerms[0].matchExpressions[0].values"
    long = f'Invalid value: "{"x" * 64}": must be no more than 63 bytes'
    body = resource_slice("s", nodeSelector=selector)
    del body["spec"]["nodeName"]
    assert [(cause.field, cause.message) for cause in check(body, None)] == [
        (f"spec.{at}[2]", LABEL_VALUE),
        (f"spec.{at}[3]", long),
    ]
    assert per_device({"name": "a", "nodeSelector": selector}) == [
        f"spec.devices[0].{at}[2]",
        f"spec.devices[0].{at}[3]",
    ]


def per_device(*devices: Json) -> list[str]:
    body = resource_slice("s", perDeviceNodeSelection=True, devices=list(devices))
    del body["spec"]["nodeName"]
    return [cause.field for cause in check(body, None)]


def test_each_device_names_its_nodes_with_per_device_node_selection() -> None:
    assert per_device({"name": "a", "nodeName": "n"}, {"name": "b", "allNodes": True}) == []
    assert per_device({"name": "a"}) == ["spec.devices[0]"]
    assert per_device({"name": "a", "nodeName": "n", "allNodes": True}) == ["spec.devices[0]"]
    assert of_device(nodeName="n")


@pytest.mark.parametrize("field", ["driver", "nodeName"])
def test_driver_and_node_are_immutable(field: str) -> None:
    new = resource_slice("s", **{field: "other"})
    assert [(cause.field, cause.message) for cause in check(new, resource_slice("s"))] == [
        (f"spec.{field}", 'Invalid value: "other": field is immutable')
    ]


@pytest.mark.parametrize(
    ("policy", "field"),
    [
        ({"default": "1", "validRange": {"min": "1", "max": "10", "step": "1"}}, None),
        ({"validRange": {"min": "1"}}, "default"),
        ({"default": "1", "validRange": {"min": "2"}}, "validRange.default"),
        ({"default": "1", "validRange": {"min": "1", "max": "11"}}, "validRange.max"),
        ({"default": "2", "validRange": {"min": "1", "step": "2"}}, "validRange.step"),
        ({"default": "1", "validRange": {"min": "1", "step": "0"}}, "validRange.step"),
        ({"default": "1", "validValues": ["1", "2"]}, None),
        ({"default": "3", "validValues": ["1", "2"]}, "validValues"),
        ({"default": "1", "validValues": ["2", "1"]}, "validValues[1]"),
        ({"default": "1", "validValues": ["1", "1"]}, "validValues[1]"),
        ({"default": "1", "validValues": ["1"], "validRange": {"min": "1"}}, ""),
    ],
)
def test_request_policies_of_shared_capacity(policy: Json, field: str | None) -> None:
    found = of_device(allowMultipleAllocations=True, capacity={"m": {"value": "10", "requestPolicy": policy}})
    path = f"capacity[m].requestPolicy.{field}".rstrip(".")
    assert {each for each, _ in found} == (set() if field is None else {path})


def test_a_request_policy_needs_multiple_allocations() -> None:
    capacity = {"m": {"value": "10", "requestPolicy": {"default": "1"}}}
    assert of_device(capacity=capacity) == {
        ("capacity[m].requestPolicy", "Forbidden: allowMultipleAllocations must be true")
    }
