"""The pure part of `dradriver.conditions.declared`."""

import pytest
from msgspec.structs import replace

from dradriver.conditions.attachment_diff import AttachmentDiff, attachment_diff, attachments_of
from dradriver.conditions.declared import DeclaredConditions, fill_on_node, find_decisions, mark_devices
from dradriver.model.core.meta import Condition
from dradriver.model.resource.attachments import ATTACHED_ON_ALLOCATION
from dradriver.model.resource.claim import AllocatedDeviceStatus, DeviceResult, ResourceClaim
from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool
from dradriver.testing import builders
from tests.unit.conditions.fabric import ATTACHED, DRIVER, FAILED, READY
from tests.unit.conditions.test_attachment_diff_follows_from_the_claim import with_record
from tests.unit.conditions.without_conditions import ALLOWED, REFUSED

DEVICE = Device("gpu-0", binding_conditions=[ATTACHED, READY], binding_failure_conditions=[FAILED])
DECLARED = DeclaredConditions(DRIVER, lambda _pool, name: DEVICE if name == DEVICE.name else None)


def allocated(device: str = "gpu-0", **settings: bool) -> ResourceClaim:
    result = DeviceResult(request="device", driver=DRIVER, pool="fabric", device=device, **settings)  # type: ignore[arg-type]
    return builders.allocated(builders.claim(), result)


def recorded(claim: ResourceClaim) -> ResourceClaim:
    """Return the claim, filled, with all its attachments in the record."""
    filled = DECLARED.fill(claim)
    return with_record(filled, *attachments_of(filled, DRIVER))


def with_conditions(claim: ResourceClaim, **statuses: str) -> ResourceClaim:
    kinds = {"attached": ATTACHED, "ready": READY, "failed": FAILED, "allowed": ALLOWED, "refused": REFUSED}
    conditions = [
        Condition(type=kinds[name], status=status, reason="Why", message="because")
        for name, status in statuses.items()
    ]
    entry = AllocatedDeviceStatus(driver=DRIVER, pool="fabric", device="gpu-0", conditions=conditions)
    return replace(claim, status=replace(claim.status, devices=[entry]))


def test_a_result_without_conditions_gets_those_of_its_device() -> None:
    (result,) = DECLARED.fill(allocated()).results
    assert result.binding_conditions == [ATTACHED, READY]
    assert result.binding_failure_conditions == [FAILED, REFUSED]


@pytest.mark.parametrize("claim", [allocated("gpu-9"), allocated(admin_access=True), builders.claim()])
def test_a_claim_without_such_a_result_is_unchanged(claim: ResourceClaim) -> None:
    assert DECLARED.fill(claim) is claim


def test_conditions_of_the_allocation_are_not_replaced() -> None:
    result = replace(
        allocated().results[0], binding_conditions=["other"], binding_failure_conditions=["other-failed"]
    )
    claim = builders.allocated(builders.claim(), result)
    assert DECLARED.fill(claim) is claim
    assert not find_decisions(recorded(claim), DRIVER)


def test_a_recorded_device_that_is_unknown_is_neither_attached_nor_detached() -> None:
    claim = recorded(allocated())
    unknown = replace(claim, status=allocated().status)
    assert attachment_diff(unknown, DRIVER) == AttachmentDiff()


@pytest.mark.parametrize(
    ("statuses", "written"),
    [
        ({}, [(ATTACHED, "False"), (READY, "False")]),
        ({"attached": "False"}, [(READY, "False")]),
        ({"attached": "True", "ready": "False"}, []),
        ({"attached": "True", "ready": "True"}, [(ALLOWED, "True")]),
        ({"attached": "True", "ready": "True", "allowed": "True"}, []),
        ({"attached": "False", "ready": "False", "failed": "True"}, [(REFUSED, "True")]),
        ({"attached": "True", "ready": "True", "failed": "True"}, [(REFUSED, "True")]),
        ({"failed": "True", "refused": "True"}, []),
    ],
)
def test_the_decision_follows_from_the_conditions(
    statuses: dict[str, str], written: list[tuple[str, str]]
) -> None:
    decisions = find_decisions(with_conditions(recorded(allocated()), **statuses), DRIVER)
    assert [(each.type, each.status) for _, conditions in decisions for each in conditions] == written


def test_a_refusal_has_the_reason_of_the_failure() -> None:
    ((_, (refusal,)),) = find_decisions(with_conditions(recorded(allocated()), failed="True"), DRIVER)
    assert (refusal.reason, refusal.message) == ("Why", "because")


def test_nothing_is_decided_before_the_attachment_is_recorded() -> None:
    assert not find_decisions(DECLARED.fill(allocated()), DRIVER)


def test_on_a_node_the_written_conditions_are_those_of_the_device() -> None:
    claim = with_conditions(allocated(), attached="True", ready="False")
    (result,) = fill_on_node(claim, DRIVER, {ATTACHED, READY}, lambda _: True).results
    assert (result.binding_conditions, result.binding_failure_conditions) == ([ATTACHED, READY], [REFUSED])
    assert fill_on_node(claim, DRIVER, {ATTACHED, READY}, lambda _: False) is claim, "a pool of the node"
    before = allocated()
    assert fill_on_node(before, DRIVER, {ATTACHED, READY}, lambda _: True) is before
    assert fill_on_node(claim, DRIVER, set(), lambda _: True) is claim


def test_devices_of_a_fallback_are_marked_if_discover_declares_their_conditions() -> None:
    bound = replace(DEVICE, name="bound", binds_to_node=True)
    ready = Device("ready")
    discovered = [Pool("fabric", devices=(DEVICE, bound, ready))]
    fallback = [Pool("fabric", devices=[Device("gpu-0"), Device("bound"), ready])]
    marked, omitted = mark_devices(fallback, discovered)
    assert [(d.name, d.attribute(ATTACHED_ON_ALLOCATION)) for d in marked[0].devices] == [
        ("gpu-0", True),
        ("ready", None),
    ]
    assert omitted == ["bound"]
