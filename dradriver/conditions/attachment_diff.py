"""Compute the next work for a claim from its allocation and its record of attachments.

The record is an annotation, because it must outlive the allocation: the API server clears `status.devices`
together with the allocation. The finalizer keeps the claim, and thus the record, until everything is detached.

| in the allocation | in the record | work                                             |
|-------------------|---------------|--------------------------------------------------|
| no                | yes           | detach, then remove it from the record           |
| yes               | no            | add it to the record                             |
| yes               | yes           | attach, unless its conditions have the result    |
| yes, node failed  | yes           | taint the device, then set a failure condition   |
| yes, but unknown  | yes           | none, until `discover()` returns the device      |

If a node cannot attach a device, it sets a condition (`node_failure`) that is not among the device's binding or
failure conditions. This report counts only until a failure condition is set.

The device matters only if the API server has dropped its conditions: the conditions are those that `discover()`
declares for it (`declared`).

The allocation of a claim that is given up (`is_given_up`) counts only while a pod runs with it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from dradriver.driver import AllocatedDevice, Attachment
from dradriver.model.core.conditions import is_true
from dradriver.model.core.meta import Condition
from dradriver.model.core.node_selector import NodeSelector
from dradriver.model.encoding.codec import rfc3339
from dradriver.model.resource.attachments import finalizer, is_given_up
from dradriver.model.resource.claim import DeviceResult, ResourceClaim

__all__ = [
    "AttachmentDiff",
    "allocated_attachments",
    "allocated_device",
    "allocated_node",
    "allocation_time",
    "attachment_diff",
    "attachments_of",
    "device_key",
    "encode_record",
    "finalizer",
    "find_admin_access",
    "find_node_attachments",
    "is_same_time",
    "node_failure",
    "node_failure_type",
    "own_conditions",
    "read_record",
    "record_key",
    "recorded_attachments",
]


@dataclass(frozen=True, slots=True)
class AttachmentDiff:
    """The next work; empty if there is none.

    Attributes:
        admin_access: devices with admin access whose conditions are not set yet.
        detach: attachments that the claim no longer has.
        record: attachments that must be recorded before they are attached.
        attach: attachments that are recorded and neither ready nor failed.
        fail: attachments that are recorded and failed on their node, without a failure condition.
        remove_finalizer: whether only the finalizer must be removed.
        check_pods: whether the pods in `reservedFor` decide what to detach.
    """

    admin_access: tuple[DeviceResult, ...] = ()
    detach: tuple[Attachment, ...] = ()
    record: tuple[Attachment, ...] = ()
    attach: tuple[Attachment, ...] = ()
    fail: tuple[Attachment, ...] = ()
    remove_finalizer: bool = False
    check_pods: bool = False


class _Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """An attachment in the annotation. It does not name its claim, because the claim has the annotation."""

    pool: str
    device: str
    share_id: str = msgspec.field(default="", name="shareID")
    node: str = ""
    allocated: str = ""


def node_failure_type(driver: str) -> str:
    """Return the type of the condition that a node sets when it cannot attach a device of another publisher."""
    return f"{driver}/node-attach-failed"


def node_failure(claim: ResourceClaim, result: DeviceResult) -> Condition | None:
    """Return the condition by which a node reports that it cannot attach this device; None without a report."""
    kind = node_failure_type(result.driver)
    conditions = _conditions(claim, result)
    return next((each for each in conditions if each.type == kind and each.status == "True"), None)


def record_key(driver: str) -> str:
    """Return the key of the annotation with the record."""
    return f"{driver}/attachments"


def read_record(claim: ResourceClaim, driver: str) -> tuple[Attachment, ...]:
    """Return the attachments in the claim's record; a text that is not a record has none."""
    text = claim.metadata.annotations.get(record_key(driver), "[]")
    try:
        entries = msgspec.json.decode(text, type=list[_Entry])
    except msgspec.MsgspecError:
        return ()
    uid = claim.metadata.uid
    return tuple(Attachment(uid, e.pool, e.device, e.share_id, e.node, e.allocated) for e in entries)


def encode_record(attachments: Iterable[Attachment]) -> str:
    """Return the record as text."""
    entries = [_Entry(a.pool, a.device, a.share_id, a.node, a.allocated) for a in sorted(attachments)]
    return msgspec.json.encode(entries).decode()


def device_key(attachment: Attachment) -> tuple[str, str, str]:
    """Return pool, device and share. At most one attachment at a time has this key."""
    return attachment.pool, attachment.device, attachment.share_id


def allocated_node(selector: NodeSelector | None) -> str:
    """Return the node that the selector names, if it selects exactly one node by its name; otherwise empty."""
    return selector.only_node if selector else ""


def allocated_device(result: DeviceResult) -> AllocatedDevice:
    """Return the device with only its request and its name: pool, device and share."""
    return AllocatedDevice(result.request, result.pool, result.device, result.share_id or "")


def allocation_time(claim: ResourceClaim) -> str:
    """Return the time of the claim's allocation (RFC 3339). Empty: no allocation, or one without a time."""
    when = claim.allocation.allocation_timestamp if claim.allocation else None
    return rfc3339(when) if when else ""


def is_same_time(one: str, other: str) -> bool:
    """Return whether two times (RFC 3339) can be the same; a missing or invalid time can be any time."""
    seconds = {_read_seconds(one), _read_seconds(other)}
    return len(seconds) == 1 or None in seconds


def attachments_of(claim: ResourceClaim, driver: str) -> dict[Attachment, DeviceResult]:
    """Return the driver's devices with binding conditions in the claim's allocation.

    Args:
        claim: the claim. Conditions that the API server dropped must be filled in (`declared`).
        driver: the driver of the attachments.
    """
    return {
        each: result
        for each, result in allocated_attachments(claim, driver).items()
        if result.binding_conditions
    }


def recorded_attachments(claim: ResourceClaim, driver: str) -> dict[Attachment, DeviceResult]:
    """Return those of `attachments_of` that are recorded and protected by the finalizer, so may be attached."""
    if finalizer(driver) not in claim.metadata.finalizers:
        return {}
    record = read_record(claim, driver)
    return {each: result for each, result in attachments_of(claim, driver).items() if each in record}


def allocated_attachments(claim: ResourceClaim, driver: str) -> dict[Attachment, DeviceResult]:
    """Return all of the driver's devices in the claim's allocation, except those with admin access.

    A recorded attachment whose device has no conditions stays attached while it is allocated: `discover()` may
    not have returned the device yet, or may return it again later.
    """
    allocation = claim.allocation
    if allocation is None:
        return {}
    node = allocated_node(allocation.node_selector)
    when = allocation_time(claim)
    return {
        Attachment(claim.metadata.uid, r.pool, r.device, r.share_id or "", node, when): r
        for r in claim.results
        if r.driver == driver and not r.admin_access
    }


def own_conditions(result: DeviceResult, own: Collection[str]) -> list[str]:
    """Return the device's binding conditions that are in `own` (`Attaching.own_conditions`). Empty: all."""
    return [kind for kind in result.binding_conditions if not own or kind in own]


def attachment_diff(
    claim: ResourceClaim, driver: str, own: Collection[str] = (), *, unused: bool = False
) -> AttachmentDiff:
    """Return the next work for the claim.

    Args:
        claim: the claim.
        driver: the driver of the attachments.
        own: as for `own_conditions`.
        unused: whether it is known that no pod runs with the claim. It only matters for a claim that is given
            up.
    """
    abandoned = is_given_up(claim)
    held = {} if abandoned and unused else allocated_attachments(claim, driver)
    wanted = {each: result for each, result in held.items() if result.binding_conditions}
    record, protected = read_record(claim, driver), finalizer(driver) in claim.metadata.finalizers
    detach = tuple(each for each in record if each not in held)
    if abandoned:
        return AttachmentDiff(
            detach=detach,
            remove_finalizer=protected and not record and not wanted,
            check_pods=not unused and bool(held) and (protected or bool(record)),
        )
    known = recorded_attachments(claim, driver)
    # A device is detached before it is recorded again. A claim that is being deleted accepts no finalizer, so
    # no new attachment begins.
    detaching = set(map(device_key, detach))
    missing = [each for each in wanted if each not in known and device_key(each) not in detaching]
    return AttachmentDiff(
        admin_access=find_admin_access(claim, driver, own),
        detach=detach,
        record=() if claim.metadata.deletion_timestamp is not None else tuple(missing),
        attach=_find_unfinished(claim, known, own),
        fail=tuple(
            each
            for each, result in known.items()
            if node_failure(claim, result) and not _has_failed(claim, result)
        ),
        remove_finalizer=protected and not record and not wanted,
    )


def find_admin_access(
    claim: ResourceClaim, driver: str, own: Collection[str] = (), node: str = ""
) -> tuple[DeviceResult, ...]:
    """Return the driver's devices with admin access whose conditions are not set yet.

    A scheduler also copies binding conditions into results for admin access, and waits for them. But such a
    claim only monitors devices that others use, so nothing is attached for it.

    Args:
        claim: the claim.
        driver: the driver of the devices.
        own: as for `own_conditions`.
        node: only claims that are allocated for this node. Empty: any.
    """
    allocation = claim.allocation
    if allocation is None or claim.metadata.deletion_timestamp is not None:
        return ()
    if node and allocated_node(allocation.node_selector) != node:
        return ()
    return tuple(
        each
        for each in claim.results
        if each.driver == driver
        and each.admin_access
        and own_conditions(each, own)
        and not _is_finished(claim, each, own)
    )


def find_node_attachments(
    claim: ResourceClaim, driver: str, node: str, own: Collection[str] = (), after: Collection[str] = ()
) -> tuple[Attachment, ...]:
    """Return the claim's attachments that must be attached on a node. They need no record.

    The result is empty for a claim that is being deleted, because no pod waits for it.

    Args:
        claim: the claim.
        driver: the driver of the attachments.
        node: the node.
        own: as for `own_conditions`.
        after: binding conditions that must be True before a device is attached.
    """
    if claim.metadata.deletion_timestamp is not None:
        return ()
    wanted = attachments_of(claim, driver)
    here = {
        each: result
        for each, result in wanted.items()
        if each.node == node
        and all(
            is_true(_conditions(claim, result), kind) for kind in result.binding_conditions if kind in after
        )
    }
    return _find_unfinished(claim, here, own)


def _read_seconds(time: str) -> int | None:
    try:
        moment = datetime.fromisoformat(time)
    except ValueError:
        return None
    return int(moment.timestamp()) if moment.tzinfo else None


def _find_unfinished(
    claim: ResourceClaim, wanted: Mapping[Attachment, DeviceResult], own: Collection[str]
) -> tuple[Attachment, ...]:
    return tuple(each for each, result in wanted.items() if not _is_finished(claim, result, own))


def _is_finished(claim: ResourceClaim, result: DeviceResult, own: Collection[str]) -> bool:
    conditions = _conditions(claim, result)
    ready = all(is_true(conditions, kind) for kind in own_conditions(result, own))
    return ready or _has_failed(claim, result) or node_failure(claim, result) is not None


def _has_failed(claim: ResourceClaim, result: DeviceResult) -> bool:
    conditions = _conditions(claim, result)
    return any(is_true(conditions, kind) for kind in result.binding_failure_conditions)


def _conditions(claim: ResourceClaim, result: DeviceResult) -> Sequence[Condition]:
    status = claim.device_status(result.id)
    return status.conditions if status is not None else []
