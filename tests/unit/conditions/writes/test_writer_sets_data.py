"""`claim.conditions.set_data` writes one field and keeps all others."""

import pytest

from dradriver.conditions.writes.writer import ConditionsDroppedError, ConditionWriter, NodeConditionWriter
from dradriver.driver import AllocatedDevice, AllocationGone
from dradriver.errors import DraError
from dradriver.kube import CLAIMS
from dradriver.model.resource.claim import AllocatedDeviceStatus, ResourceClaim
from tests.unit.conditions.fabric import DRIVER, Lab
from tests.unit.conditions.writes.test_writer_merges_conditions import (
    DEVICE,
    allocate,
    allocated,
    status_patch,
    theirs,
)


async def stored(lab: Lab) -> ResourceClaim:
    return await lab.client.get(CLAIMS, "claim-1", "default", into=ResourceClaim)


async def entries(lab: Lab) -> dict[str, AllocatedDeviceStatus]:
    return {entry.driver: entry for entry in (await stored(lab)).status.devices}


async def test_data_replaces_earlier_data_and_all_conditions_stay(lab: Lab) -> None:
    claim = await allocated(lab)
    await status_patch(lab.client, theirs("ready"))
    writer = ConditionWriter(lab.client, DRIVER, claim)
    await writer.set_data(DEVICE, {"task": 7})
    await writer.set(DEVICE, "attached", True)
    await writer.set_data(DEVICE, {"serial": "0x1f", "bytes": 2**33})
    found = await entries(lab)
    assert found[DRIVER].data_object == {"serial": "0x1f", "bytes": 2**33}
    assert [c.type for c in found[DRIVER].conditions] == ["attached"]
    assert found["other.example.com"].data_object is None
    assert [c.type for c in found["other.example.com"].conditions] == ["ready"]


async def test_a_conflict_is_retried_with_the_current_claim(lab: Lab) -> None:
    claim = await allocated(lab)

    class Conflicting(ConditionWriter):
        async def _patch(self, claim: ResourceClaim, operations: list[dict[str, object]]) -> ResourceClaim:
            if not claim.status.devices:
                await status_patch(lab.client, theirs("ready", driver=DRIVER))
            return await super()._patch(claim, operations)

    await Conflicting(lab.client, DRIVER, claim).set_data(DEVICE, {"serial": 1})
    entry = (await entries(lab))[DRIVER]
    assert entry.data_object == {"serial": 1}
    assert [c.type for c in entry.conditions] == ["ready"]


async def test_unchanged_data_is_not_written(lab: Lab) -> None:
    claim = await allocated(lab)
    writer = ConditionWriter(lab.client, DRIVER, claim)
    await writer.set_data(DEVICE, {"b": [1.0, "<"], "a": None})
    before = await stored(lab)
    await writer.set_data(DEVICE, {"a": None, "b": [1, "<"]})
    assert await stored(lab) == before


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
        await ConditionWriter(lab.client, DRIVER, claim).set_data(DEVICE, {"serial": 1})


async def test_the_limit_is_that_of_the_api_server(lab: Lab) -> None:
    """`<` has six bytes in the API server's form."""
    writer = ConditionWriter(lab.client, DRIVER, await allocated(lab))
    overhead = len('{"a":""}')
    await writer.set_data(DEVICE, {"a": "x" * (10 * 1024 - overhead)})
    for text in ("x" * (10 * 1024 - overhead + 1), "<" * 2000):
        with pytest.raises(DraError, match="must have at most 10240 bytes as JSON, has "):
            await writer.set_data(DEVICE, {"a": text})


@pytest.mark.parametrize("value", [[1], "text", None, {"a": object()}])
async def test_a_value_that_is_no_json_object_is_an_error(lab: Lab, value: object) -> None:
    writer = ConditionWriter(lab.client, DRIVER, await allocated(lab))
    with pytest.raises(DraError, match=r"data of device .*gpu-0: "):
        await writer.set_data(DEVICE, value)  # type: ignore[arg-type]


async def test_a_node_does_not_set_data(lab: Lab) -> None:
    writer = NodeConditionWriter(lab.client, DRIVER, await allocated(lab))
    with pytest.raises(DraError, match="must be set by a BindingDriver"):
        await writer.set_data(DEVICE, {"serial": 1})
    assert not (await stored(lab)).status.devices


async def test_data_that_the_api_server_drops_is_an_error(lab: Lab) -> None:
    claim = await allocated(lab)

    class Dropping(ConditionWriter):
        async def _patch(self, claim: ResourceClaim, operations: list[dict[str, object]]) -> ResourceClaim:
            return claim

    with pytest.raises(ConditionsDroppedError, match="does not store the data"):
        await Dropping(lab.client, DRIVER, claim).set_data(
            AllocatedDevice("device", "node-1", "gpu-0"), {"a": 1}
        )
