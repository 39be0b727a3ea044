"""A slow demonstration also shows what is already over."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from dradriver.cli.demonstration.failure import wait_for_taints
from dradriver.cli.demonstration.waiting import wait_for_object
from dradriver.cluster.apiserver import ApiServer, Fault
from dradriver.kube import SLICES, Client
from dradriver.model.resource.claim import DeviceResult
from dradriver.model.resource.device import Taint
from dradriver.model.resource.slices import ResourceSlice
from dradriver.testing import builders


@dataclass
class Pool:
    """A pool of one slice, whose device is tainted in generation 2 only."""

    client: Client
    server: ApiServer

    async def write(self, generation: int) -> str:
        """Write a generation, and return its resource version."""
        taints = [Taint(key="example.com/broken", effect="NoExecute")] if generation == 2 else []
        slice_ = builders.slice_(replace(builders.device(), taints=taints), generation=generation)
        if generation == 1:
            return (await self.client.create(SLICES, slice_, into=ResourceSlice)).metadata.resource_version
        return (await self.client.replace(SLICES, slice_, into=ResourceSlice)).metadata.resource_version

    async def until_generation(self, generation: int, *, after: str = "") -> ResourceSlice:
        return await wait_for_object(
            self.client,
            SLICES,
            ResourceSlice,
            lambda each: each.spec.pool.generation == generation,
            after=after,
        )


@pytest.fixture
async def pool(tmp_path: Path) -> AsyncIterator[Pool]:
    server = ApiServer(tmp_path / "server")
    await server.start()
    await asyncio.to_thread(server.write_kubeconfig, tmp_path / "kubeconfig")
    async with await Client.connect(str(tmp_path / "kubeconfig")) as client:
        yield Pool(client, server)
    await server.stop()


async def test_a_state_that_is_over_is_found_after_a_resource_version(pool: Pool) -> None:
    versions = [await pool.write(generation) for generation in (1, 2, 3)]
    found = await pool.until_generation(2, after=versions[0])
    assert found.metadata.resource_version == versions[1]


@pytest.mark.parametrize("fault", [Fault("watch", code=503), Fault("watch", drop=True)], ids=["503", "cut"])
async def test_a_watch_that_fails_begins_again_at_the_same_version(pool: Pool, fault: Fault) -> None:
    versions = [await pool.write(generation) for generation in (1, 2, 3)]
    pool.server.faults.add(fault)
    found = await pool.until_generation(2, after=versions[0])
    assert found.metadata.resource_version == versions[1]
    assert fault.count == 0


async def test_the_present_objects_are_considered_if_the_changes_are_gone(pool: Pool) -> None:
    versions = [await pool.write(generation) for generation in (1, 2, 3)]
    pool.server.faults.add(Fault("watch", code=410))
    found = await pool.until_generation(3, after=versions[2])
    assert found.metadata.resource_version == versions[2]


async def test_the_taints_of_a_device_are_found_after_they_were_removed(pool: Pool) -> None:
    first, *_ = [await pool.write(generation) for generation in (1, 2, 3)]
    result = DeviceResult(request="gpu", driver=builders.DRIVER, pool=builders.NODE, device="device-0")
    assert await wait_for_taints(pool.client, builders.DRIVER, result, after=first) == ["example.com/broken"]
