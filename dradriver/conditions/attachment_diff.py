"""Compute the next work for a claim from its allocation and its record of attachments.

The record is an annotation, because it must outlive the allocation: the API server clears `status.devices`
together with the allocation. The finalizer keeps the claim, and thus the record, until everything is detached.

| in the allocation | in the record | work                                             |
|-------------------|---------------|--------------------------------------------------|
| no                | yes           | detach, then remove it from the record           |
| yes               | no            | add it to the record                             |
| yes               | yes           | attach, unless its conditions have the result    |

The allocation of a claim that is `given_up` counts only while a pod runs with it.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from dradriver.driver import Attachment
from dradriver.model.core.conditions import is_true
from dradriver.model.core.node_selector import NodeSelector
from dradriver.model.encoding.codec import rfc3339
from dradriver.model.resource.claim import CLAIM_FINALIZER, DeviceResult, ResourceClaim

__all__ = [
    "AttachmentDiff",
    "allocated_node",
    "attachment_diff",
    "attachments_of",
    "finalizer",
    "given_up",
    "on_node",
    "own_conditions",
    "place_of",
    "record_key",
    "recorded",
    "to_admit",
    "written",
]


_CLASSIC_FINALIZER: Final = "/deletion-protection"
"""Suffix of a finalizer on a claim that a controller allocates (KEP-3063), after the controller's name."""


@dataclass(frozen=True, slots=True)
class AttachmentDiff:
    """The next work; empty if there is none.

    Attributes:
        admit: devices with admin access whose conditions are not set yet.
        detach: attachments that the claim no longer has.
        record: attachments that must be recorded before they are attached.
        attach: attachments that are recorded and neither ready nor failed.
        let_go: whether only the finalizer must be removed.
        look_up: whether the pods in `reservedFor` decide what to detach.
    """

    admit: tuple[DeviceResult, ...] = ()
    detach: tuple[Attachment, ...] = ()
    record: tuple[Attachment, ...] = ()
    attach: tuple[Attachment, ...] = ()
    let_go: bool = False
    look_up: bool = False


class _Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """An attachment in the annotation; its claim is the one with the annotation."""

    pool: str
    device: str
    share_id: str = msgspec.field(default="", name="shareID")
    node: str = ""
    allocated: str = ""


def finalizer(driver: str) -> str:
    """Return the finalizer of claims that have attachments."""
    return f"{driver}/detach"


def record_key(driver: str) -> str:
    """Return the key of the annotation with the record."""
    return f"{driver}/attachments"


def recorded(claim: ResourceClaim, driver: str) -> tuple[Attachment, ...]:
    """Return the attachments in the claim's record; a text that is not a record has none."""
    text = claim.metadata.annotations.get(record_key(driver), "[]")
    try:
        entries = msgspec.json.decode(text, type=list[_Entry])
    except msgspec.MsgspecError:
        return ()
    uid = claim.metadata.uid
    return tuple(Attachment(uid, e.pool, e.device, e.share_id, e.node, e.allocated) for e in entries)


def written(attachments: Iterable[Attachment]) -> str:
    """Return the record as text."""
    entries = [_Entry(a.pool, a.device, a.share_id, a.node, a.allocated) for a in sorted(attachments)]
    return msgspec.json.encode(entries).decode()


def place_of(attachment: Attachment) -> tuple[str, str, str]:
    """Return pool, device and share, which at most one attachment has at a time."""
    return attachment.pool, attachment.device, attachment.share_id


def allocated_node(selector: NodeSelector | None) -> str:
    """Return the node, if it is exactly one by name; otherwise empty."""
    terms = selector.node_selector_terms if selector else []
    if len(terms) != 1 or terms[0].match_expressions or len(terms[0].match_fields) != 1:
        return ""
    field = terms[0].match_fields[0]
    exact = (field.key, field.operator, len(field.values)) == ("metadata.name", "In", 1)
    return field.values[0] if exact else ""


def attachments_of(claim: ResourceClaim, driver: str) -> dict[Attachment, DeviceResult]:
    """Return the driver's devices with binding conditions in the claim's allocation."""
    allocation = claim.allocation
    if allocation is None:
        return {}
    node = allocated_node(allocation.node_selector)
    when = rfc3339(allocation.allocation_timestamp) if allocation.allocation_timestamp else ""
    return {
        Attachment(claim.metadata.uid, r.pool, r.device, r.share_id or "", node, when): r
        for r in claim.results
        if r.driver == driver and r.binding_conditions and not r.admin_access
    }


def own_conditions(result: DeviceResult, own: Collection[str]) -> list[str]:
    """Return the binding conditions of a device that its driver's controller sets: these, or all."""
    return [kind for kind in result.binding_conditions if not own or kind in own]


def given_up(claim: ResourceClaim) -> bool:
    """Return whether the claim is terminating and nothing protects its allocation, so it is never deallocated.

    kube-scheduler leaves the special claim of a failed attempt in this state (KEP-5004): it removes the
    finalizer `resource.kubernetes.io/delete-protection` and deletes the claim, and the allocation stays. It
    does the same when the answer to a Bind is lost; in that case the pod runs with the claim. So the allocation
    counts until no pod in `reservedFor` has a node and is unfinished. A claim that a controller allocates
    (KEP-3063) never has that finalizer. It has a finalizer of the controller, which deallocates the claim
    itself.
    """
    meta = claim.metadata
    return (
        meta.deletion_timestamp is not None
        and CLAIM_FINALIZER not in meta.finalizers
        and not any(each.endswith(_CLASSIC_FINALIZER) for each in meta.finalizers)
    )


def attachment_diff(
    claim: ResourceClaim, driver: str, own: Collection[str] = (), *, unused: bool = False
) -> AttachmentDiff:
    """Return the next work for the claim.

    Args:
        claim: the claim.
        driver: the driver of the attachments.
        own: as for `own_conditions`.
        unused: whether no pod runs with a claim that is `given_up`.
    """
    abandoned = given_up(claim)
    wanted = {} if abandoned and unused else attachments_of(claim, driver)
    record, protected = recorded(claim, driver), finalizer(driver) in claim.metadata.finalizers
    detach = tuple(each for each in record if each not in wanted)
    if abandoned:
        look_up = not unused and bool(wanted) and (protected or bool(record))
        return AttachmentDiff(detach=detach, let_go=protected and not record and not wanted, look_up=look_up)
    known = {each: result for each, result in wanted.items() if protected and each in record}
    # A device is detached before it is recorded again. A claim that is being deleted accepts no finalizer, so
    # no new attachment begins.
    held = set(map(place_of, detach))
    missing = [each for each in wanted if each not in known and place_of(each) not in held]
    return AttachmentDiff(
        admit=to_admit(claim, driver, own),
        detach=detach,
        record=() if claim.metadata.deletion_timestamp is not None else tuple(missing),
        attach=_unended(claim, known, own),
        let_go=protected and not record and not wanted,
    )


def to_admit(
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
        and not _ended(claim, each, own)
    )


def on_node(claim: ResourceClaim, driver: str, node: str, own: Collection[str] = ()) -> tuple[Attachment, ...]:
    """Return the attachments to attach on the node of a claim, without a record; `own` as for `own_conditions`.

    A claim that is being deleted has lost its pods.
    """
    if claim.metadata.deletion_timestamp is not None:
        return ()
    wanted = attachments_of(claim, driver)
    here = {each: result for each, result in wanted.items() if each.node == node}
    return _unended(claim, here, own)


def _unended(
    claim: ResourceClaim, wanted: Mapping[Attachment, DeviceResult], own: Collection[str]
) -> tuple[Attachment, ...]:
    return tuple(each for each, result in wanted.items() if not _ended(claim, result, own))


def _ended(claim: ResourceClaim, result: DeviceResult, own: Collection[str]) -> bool:
    said = next((entry.conditions for entry in claim.status.devices if entry.id == result.id), [])
    ready = all(is_true(said, kind) for kind in own_conditions(result, own))
    return ready or any(is_true(said, kind) for kind in result.binding_failure_conditions)
