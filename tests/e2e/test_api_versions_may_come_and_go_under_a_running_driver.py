"""The server is upgraded or put back: the driver goes on in what there is, without a restart."""

import asyncio
from pathlib import Path

import pytest

from dradriver.kube import CLAIMS, Unavailable
from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool
from dradriver.publish import PoolState
from tests.e2e import control_plane
from tests.e2e.api_servers import api_server_bed, only
from tests.e2e.rack import POOLS, RackDriver, rack, until


@pytest.mark.parametrize(("before", "after"), [("v1beta1", "v1"), ("v1", "v1beta1")])
async def test_the_driver_follows_and_what_is_prepared_stays(before: str, after: str, tmp_path: Path) -> None:
    with api_server_bed() as bed:
        await asyncio.to_thread(bed.serve, only(before), control_plane.ALL_GATES)
        async with rack(bed, tmp_path, RackDriver(*POOLS), collect_seconds=0.1, sweep_seconds=0.1) as node:
            for pool in POOLS:
                await node.told(pool.name, PoolState.PUBLISHED)
            kept, gone = [await node.allocated("parts", f"part-{n}", f"claim-{n}") for n in range(2)]
            assert [await node.prepare(claim) for claim in (kept, gone)] == ["", ""]
            assert await node.own.served() == before

            await asyncio.to_thread(bed.serve, only(after), control_plane.ALL_GATES)
            node.offer(*POOLS, Pool("more", (Device("new"),)))
            await node.told("more", PoolState.PUBLISHED)
            assert await node.own.served() == after
            with pytest.raises(Unavailable, match=f"/{before}/.* any more"):  # a client without watches
                await node.devices("parts")
            for pool in POOLS:
                assert set(await node.devices(pool.name)) == {device.name for device in pool.devices}
            # The collector of deleted claims has been here, and took only what is gone.
            await node.client.delete(CLAIMS, "claim-1", "default")
            await until(lambda: _left(node.prepared()))
            assert await node.prepare(kept) == ""


async def _left(prepared: set[str]) -> bool:
    return prepared == {"claim-0"}
