"""The table of `dradriver.conditions.attachment_diff`."""

from msgspec.structs import replace

from dradriver.conditions.attachment_diff import (
    AttachmentDiff,
    attachment_diff,
    attachments_of,
    finalizer,
    on_node,
    record_key,
    recorded,
    written,
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


def recording(each: ResourceClaim, *attachments: Attachment) -> ResourceClaim:
    metadata = replace(
        each.metadata,
        annotations={record_key(DRIVER): written(attachments)},
        finalizers=[finalizer(DRIVER)],
    )
    return replace(each, metadata=metadata)


def told(each: ResourceClaim, kind: str) -> ResourceClaim:
    entry = AllocatedDeviceStatus(
        driver=DRIVER, pool="fabric", device="gpu-0", conditions=[Condition(type=kind, status="True")]
    )
    return replace(each, status=replace(each.status, devices=[entry]))


def test_a_record_reads_as_it_was_written() -> None:
    each = claim()
    (wanted,) = attachments_of(each, DRIVER)
    assert recorded(recording(each, wanted), DRIVER) == (wanted,)
    assert wanted.node == builders.NODE


def test_what_is_allocated_is_recorded_then_attached_then_left_alone() -> None:
    each = claim()
    (wanted,) = attachments_of(each, DRIVER)
    assert attachment_diff(each, DRIVER) == AttachmentDiff(record=(wanted,))
    each = recording(each, wanted)
    assert attachment_diff(each, DRIVER) == AttachmentDiff(attach=(wanted,))
    assert attachment_diff(told(each, "attached"), DRIVER) == AttachmentDiff()
    assert attachment_diff(told(each, "failed"), DRIVER) == AttachmentDiff()


def test_what_is_gone_is_detached_first_and_the_claim_let_go_last() -> None:
    each = claim()
    (wanted,) = attachments_of(each, DRIVER)
    stale = replace(recording(each, wanted), status=builders.claim().status)
    assert attachment_diff(stale, DRIVER) == AttachmentDiff(detach=(wanted,))
    assert attachment_diff(recording(builders.claim()), DRIVER) == AttachmentDiff(let_go=True)
    assert attachment_diff(builders.claim(), DRIVER) == AttachmentDiff()


def test_another_allocation_of_the_same_device_is_another_attachment() -> None:
    each = claim()
    (before,) = attachments_of(each, DRIVER)
    assert each.allocation is not None
    again = replace(
        each, status=replace(each.status, allocation=replace(each.allocation, allocation_timestamp=NOW))
    )
    assert attachment_diff(recording(again, before), DRIVER) == AttachmentDiff(detach=(before,))


def test_nothing_is_begun_for_a_claim_that_is_being_deleted() -> None:
    each = claim()
    deleted = replace(each, metadata=replace(each.metadata, deletion_timestamp=NOW))
    assert attachment_diff(deleted, DRIVER) == AttachmentDiff()


def test_devices_of_others_and_devices_without_conditions_are_nothing_to_do() -> None:
    assert attachment_diff(claim(driver="other.example.com"), DRIVER) == AttachmentDiff()
    assert attachment_diff(claim(conditions=()), DRIVER) == AttachmentDiff()


def test_conditions_that_somebody_else_sets_are_not_waited_for() -> None:
    each = claim(conditions=("attached", "ready"))
    (wanted,) = attachments_of(each, DRIVER)
    each = told(recording(each, wanted), "attached")
    assert attachment_diff(each, DRIVER, ("attached",)) == AttachmentDiff()
    assert attachment_diff(each, DRIVER) == AttachmentDiff(attach=(wanted,))


def test_a_record_that_is_no_record_says_nothing() -> None:
    broken = replace(claim(), metadata=replace(claim().metadata, annotations={record_key(DRIVER): "{"}))
    assert recorded(broken, DRIVER) == ()


def test_on_its_node_a_device_is_attached_without_a_record() -> None:
    each = claim()
    (wanted,) = attachments_of(each, DRIVER)
    assert on_node(each, DRIVER, builders.NODE) == (wanted,)
    assert on_node(told(each, "attached"), DRIVER, builders.NODE) == ()
    assert on_node(told(each, "failed"), DRIVER, builders.NODE) == ()


def test_claims_of_other_nodes_and_deleted_ones_are_left_alone() -> None:
    each = claim()
    deleted = replace(each, metadata=replace(each.metadata, deletion_timestamp=NOW))
    assert on_node(each, DRIVER, "another-node") == ()
    assert on_node(deleted, DRIVER, builders.NODE) == ()


def ending(each: ResourceClaim, *finalizers: str) -> ResourceClaim:
    """The claim, terminating, with these finalizers beside those that it has."""
    listed = [*each.metadata.finalizers, *finalizers]
    return replace(each, metadata=replace(each.metadata, deletion_timestamp=NOW, finalizers=listed))


def test_a_terminating_claim_without_protection_wants_nothing_once_no_pod_runs_with_it() -> None:
    each = claim()
    (wanted,) = attachments_of(each, DRIVER)
    given_up = ending(recording(each, wanted))
    assert attachment_diff(given_up, DRIVER) == AttachmentDiff(look_up=True)
    assert attachment_diff(given_up, DRIVER, unused=True) == AttachmentDiff(detach=(wanted,))
    let_go = replace(given_up, metadata=replace(given_up.metadata, annotations={}))
    assert attachment_diff(let_go, DRIVER, unused=True) == AttachmentDiff(let_go=True)
    assert attachment_diff(ending(each), DRIVER) == AttachmentDiff(), "nothing of the driver's is on it"


def test_a_terminating_claim_that_somebody_will_deallocate_is_waited_for() -> None:
    """The claim controller removes its own finalizer last; a KEP-3063 controller has one of its name."""
    each = claim()
    (wanted,) = attachments_of(each, DRIVER)
    for finalizers in ([CLAIM_FINALIZER], ["fabric.example.com/deletion-protection"]):
        protected = told(ending(recording(each, wanted), *finalizers), "attached")
        assert (
            attachment_diff(protected, DRIVER)
            == attachment_diff(protected, DRIVER, unused=True)
            == AttachmentDiff()
        )


def test_a_device_that_can_not_be_detached_holds_up_no_other_device_of_the_claim() -> None:
    each = claim()
    (wanted,) = attachments_of(each, DRIVER)
    other = Attachment(each.metadata.uid, "fabric", "gpu-9")
    assert attachment_diff(recording(each, other), DRIVER) == AttachmentDiff(detach=(other,), record=(wanted,))
    assert attachment_diff(recording(each, other, wanted), DRIVER) == AttachmentDiff(
        detach=(other,), attach=(wanted,)
    )
