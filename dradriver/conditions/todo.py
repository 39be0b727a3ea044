"""What there is to do for a claim, and its record of attachments.

The record is an annotation: it has to outlive the allocation, with which the API server drops `status.devices`.
The finalizer keeps the claim, and so the record, until everything was detached.

| in the allocation | in the record | to do                                            |
|-------------------|---------------|--------------------------------------------------|
| no                | yes           | detach, then take it out of the record           |
| yes               | no            | put it into the record                           |
| yes               | yes           | attach, unless its conditions say how that ended |
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import msgspec

from dradriver.driver import Attachment
from dradriver.model.claim import DeviceResult, ResourceClaim
from dradriver.model.codec import rfc3339
from dradriver.model.conditions import is_true
from dradriver.model.nodes import NodeSelector

__all__ = [
    "Todo",
    "allocated_node",
    "attachments_of",
    "finalizer",
    "on_node",
    "own_conditions",
    "record_key",
    "recorded",
    "todo",
    "written",
]


@dataclass(frozen=True, slots=True)
class Todo:
    """What there is to do, in this order; empty when there is nothing.

    Attributes:
        detach: what the claim does not have any more.
        record: what has to be in the record before it is attached.
        attach: what is recorded and neither ready nor failed.
        let_go: whether only the finalizer is left to take away.
    """

    detach: tuple[Attachment, ...] = ()
    record: tuple[Attachment, ...] = ()
    attach: tuple[Attachment, ...] = ()
    let_go: bool = False


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


def todo(claim: ResourceClaim, driver: str, own: Collection[str] = ()) -> Todo:
    """What there is to do for the claim; `own` as with `own_conditions`."""
    wanted, record = attachments_of(claim, driver), recorded(claim, driver)
    if gone := tuple(each for each in record if each not in wanted):
        return Todo(detach=gone)
    protected = finalizer(driver) in claim.metadata.finalizers
    missing = tuple(each for each in wanted if each not in record or not protected)
    if missing:
        # A claim that is being deleted takes no finalizer: what was not begun is not begun any more.
        return Todo() if claim.metadata.deletion_timestamp is not None else Todo(record=missing)
    if not wanted:
        return Todo(let_go=protected)
    return Todo(attach=_unended(claim, wanted, own))


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
