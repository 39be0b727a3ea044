"""The parts of a device on which a result depends, known without a device."""

import pytest

from dradriver.cel import compile_derivation, compile_selector


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("true", set()),
        ("device.driver == 'a'", set()),
        ("device.capacity['a'].memory.compareTo(quantity('1Gi')) > 0", set()),
        ("device.attributes['a'].model == 'x'", {"model"}),
        ("device.attributes.a.model == 'x'", {"model"}),
        ("device.attributes['a']['model'] == 'x' && device.attributes['b'].size > 1", {"model", "size"}),
        ("device.attributes['a'][string('model')] == 'x'", {"model"}),
        ("device.attributes[device.driver].?model.orValue('z') in ['b']", {"model"}),
        ("device.attributes[?'a'].?model.orValue('z') == 'b'", {"model"}),
        ("device.attributes['a'][?'model'].orValue('z') == 'b'", {"model"}),
        ("device.?attributes.value()['a'].model == 'b'", {"model"}),
        ("device.attributes[?'a'].orValue({}).model == 'b'", {"model"}),
        ("device.attributes['a'].?model.optMap(m, m == 'b').orValue(false)", {"model"}),
        ("device.attributes[device.attributes['a'].home].model == 'x'", {"home", "model"}),
        ("has(device.attributes['a'].model.part)", {"model"}),
        ("device.attributes['a'].model.hasValue()", {"model"}),
        ("size(device.attributes['a'].model) > 1", {"model"}),
        ("'x' in device.attributes['a'].modes", {"modes"}),
        ("['x', 'y'].exists(v, device.attributes['a'].model == v)", {"model"}),
        ("device.attributes['a'].modes.exists(m, m == 'x')", {"modes"}),
        ("device.attributes.exists(d, device.attributes[d].?model.orValue('') == 'x')", {"model"}),
        ("device.attributes.exists(d, names, has(names.size) && names.model == 'x')", {"model"}),
    ],
)
def test_the_values_read_are_found(expression: str, names: set[str]) -> None:
    assert compile_selector(expression).reads == frozenset(names)


@pytest.mark.parametrize(
    "expression",
    [
        "has(device.attributes)",
        "has(device.attributes['a'].model)",
        "'model' in device.attributes['a']",
        "'a' in device.attributes",
        "device.attributes['a'].?model.hasValue()",
        "device.attributes['a'][?device.driver].hasValue()",
        "size(device.attributes['a']) > 1 && device.attributes.size() == 1",
        "device.attributes['a'].exists(name, name == 'model')",
        "device.attributes['a'].all(name, value, name.startsWith('m'))",
        "device.attributes.all(domain, domain == 'a')",
        "device.attributes.exists(d, names, 'model' in names)",
        "cel.bind(d, device, has(d.attributes['a'].model))",
    ],
)
def test_a_name_is_no_value(expression: str) -> None:
    assert compile_selector(expression).reads == frozenset()


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("cel.bind(a, device.attributes['a'], a.model == 'x' || has(a.size))", {"model"}),
        ("cel.bind(d, device, cel.bind(a, d.attributes['a'], a.model == 'x'))", {"model"}),
        ("cel.bind(v, device.attributes['a'].model, v == 'x')", {"model"}),
        ("cel.bind(device, device.attributes['a'], device.model == 'x')", {"model"}),
        ("cel.bind(device, 'x', .device.attributes['a'].model == device)", {"model"}),
        ("cel.bind(a, device.attributes['a'], cel.bind(a, a.model, a == 'x'))", {"model"}),
        ("cel.bind(a, device.attributes['a'], ['x'].exists(a, a == 'x') && a.model == 'x')", {"model"}),
        (
            "cel.bind(a, device.attributes['a'], cel.bind(b, a, b.model == 'x') && a.size == 1)",
            {"model", "size"},
        ),
    ],
)
def test_a_binding_is_followed(expression: str, names: set[str]) -> None:
    assert compile_selector(expression).reads == frozenset(names)


@pytest.mark.parametrize(
    "expression",
    [
        "device.attributes['a']['mo' + device.driver] == 'x'",
        "device.attributes['a'].exists(name, device.attributes['a'][name] == 'x')",
        "device.attributes['a'].exists(name, value, value == 'x')",
        "device.attributes.exists(d, names, names == {'model': 'x'})",
        "device.attributes['a'] == {}",
        "cel.bind(a, device.attributes, a == {})",
        "cel.bind(d, [device], d[0].attributes['a'].model == 'x')",
        "dyn(device).attributes['a'].model == 'x'",
        "(device.driver == 'x' ? device.attributes['a'] : device.attributes['b']).model == 'x'",
    ],
)
def test_other_uses_may_read_all(expression: str) -> None:
    selector = compile_selector(expression)
    assert selector.reads is None


def test_reads_of_capacity_and_of_sharing_are_found() -> None:
    neither = compile_selector("device.attributes['a'].capacity == 'x'")
    assert not neither.reads_capacity
    assert not neither.reads_allow_multiple_allocations
    assert compile_selector("cel.bind(d, device, has(d.capacity['a'].memory))").reads_capacity
    assert compile_selector("device.allowMultipleAllocations").reads_allow_multiple_allocations
    whole = compile_selector("dyn(device) == 'x'")
    assert whole.reads_capacity
    assert whole.reads_allow_multiple_allocations


def test_reads_of_a_derived_attribute_are_found() -> None:
    derivation = compile_derivation("has(device.capacity['a'].m) ? device.attributes['a'].x : 1")
    assert derivation.reads == frozenset({"x"})
    assert derivation.reads_capacity
