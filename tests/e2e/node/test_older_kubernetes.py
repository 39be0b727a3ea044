"""Control planes of older minors: kube-scheduler allocates, the driver prepares, a pod sees its card."""

import asyncio
from pathlib import Path

import pytest

from tests.e2e import host
from tests.e2e.bed.cluster import start_cluster
from tests.e2e.node.site_setup import create_site


@pytest.mark.parametrize("version", ["1.34", "1.35", "1.36"])
async def test_a_pod_sees_its_card_and_leaves_nothing_behind(
    machine_as_found: None, tmp_path: Path, version: str
) -> None:
    if reason := host.missing():
        pytest.skip(reason)
    with start_cluster({}, emulated_version=version) as cluster:
        await asyncio.to_thread(cluster.node)
        async with create_site(cluster, tmp_path) as site:
            await site.start_driver()
            await site.create_claim("one")
            await site.create_pod("pod", "one", "ls /dev")
            await site.wait_for_phase("pod", "Succeeded")
            assert "card-" in await site.logs("pod")
            await site.delete_pod("pod")
            await site.wait_for_deletion("pod")
            await site.wait_for_prepared(set())
