"""The table of `dradriver.conditions.attachment_diff`."""

from msgspec.structs import replace

from dradriver.conditions.attachment_diff import (
    AttachmentDiff,
    attachment_diff,
    attachments_of,
    encode_record,
    finalizer,
    find_node_attachments,
    node_failure_type,
    read_record,
    record_key,
)
from dradriver.driver import Attachment
from dradriver.model.core.meta import Condition
from dradriver.model.resource.claim import CLAIM_FINALIZER, AllocatedDeviceStatus, DeviceResult, ResourceClaim
from dradriver.testing import builders
from tests.unit.control.world import NOW

DRIVER = builders.DRIVER


def claim(*, conditions: tuple[str, ...] = ("attached",), driver: str = DRIVER) -> ResourceClaim:
    result = DeviceResult(
        request="device",
        driver=driver,
        pool="fabric",
        device="gpu-0",
        binding_conditions=list(conditions),
        binding_failure_conditions=["failed"] if conditions else [],
    )
    return builders.allocated(builders.claim(), result)


def with_record(each: ResourceClaim, *attachments: Attachment) -> ResourceClaim:
    metadata = replace(
        each.metadata,
        annotations={record_key(DRIVER): encode_record(attachments)},
        finalizers=[finalizer(DRIVER)],
    )
    return replace(each, metadata=metadata)


def with_condition(each: ResourceClaim, *kinds: str) -> ResourceClaim:
    entry = AllocatedDeviceStatus(
        driver=DRIVER,
        pool="fabric",
        device="gpu-0",
        conditions=[Condition(type=kind, status="True") for kind in kinds],
    )
    return replace(each, status=replace(each.status, devices=[entry]))


def test_a_record_is_read_as_it_was_written() -> None:
    each = claim()
    (wanted,) = attachments_of(each, DRIVER)
    assert read_record(with_record(each, wanted), DRIVER) == (wanted,)
    assert wanted.node == builders.NODE


def test_an_allocated_device_is_recorded_then_attached() -> None:
    each = claim()
    (wanted,) = attachments_of(each, DRIVER)
    assert attachment_diff(each, DRIVER) == AttachmentDiff(record=(wanted,))
    each = with_record(each, wanted)
    assert attachment_diff(each, DRIVER) == AttachmentDiff(attach=(wanted,))
    assert attachment_diff(with_condition(each, "attached"), DRIVER) == AttachmentDiff()
    assert attachment_diff(with_condition(each, "failed"), DRIVER) == AttachmentDiff()


def test_a_deallocated_device_is_detached_before_the_finalizer_is_removed() -> None:
    each = claim()
    (wanted,) = attachments_of(each, DRIVER)
    stale = replace(with_record(each, wanted), status=builders.claim().status)
    assert attachment_diff(stale, DRIVER) == AttachmentDiff(detach=(wanted,))
    assert attachment_diff(with_record(builders.claim()), DRIVER) == AttachmentDiff(remove_finalizer=True)
    assert attachment_diff(builders.claim(), DRIVER) == AttachmentDiff()


def test_another_allocation_of_a_device_is_another_attachment() -> None:
    each = claim()
    (before,) = attachments_of(each, DRIVER)
    assert each.allocation is not None
    again = replace(
        each, status=replace(each.status, allocation=replace(each.allocation, allocation_timestamp=NOW))
    )
    assert attachment_diff(with_record(again, before), DRIVER) == AttachmentDiff(detach=(before,))


def test_a_claim_that_is_being_deleted_begins_no_attachment() -> None:
    each = claim()
    deleted = replace(each, metadata=replace(each.metadata, deletion_timestamp=NOW))
    assert attachment_diff(deleted, DRIVER) == AttachmentDiff()


def test_devices_of_other_drivers_or_without_conditions_are_ignored() -> None:
    assert attachment_diff(claim(driver="other.example.com"), DRIVER) == AttachmentDiff()
    assert attachment_diff(claim(conditions=()), DRIVER) == AttachmentDiff()


def test_conditions_outside_own_conditions_are_not_required() -> None:
    each = claim(conditions=("attached", "ready"))
    (wanted,) = attachments_of(each, DRIVER)
    each = with_condition(with_record(each, wanted), "attached")
    assert attachment_diff(each, DRIVER, ("attached",)) == AttachmentDiff()
    assert attachment_diff(each, DRIVER) == AttachmentDiff(attach=(wanted,))


def test_a_failure_on_the_node_is_taken_over_until_a_failure_condition_is_set() -> None:
    each = claim(conditions=("attached", "ready"))
    (wanted,) = attachments_of(each, DRIVER)
    report = node_failure_type(DRIVER)
    recorded = with_record(each, wanted)
    for kinds in ((report,), ("attached", report)):
        assert attachment_diff(with_condition(recorded, *kinds), DRIVER, ("attached",)) == AttachmentDiff(
            fail=(wanted,)
        )
    failed = with_condition(recorded, "attached", report, "failed")
    assert attachment_diff(failed, DRIVER, ("attached",)) == AttachmentDiff()


def test_a_failure_on_the_node_is_not_taken_over_without_a_record() -> None:
    each = with_condition(claim(), node_failure_type(DRIVER))
    (wanted,) = attachments_of(each, DRIVER)
    assert attachment_diff(each, DRIVER) == AttachmentDiff(record=(wanted,))


def test_on_a_node_a_reported_failure_ends_the_allocation() -> None:
    each = with_condition(claim(), node_failure_type(DRIVER))
    assert find_node_attachments(each, DRIVER, builders.NODE) == ()


def test_on_a_node_a_device_is_attached_after_the_conditions_of_the_pool_driver() -> None:
    each = claim(conditions=("attached", "ready"))
    (wanted,) = attachments_of(each, DRIVER)
    after = ("attached", "a condition that the device does not have")
    assert find_node_attachments(each, DRIVER, builders.NODE, ("ready",), after) == ()
    each = with_condition(each, "attached")
    assert find_node_attachments(each, DRIVER, builders.NODE, ("ready",), after) == (wanted,)


def test_an_invalid_record_is_empty() -> None:
    broken = replace(claim(), metadata=replace(claim().metadata, annotations={record_key(DRIVER): "{"}))
    assert read_record(broken, DRIVER) == ()


def test_on_a_node_a_device_is_attached_without_a_record() -> None:
    each = claim()
    (wanted,) = attachments_of(each, DRIVER)
    assert find_node_attachments(each, DRIVER, builders.NODE) == (wanted,)
    assert find_node_attachments(with_condition(each, "attached"), DRIVER, builders.NODE) == ()
    assert find_node_attachments(with_condition(each, "failed"), DRIVER, builders.NODE) == ()


def test_on_a_node_claims_of_other_nodes_and_deleted_claims_are_ignored() -> None:
    each = claim()
    deleted = replace(each, metadata=replace(each.metadata, deletion_timestamp=NOW))
    assert find_node_attachments(each, DRIVER, "another-node") == ()
    assert find_node_attachments(deleted, DRIVER, builders.NODE) == ()


def terminating(each: ResourceClaim, *finalizers: str) -> ResourceClaim:
    """Return the claim with a deletion timestamp and additional finalizers."""
    listed = [*each.metadata.finalizers, *finalizers]
    return replace(each, metadata=replace(each.metadata, deletion_timestamp=NOW, finalizers=listed))


def test_a_terminating_claim_without_protection_is_detached_if_no_pod_runs_with_it() -> None:
    each = claim()
    (wanted,) = attachments_of(each, DRIVER)
    abandoned = terminating(with_record(each, wanted))
    assert attachment_diff(abandoned, DRIVER) == AttachmentDiff(check_pods=True)
    assert attachment_diff(abandoned, DRIVER, unused=True) == AttachmentDiff(detach=(wanted,))
    detached = replace(abandoned, metadata=replace(abandoned.metadata, annotations={}))
    assert attachment_diff(detached, DRIVER, unused=True) == AttachmentDiff(remove_finalizer=True)
    assert attachment_diff(terminating(each), DRIVER) == AttachmentDiff(), (
        "it has no record and no finalizer of the driver"
    )


def test_a_terminating_claim_that_will_be_deallocated_is_not_detached() -> None:
    """The claim controller removes its finalizer last; a KEP-3063 controller has a finalizer with its name."""
    each = claim()
    (wanted,) = attachments_of(each, DRIVER)
    for finalizers in ([CLAIM_FINALIZER], ["fabric.example.com/deletion-protection"]):
        protected = with_condition(terminating(with_record(each, wanted), *finalizers), "attached")
        assert (
            attachment_diff(protected, DRIVER)
            == attachment_diff(protected, DRIVER, unused=True)
            == AttachmentDiff()
        )


def test_a_pending_detach_does_not_delay_another_device_of_the_claim() -> None:
    each = claim()
    (wanted,) = attachments_of(each, DRIVER)
    other = Attachment(each.metadata.uid, "fabric", "gpu-9")
    assert attachment_diff(with_record(each, other), DRIVER) == AttachmentDiff(
        detach=(other,), record=(wanted,)
    )
    assert attachment_diff(with_record(each, other, wanted), DRIVER) == AttachmentDiff(
        detach=(other,), attach=(wanted,)
    )
