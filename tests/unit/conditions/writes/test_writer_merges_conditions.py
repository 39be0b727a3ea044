"""`claim.conditions.set` keeps the conditions of other writers."""

from collections.abc import Mapping

import pytest

from dradriver.conditions.writes.writer import ConditionWriter
from dradriver.driver import AllocatedDevice, AllocationGone
from dradriver.errors import DraError
from dradriver.kube import CLAIMS, Client, PatchKind
from dradriver.model.resource.claim import ResourceClaim
from dradriver.testing import builders
from tests.unit.conditions.fabric import DRIVER, Lab

DEVICE = AllocatedDevice("device", "node-1", "gpu-0")


async def allocated(lab: Lab, *, when: str = "2026-01-01T00:00:00Z") -> ResourceClaim:
    """Create a claim with a device of this driver and one of another driver."""
    await lab.client.create(CLAIMS, builders.claim(), "default", into=dict)
    return await allocate(lab, when)


async def allocate(lab: Lab, when: str) -> ResourceClaim:
    results = [
        {"request": "device", "driver": driver, "pool": "node-1", "device": "gpu-0"}
        for driver in ("other.example.com", DRIVER)
    ]
    status = {"allocation": {"devices": {"results": results}, "allocationTimestamp": when}}
    return await status_patch(lab.client, status)


async def status_patch(client: Client, status: Mapping[str, object]) -> ResourceClaim:
    return await client.patch(
        *(CLAIMS, "claim-1", "default", {"status": status}, PatchKind.MERGE),
        into=ResourceClaim,
        subresource="status",
    )


def theirs(*kinds: str, driver: str = "other.example.com") -> dict[str, object]:
    conditions = [
        {
            "type": kind,
            "status": "True",
            "reason": "Theirs",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        for kind in kinds
    ]
    entry = {"driver": driver, "pool": "node-1", "device": "gpu-0", "conditions": conditions}
    return {"devices": [entry]}


async def entries(lab: Lab) -> dict[str, dict[str, str]]:
    claim = await lab.client.get(CLAIMS, "claim-1", "default", into=ResourceClaim)
    return {entry.driver: {c.type: c.status for c in entry.conditions} for entry in claim.status.devices}


async def test_entries_and_conditions_of_other_writers_stay(lab: Lab) -> None:
    claim = await allocated(lab)
    await status_patch(lab.client, theirs("ready"))
    writer = ConditionWriter(lab.client, DRIVER, claim)
    await writer.set(DEVICE, "attached", False, "Begun")
    await writer.set(DEVICE, "seen", "Unknown")
    await writer.set(DEVICE, "attached", True, "Done")
    assert await entries(lab) == {
        "other.example.com": {"ready": "True"},
        DRIVER: {"attached": "True", "seen": "Unknown"},
    }


async def test_a_conflict_is_retried_with_the_current_claim(lab: Lab) -> None:
    claim = await allocated(lab)

    class Conflicting(ConditionWriter):
        async def _patch(self, claim: ResourceClaim, operations: list[dict[str, object]]) -> ResourceClaim:
            if not claim.status.devices:
                await status_patch(lab.client, theirs("ready", driver=DRIVER))
            return await super()._patch(claim, operations)

    await Conflicting(lab.client, DRIVER, claim).set(DEVICE, "attached", True)
    assert await entries(lab) == {DRIVER: {"ready": "True", "attached": "True"}}


async def test_the_transition_time_changes_only_with_the_status(lab: Lab) -> None:
    claim = await allocated(lab)
    await status_patch(lab.client, theirs("attached", driver=DRIVER))
    await ConditionWriter(lab.client, DRIVER, claim).set(DEVICE, "attached", True, "Ours", "again")
    stored = await lab.client.get(CLAIMS, "claim-1", "default", into=ResourceClaim)
    (condition,) = stored.status.devices[0].conditions
    assert condition.message == "again"
    assert condition.last_transition_time is not None
    assert condition.last_transition_time.isoformat() == "2026-01-01T00:00:00+00:00"


async def test_a_cache_that_is_behind_gets_the_claim_with_another_allocation(lab: Lab) -> None:
    claim = await allocated(lab)
    read: list[ResourceClaim] = []
    await status_patch(lab.client, {"allocation": None})
    with pytest.raises(AllocationGone):
        await ConditionWriter(lab.client, DRIVER, claim, read.append).set(DEVICE, "attached", True)
    assert [each.allocation for each in read] == [None]


async def test_an_unchanged_condition_is_not_written(lab: Lab) -> None:
    claim = await allocated(lab)
    writer = ConditionWriter(lab.client, DRIVER, claim)
    await writer.set(DEVICE, "attached", True)
    before = await lab.client.get(CLAIMS, "claim-1", "default", into=ResourceClaim)
    await writer.set(DEVICE, "attached", True)
    assert await lab.client.get(CLAIMS, "claim-1", "default", into=ResourceClaim) == before


@pytest.mark.parametrize("change", ["deallocated", "allocated again", "deleted"])
async def test_a_write_to_another_allocation_raises_allocation_gone(lab: Lab, change: str) -> None:
    claim = await allocated(lab)
    if change == "deleted":
        await lab.client.delete(CLAIMS, "claim-1", "default")
    else:
        await status_patch(lab.client, {"allocation": None})
    if change == "allocated again":
        await allocate(lab, "2026-01-01T00:10:00Z")
    with pytest.raises(AllocationGone):
        await ConditionWriter(lab.client, DRIVER, claim).set(DEVICE, "attached", True)


async def test_a_ninth_condition_is_an_error_that_names_the_others(lab: Lab) -> None:
    claim = await allocated(lab)
    await status_patch(lab.client, theirs(*(f"c{i}" for i in range(8)), driver=DRIVER))
    with pytest.raises(DraError, match="must have at most 8 items, has c0, c1"):
        await ConditionWriter(lab.client, DRIVER, claim).set(DEVICE, "attached", True)
