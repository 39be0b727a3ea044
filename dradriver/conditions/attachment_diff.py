"""What there is to do for a claim, and its record of attachments.

The record is an annotation: it has to outlive the allocation, with which the API server drops `status.devices`.
The finalizer keeps the claim, and so the record, until everything was detached.

| in the allocation | in the record | to do                                            |
|-------------------|---------------|--------------------------------------------------|
| no                | yes           | detach, then take it out of the record           |
| yes               | no            | put it into the record                           |
| yes               | yes           | attach, unless its conditions say how that ended |

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
"""How the finalizer ends of a claim that a controller allocates (KEP-3063); the controller's name is first."""


@dataclass(frozen=True, slots=True)
class AttachmentDiff:
    """What there is to do; empty when there is nothing.

    Attributes:
        admit: devices to which the claim has admin access, and whose conditions are not set yet.
        detach: attachments that the claim does not have any more.
        record: attachments that have to be in the record before they are attached.
        attach: attachments that are recorded and neither ready nor failed.
        let_go: whether only the finalizer is left to remove.
        look_up: whether the pods that the claim is reserved for decide what is to be detached.
    """

    admit: tuple[DeviceResult, ...] = ()
    detach: tuple[Attachment, ...] = ()
    record: tuple[Attachment, ...] = ()
    attach: tuple[Attachment, ...] = ()
    let_go: bool = False
    look_up: bool = False


class _Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """An attachment in the annotation; its claim is the one that carries it."""

    pool: str
    device: str
    share_id: str = msgspec.field(default="", name="shareID")
    node: str = ""
    allocated: str = ""


def finalizer(driver: str) -> str:
    """The finalizer of claims that have something attached."""
    return f"{driver}/detach"


def record_key(driver: str) -> str:
    """The annotation with the record."""
    return f"{driver}/attachments"


def recorded(claim: ResourceClaim, driver: str) -> tuple[Attachment, ...]:
    """What the claim's record says; a text that is none says nothing."""
    text = claim.metadata.annotations.get(record_key(driver), "[]")
    try:
        entries = msgspec.json.decode(text, type=list[_Entry])
    except msgspec.MsgspecError:
        return ()
    uid = claim.metadata.uid
    return tuple(Attachment(uid, e.pool, e.device, e.share_id, e.node, e.allocated) for e in entries)


def written(attachments: Iterable[Attachment]) -> str:
    """The record as text."""
    entries = [_Entry(a.pool, a.device, a.share_id, a.node, a.allocated) for a in sorted(attachments)]
    return msgspec.json.encode(entries).decode()


def place_of(attachment: Attachment) -> tuple[str, str, str]:
    """Pool, device and share: what at most one attachment has at a time."""
    return attachment.pool, attachment.device, attachment.share_id


def allocated_node(selector: NodeSelector | None) -> str:
    """The node, if it is exactly one by name; empty otherwise."""
    terms = selector.node_selector_terms if selector else []
    if len(terms) != 1 or terms[0].match_expressions or len(terms[0].match_fields) != 1:
        return ""
    field = terms[0].match_fields[0]
    exact = (field.key, field.operator, len(field.values)) == ("metadata.name", "In", 1)
    return field.values[0] if exact else ""


def attachments_of(claim: ResourceClaim, driver: str) -> dict[Attachment, DeviceResult]:
    """The driver's devices with binding conditions in the claim's allocation."""
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
    """The binding conditions of a device that its driver's controller sets: these, or all."""
    return [kind for kind in result.binding_conditions if not own or kind in own]


def given_up(claim: ResourceClaim) -> bool:
    """Whether the claim is terminating and nothing protects its allocation: nobody will deallocate it.

    kube-scheduler leaves the special claim of a failed attempt so (KEP-5004): it removes the finalizer
    `resource.kubernetes.io/delete-protection` and deletes the claim, whose allocation stays. It does the same
    when the answer to a Bind is lost, and then the pod runs with the claim. So the allocation counts until no
    pod in `reservedFor` has a node and is unfinished. A claim that a controller allocates (KEP-3063) never has
    that finalizer but one of the controller, which deallocates the claim itself.
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
    """What there is to do for the claim.

    Args:
        claim: the claim.
        driver: whose attachments.
        own: as with `own_conditions`.
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
    # A device is detached before it is recorded again. A claim that is being deleted takes no finalizer: what
    # was not begun is not begun any more.
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
    """The driver's devices to which the claim has admin access, and whose conditions are not set yet.

    A scheduler copies binding conditions into results for admin access too, and waits for them. But such a
    claim only looks at devices that others use, so nothing is attached for it.

    Args:
        claim: the claim.
        driver: whose devices.
        own: as with `own_conditions`.
        node: only where the claim was allocated for this node; empty for any.
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
    """What there is to attach on the node of a claim, where no record is kept; `own` as with `own_conditions`.

    A claim that is to be deleted has lost its pods.
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
