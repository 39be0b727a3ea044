"""The class attributes of binding drivers have the right types before anything runs."""

import pytest

from dradriver.driver import BindingDriver, ControllerDriver, DriverBase, NodeBindingDriver, PoolDriver
from dradriver.driver.driver_class import check_class
from dradriver.errors import DriverError


def with_attribute(base: type[BindingDriver] | type[NodeBindingDriver], name: str, value: object) -> type:
    def method(*_: object) -> None:
        return None

    methods = dict.fromkeys(("discover", "attach", "detach", "prepare"), method)
    return type("Memory", (base,), {"name": "memory.example.com", name: value, **methods})


@pytest.mark.parametrize(
    ("base", "name", "value", "rule"),
    [
        (NodeBindingDriver, "own_conditions", "ready", "must be a tuple of texts"),
        (NodeBindingDriver, "attach_after", "attached", "must be a tuple of texts"),
        (NodeBindingDriver, "quarantine_seconds", -1, "must be a number of seconds"),
        (BindingDriver, "node_failure_condition", ("failed",), "must be a text"),
        (BindingDriver, "node_releases", "yes", "must be True or False"),
        (BindingDriver, "check_attachments_seconds", 0, "must be a number of seconds above 0"),
        (BindingDriver, "check_attachments_seconds", "600", "must be a number of seconds above 0"),
    ],
)
def test_an_attribute_of_a_wrong_type_is_an_error_that_names_it(
    base: type[BindingDriver] | type[NodeBindingDriver], name: str, value: object, rule: str
) -> None:
    with pytest.raises(DriverError, match=rf"Memory\.{name}: .*{rule}"):
        check_class(with_attribute(base, name, value))


@pytest.mark.parametrize(
    ("base", "name", "value"),
    [
        (NodeBindingDriver, "attach_after", ("attached",)),
        (BindingDriver, "node_failure_condition", "failed"),
        (BindingDriver, "check_attachments_seconds", 60),
    ],
)
def test_a_right_attribute_is_accepted(
    base: type[BindingDriver] | type[NodeBindingDriver], name: str, value: object
) -> None:
    check_class(with_attribute(base, name, value))


def of_bases(*bases: type[DriverBase], **attributes: object) -> type:
    def method(*_: object) -> None:
        return None

    names = ("discover", "attach", "detach", "allocate", "deallocate", "unsuitable_nodes")
    return type("Fabric", bases, {"name": "fabric.example.com", **dict.fromkeys(names, method), **attributes})


def test_a_driver_can_be_a_binding_driver_and_a_controller() -> None:
    check_class(of_bases(BindingDriver, ControllerDriver, node_releases=True))


def test_a_pool_driver_that_is_a_controller_must_be_a_binding_driver() -> None:
    with pytest.raises(DriverError, match=r"Fabric\.__bases__: .* must be a BindingDriver"):
        check_class(of_bases(PoolDriver, ControllerDriver))


def test_only_a_controller_that_is_a_binding_driver_can_wait_for_nodes() -> None:
    with pytest.raises(DriverError, match=r"Fabric\.node_releases: only a ControllerDriver"):
        check_class(of_bases(ControllerDriver, node_releases=True))
