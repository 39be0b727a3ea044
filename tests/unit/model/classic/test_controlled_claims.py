"""Which controller allocates a claim, and when (KEP-3063)."""

from typing import Any

import pytest
from msgspec.structs import replace

from dradriver.errors import InvalidObjectError
from dradriver.model.classic.controlled_claims import (
    find_allocating_controller,
    is_deallocation_requested,
    resolve,
)
from dradriver.model.classic.names import DEALLOCATION_REQUESTED, finalizer
from dradriver.model.core.meta import Condition
from dradriver.model.core.node_selector import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from dradriver.model.resource.claim import (
    AllocatedDeviceStatus,
    DeviceConstraint,
    DeviceRequest,
    DeviceSubRequest,
    DeviceToleration,
    ResourceClaim,
)
from dradriver.testing import builders

CLASSES = {
    each.metadata.name: each
    for each in (
        builders.device_class(),
        builders.controller_class(),
        builders.controller_class("other", controller="other.example.com"),
        builders.controller_class("second"),
    )
}


def request(class_name: str = builders.CONTROLLED_CLASS, name: str = "device", **changes: Any) -> DeviceRequest:
    made = builders.device_request(class_name, name=name)
    assert made.exactly is not None
    return replace(made, exactly=replace(made.exactly, **changes))


def test_a_claim_of_a_structured_class_has_no_controller() -> None:
    assert resolve(builders.claim(), CLASSES) is None


def test_a_class_that_does_not_exist_is_not_a_class_of_a_controller() -> None:
    assert resolve(builders.claim(request("missing")), CLASSES) is None


def test_requests_of_one_controller_may_have_different_classes() -> None:
    found = resolve(builders.claim(request(name="one"), request("second", name="two")), CLASSES)

    assert found is not None
    assert (found.controller, found.mode, found.is_delayed) == (
        builders.CONTROLLER,
        "WaitForFirstConsumer",
        True,
    )
    assert [(each.name, each.device_class) for each in found.requests] == [
        ("one", builders.CONTROLLED_CLASS),
        ("two", "second"),
    ]


def test_an_entry_for_a_request_wins_over_the_entry_for_all_requests() -> None:
    claim = builders.claim(
        request(name="one"),
        request(name="two"),
        configs=[builders.controller_claim(parameters={"of": what}) for what in ("all", "one")],
    )
    config = claim.spec.devices.config
    config[1] = replace(config[1], requests=["one"])

    found = resolve(claim, CLASSES)

    assert found is not None
    given = [each.claim_parameters for each in found.requests]
    assert [bytes(each.parameters) for each in given if each is not None] == [b'{"of":"one"}', b'{"of":"all"}']


@pytest.mark.parametrize(
    ("claim", "problem"),
    [
        (
            builders.claim(request(name="one"), request("other", name="two")),
            "spec.devices.requests: classes of one claim must have one controller, "
            "not controller.example.com and other.example.com",
        ),
        (
            builders.claim(request(name="one"), request(builders.CLASS, name="two")),
            "spec.devices.requests[1].exactly.deviceClassName: must be a class of the controller, "
            "because another request of the claim has one",
        ),
        (
            builders.claim(request(allocation_mode="All")),
            "spec.devices.requests[0].exactly.allocationMode: must be ExactCount for a class of a controller",
        ),
        (
            builders.claim(request(tolerations=[DeviceToleration(operator="Exists")])),
            "spec.devices.requests[0].exactly.tolerations: must not be set: a controller does not evaluate it",
        ),
        (
            builders.claim(request(admin_access=True)),
            "spec.devices.requests[0].exactly.adminAccess: must not be set: a controller does not evaluate it",
        ),
        (
            builders.claim(
                DeviceRequest(
                    "device",
                    first_available=[
                        DeviceSubRequest(name="a", device_class_name=builders.CONTROLLED_CLASS),
                        DeviceSubRequest(name="b", device_class_name=builders.CLASS),
                    ],
                )
            ),
            "spec.devices.requests[0].firstAvailable: must not be set for a class of a controller",
        ),
        (
            builders.claim(request(), constraints=[DeviceConstraint(match_attribute="example.com/numa")]),
            "spec.devices.constraints: must be empty: a controller does not evaluate them",
        ),
    ],
)
def test_what_a_controller_does_not_evaluate_is_an_error(claim: ResourceClaim, problem: str) -> None:
    with pytest.raises(InvalidObjectError) as raised:
        resolve(claim, CLASSES)

    assert str(raised.value) == f"ResourceClaim default/claim-1: {problem}"


def test_suitable_nodes_of_all_classes_restrict_the_claim() -> None:
    term = NodeSelectorTerm(match_expressions=[NodeSelectorRequirement("rack", "In", ["r1"])])
    limited = builders.controller_class("limited", suitable_nodes=NodeSelector([term]))

    found = resolve(
        builders.claim(request(name="one"), request("limited", name="two")), {**CLASSES, "limited": limited}
    )

    assert found is not None
    assert found.suits("node-1", {"rack": "r1"})
    assert not found.suits("node-2", {"rack": "r2"})


def test_the_finalizer_names_the_controller_that_has_begun_to_allocate() -> None:
    claim = builders.claim()
    assert find_allocating_controller(claim) == ""

    meta = replace(claim.metadata, finalizers=["example.com/other", finalizer(builders.CONTROLLER)])

    assert find_allocating_controller(replace(claim, metadata=meta)) == builders.CONTROLLER


@pytest.mark.parametrize(("status", "is_requested"), [("True", True), ("False", False)])
def test_a_condition_of_a_device_requests_the_deallocation(status: str, *, is_requested: bool) -> None:
    claim = builders.allocated(builders.claim(), "device-0")
    result = claim.results[0]
    entry = AllocatedDeviceStatus(
        driver=result.driver,
        pool=result.pool,
        device=result.device,
        conditions=[Condition(type=DEALLOCATION_REQUESTED, status=status)],
    )

    assert (
        is_deallocation_requested(replace(claim, status=replace(claim.status, devices=[entry]))) is is_requested
    )
