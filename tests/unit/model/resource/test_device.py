"""Devices accept plain values and keep them in the API's shape."""

from collections.abc import Callable

import pytest

from dradriver.model.encoding.codec import canonical, decode
from dradriver.model.quantity import InvalidQuantityError, Quantity
from dradriver.model.resource.counters import Counter, CounterConsumption, CounterSet
from dradriver.model.resource.device import (
    Attribute,
    Capacity,
    CapacityRequestPolicy,
    CapacityRequestPolicyRange,
    Device,
    Version,
)


def test_plain_attributes_get_the_type_of_their_value() -> None:
    device = Device("d", attributes={"b": True, "i": 3, "s": "x", "v": Version("1.2.3"), "l": ["x", "y"]})
    assert device.attributes == {
        "b": Attribute(bool_value=True),
        "i": Attribute(int_value=3),
        "s": Attribute(string="x"),
        "v": Attribute(version="1.2.3"),
        "l": Attribute(strings=["x", "y"]),
    }


def test_plain_amounts_become_quantities() -> None:
    assert Device("d", capacity={"memory": "1Gi"}).capacity == {"memory": Capacity(Quantity("1Gi"))}
    assert CounterSet("c", {"memory": 5}).counters == {"memory": Counter(Quantity(5))}


def test_an_attribute_of_an_unsupported_type_is_rejected() -> None:
    with pytest.raises(TypeError, match="is not an attribute"):
        Device("d", attributes={"x": [1.5]})  # type: ignore[dict-item]


def test_an_invalid_amount_is_rejected() -> None:
    with pytest.raises(InvalidQuantityError):
        Device("d", capacity={"memory": "lots"})


def test_plain_amounts_are_accepted_in_every_field() -> None:
    tens = CapacityRequestPolicy(default=10, valid_values=[10, "20"])
    range_ = CapacityRequestPolicyRange(min=1, max="1Ki", step=Quantity(1))
    device = Device("d", capacity={"cores": Capacity(100, tens)})
    assert device.capacity["cores"].value == Quantity(100)
    assert tens.default == Quantity(10)
    assert tens.valid_values == (Quantity(10), Quantity(20))
    assert (range_.min, range_.max, range_.step) == (Quantity(1), Quantity(1024), Quantity(1))
    assert Counter(4) == Counter(Quantity(4))
    assert decode(Device, canonical(device)) == device


@pytest.mark.parametrize("make", [Capacity, Counter, lambda amount: CapacityRequestPolicy(default=amount)])
def test_an_invalid_amount_raises_in_the_constructor(make: Callable[[object], object]) -> None:
    with pytest.raises(InvalidQuantityError, match=r"1\.5 is not a quantity"):
        make(1.5)


def test_writing_and_reading_gives_the_same_device() -> None:
    device = Device(
        "gpu-0",
        attributes={"uuid": "x", "cores": 4},
        capacity={"memory": "40Gi"},
        consumes_counters=[CounterConsumption("gpu-0", {"memory": "40Gi"}, ["mig"])],
    )
    assert decode(Device, canonical(device)) == device


@pytest.mark.parametrize("name", ["uuid", "gpu.example.com/uuid"])
def test_an_unqualified_attribute_belongs_to_the_drivers_domain(name: str) -> None:
    assert Device("d", attributes={"uuid": "x"}).attribute(name, "gpu.example.com") == "x"
    assert Device("d", attributes={"gpu.example.com/uuid": "x"}).attribute(name, "gpu.example.com") == "x"


def test_a_missing_attribute_is_none() -> None:
    assert Device("d").attribute("uuid", "gpu.example.com") is None
