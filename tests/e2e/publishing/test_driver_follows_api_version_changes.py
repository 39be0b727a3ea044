"""The server is upgraded or downgraded: the driver uses the served version, without a restart."""

import asyncio
from pathlib import Path

import pytest

from dradriver.kube import CLAIMS, Unavailable
from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool
from dradriver.publish import PoolState
from tests.e2e.bed import control_plane
from tests.e2e.bed.api_server_bed import api_server_bed, serve_only
from tests.e2e.publishing.running_plugin import POOLS, StaticDriver, run_plugin, until


@pytest.mark.parametrize(("before", "after"), [("v1beta1", "v1"), ("v1", "v1beta1")])
async def test_the_driver_follows_and_claims_stay_prepared(before: str, after: str, tmp_path: Path) -> None:
    with api_server_bed() as bed:
        await asyncio.to_thread(bed.serve, serve_only(before), control_plane.ALL_GATES)
        async with run_plugin(
            bed, tmp_path, StaticDriver(*POOLS), collect_seconds=0.1, sweep_seconds=0.1
        ) as node:
            for pool in POOLS:
                await node.wait_for_state(pool.name, PoolState.PUBLISHED)
            kept, gone = [await node.allocate_claim("parts", f"part-{n}", f"claim-{n}") for n in range(2)]
            assert [await node.prepare(claim) for claim in (kept, gone)] == ["", ""]
            assert await node.own.find_version() == before

            await asyncio.to_thread(bed.serve, serve_only(after), control_plane.ALL_GATES)
            node.offer(*POOLS, Pool("more", (Device("new"),)))
            await node.wait_for_state("more", PoolState.PUBLISHED)
            assert await node.own.find_version() == after
            with pytest.raises(Unavailable, match=f"/{before}/.* no longer serves"):  # a client without watches
                await node.devices("parts")
            for pool in POOLS:
                assert set(await node.devices(pool.name)) == {device.name for device in pool.devices}
            # Reconcile has run, and has unprepared only deleted claims.
            await node.client.delete(CLAIMS, "claim-1", "default")
            await until(lambda: _left(node.prepared()))
            assert await node.prepare(kept) == ""


async def _left(prepared: set[str]) -> bool:
    return prepared == {"claim-0"}
