"""Compare a recorded claim with the claim in the API server."""

from dradriver.model.resource.attachments import is_given_up, prepare_allowed
from dradriver.model.resource.claim import ResourceClaim
from dradriver.node.claims.lookup import to_allocated_claim
from dradriver.node.errors import ClaimError
from dradriver.node.state.records import ClaimRecord

__all__ = ["find_changed_attachments", "has_allocation"]


def has_allocation(claim: ResourceClaim, record: ClaimRecord, driver: str, node: str) -> bool:
    """Return whether the claim still has the recorded allocation; once it does not, it never has it again.

    The allocation of a claim that is given up does not count, because a controller may detach its devices.

    Args:
        claim: a claim with the recorded name.
        record: the record.
        driver: the driver's name. Devices of other drivers are ignored.
        node: the node's name.
    """
    if claim.metadata.uid != record.uid or is_given_up(claim):
        return False
    try:
        now = to_allocated_claim(claim, driver, node).record
    except ClaimError:
        return False
    return now.allocation == record.allocation and now.has_time_of(record)


def find_changed_attachments(seen: ResourceClaim, now: ResourceClaim, driver: str) -> list[str]:
    """Return the driver's devices that are not attached as they were when the claim was seen.

    The time of an allocation is in seconds, and can be unknown. So a claim can be allocated again with the same
    devices and the same time, while its devices are detached for the earlier allocation. The API server clears
    `status.devices` together with an allocation.

    Args:
        seen: the claim as it was seen.
        now: the claim from the API server, with an equal allocation.
        driver: the driver's name.
    """
    changed = []
    for result in seen.results:
        before, after = seen.device_status(result.id), now.device_status(result.id)
        if result.driver != driver or before is None:
            continue
        kinds = {*result.binding_conditions, prepare_allowed(driver)}
        attached = {each.type for each in before.conditions if each.status == "True"} & kinds
        left = {each.type for each in after.conditions if each.status == "True"} if after else set()
        same_data = before.data_object is None or (
            after is not None and after.data_object == before.data_object
        )
        if attached and not (attached <= left and same_data):
            changed.append(result.device)
    return changed
