"""A pod sees its card on control planes of older minors: kube-scheduler allocates, the driver prepares."""

import asyncio
from pathlib import Path

import pytest

from tests.e2e import host
from tests.e2e.cluster import start_cluster
from tests.e2e.sdk.arrangement import site_on


@pytest.mark.parametrize("version", ["1.34", "1.35", "1.36"])
async def test_a_pod_sees_its_card_and_leaves_nothing(
    machine_as_found: None, tmp_path: Path, version: str
) -> None:
    if reason := host.missing():
        pytest.skip(reason)
    with start_cluster({}, emulated_version=version) as cluster:
        await asyncio.to_thread(cluster.node)
        async with site_on(cluster, tmp_path) as site:
            await site.start_driver()
            await site.claim("one")
            await site.pod("pod", "one", "ls /dev")
            await site.phase("pod", "Succeeded")
            assert "card-" in await site.logs("pod")
            await site.delete_pod("pod")
            await site.gone("pod")
            await site.all_views_are(set())
