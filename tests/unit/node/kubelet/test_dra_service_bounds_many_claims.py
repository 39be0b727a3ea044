"""A call with more claims than a pod ever has: bounded lookups, a bounded call, no claim left behind."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from dradriver.kube.resources import Resource
from dradriver.model.resource.device import Device
from dradriver.wire import dra_v1
from dradriver.wire.stubs import dra_v1_grpc
from tests.unit.node.plugin_world import Node, dial
from tests.unit.node.world import FakeApi, LampDriver, World, allocated


class CountingApi(FakeApi):
    """Counts the concurrent lookups."""

    def __init__(self) -> None:
        super().__init__()
        self.running = self.most = self.lookups = 0

    async def get(self, resource: Resource, name: str, namespace: str = "", *, into: Any) -> Any:
        self.running += 1
        self.lookups += 1
        self.most = max(self.most, self.running)
        try:
            for _ in range(10):
                await asyncio.sleep(0)
            return await super().get(resource, name, namespace, into=into)
        finally:
            self.running -= 1


@pytest.fixture
def api() -> CountingApi:
    return CountingApi()


@pytest.fixture
async def service(node: Node) -> AsyncIterator[dra_v1_grpc.DRAPluginStub]:
    async with node.running() as plugin, dial(plugin.sockets.service) as channel:
        await plugin.parts.claims.state_complete.wait()
        yield dra_v1_grpc.DRAPluginStub(channel)


@pytest.fixture
def node(tmp_path: Path, api: CountingApi) -> Node:
    return Node(tmp_path, api=api)


def unknown(count: int) -> list[dra_v1.Claim]:
    return [dra_v1.Claim(namespace="default", name=f"claim-{n}", uid=f"uid-{n}") for n in range(count)]


def to_prepare(claims: list[dra_v1.Claim]) -> dra_v1.NodePrepareResourcesRequest:
    return dra_v1.NodePrepareResourcesRequest(claims=claims)


def to_unprepare(claims: list[dra_v1.Claim]) -> dra_v1.NodeUnprepareResourcesRequest:
    return dra_v1.NodeUnprepareResourcesRequest(claims=claims)


async def test_at_most_32_claims_are_looked_up_at_once(
    service: dra_v1_grpc.DRAPluginStub, api: CountingApi
) -> None:
    calls = [service.NodePrepareResources(to_prepare(unknown(200))) for _ in range(3)]
    for answer in await asyncio.gather(*calls):
        assert len(answer.claims) == 200
        assert all("does not exist" in claim.error for claim in answer.claims.values())
    assert api.most == 32


async def test_a_call_to_prepare_more_than_512_claims_is_rejected(
    service: dra_v1_grpc.DRAPluginStub, api: CountingApi
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await service.NodePrepareResources(to_prepare(unknown(20_000)))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert caught.value.details() == "claims: must have at most 512 items, has 20000"
    assert api.lookups == 0
    assert len((await service.NodePrepareResources(to_prepare(unknown(512)))).claims) == 512


async def test_more_claims_are_unprepared_than_can_be_prepared(service: dra_v1_grpc.DRAPluginStub) -> None:
    """A pod whose prepare was rejected is unprepared too, and must end."""
    answer = await service.NodeUnprepareResources(to_unprepare(unknown(1100)))
    assert len(answer.claims) == 1100
    assert not any(claim.error for claim in answer.claims.values())


async def test_a_duplicate_among_many_claims_is_found_quickly(
    service: dra_v1_grpc.DRAPluginStub,
) -> None:
    claims = unknown(20_000)
    with pytest.raises(grpc.aio.AioRpcError, match="UID uid-19999 occurs twice"):
        await service.NodeUnprepareResources(to_unprepare([*claims, claims[-1]]))


async def test_a_collection_looks_up_at_most_32_claims_at_once(tmp_path: Path, api: CountingApi) -> None:
    world = World(tmp_path, api=api)
    driver = LampDriver(world.hardware, [Device(f"lamp-{n}") for n in range(50)])
    async with world.running(driver=driver) as process:
        claims = [api.add(allocated(f"claim-{n}", f"lamp-{n}")) for n in range(50)]
        await asyncio.gather(*map(process.prepare, claims))
        await process.reconciler.collect()
        assert len(await process.rows()) == api.lookups == 50
    assert api.most == 32
