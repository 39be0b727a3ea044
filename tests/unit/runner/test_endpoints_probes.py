"""Liveness does not wait for work in progress; readiness names what is missing."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from dradriver.errors import UsageError
from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool
from dradriver.node import Plugin
from dradriver.publish import PoolState
from dradriver.runner.endpoints import Endpoints
from tests.ports import reserve_port
from tests.unit.node.plugin_world import Node, dial, notify, prepare
from tests.unit.node.published_world import PoolDriver, config, registered, reported, until
from tests.unit.node.world import LampDriver, allocated
from tests.unit.publish.conftest import World, a_world
from tests.unit.runner.observed import Asked, served

FINE = Pool("fine", (Device("a"),))
BAD = Pool("bad", (Device("Not a label"),))


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with a_world(tmp_path) as started:
        yield started


async def wait_ready_answer(ask: Asked, status: int, text: str) -> None:
    async def is_answer() -> bool:
        code, body = await ask.get("/readyz")
        return code == status and text in body

    await until(is_answer)


async def test_readiness_names_the_registry_folder_before_the_registration(node: Node) -> None:
    async with node.running() as plugin, served(plugin) as ask:
        status, body = await ask.get("/readyz")
    assert status == 503
    assert f"no kubelet has opened a socket in {node.root / 'plugins_registry'}" in body
    assert "--registry-dir" in body


async def test_a_rejected_registration_has_the_kubelets_message(node: Node) -> None:
    async with node.running() as plugin, served(plugin) as ask:
        await notify(plugin, "the version is odd")
        assert await ask.get("/readyz") == (
            503,
            "the kubelet rejected driver lamp.example.com: the version is odd\n",
        )


async def test_a_registered_plugin_with_published_pools_is_ready(world: World, tmp_path: Path) -> None:
    async with registered(world, tmp_path, PoolDriver(FINE)) as plugin, served(plugin) as ask:
        await wait_ready_answer(ask, 200, "ok")


async def test_a_plugin_without_pools_is_ready(world: World, tmp_path: Path) -> None:
    async with registered(world, tmp_path, PoolDriver()) as plugin, served(plugin) as ask:
        await wait_ready_answer(ask, 200, "ok")


async def test_a_refused_pool_is_named(world: World, tmp_path: Path) -> None:
    async with registered(world, tmp_path, PoolDriver(FINE, BAD)) as plugin, served(plugin) as ask:
        await wait_ready_answer(ask, 503, "pool bad: refused: ")


async def test_a_later_refused_pool_does_not_end_readiness(world: World, tmp_path: Path) -> None:
    driver = PoolDriver(FINE)
    async with registered(world, tmp_path, driver) as plugin, served(plugin) as ask:
        await wait_ready_answer(ask, 200, "ok")
        driver.pools = [FINE, BAD]
        driver.rediscover()
        await reported(tmp_path, "bad", PoolState.REFUSED)
        assert (await ask.get("/readyz"))[0] == 200


async def test_a_failed_discover_is_named(world: World, tmp_path: Path) -> None:
    class Broken(PoolDriver):
        def discover(self) -> list[Pool]:
            raise OSError("no such card")

    async with registered(world, tmp_path, Broken()) as plugin, served(plugin) as ask:
        await wait_ready_answer(ask, 503, "discover() raised OSError: no such card")


async def test_a_waiting_second_instance_is_ready(world: World, tmp_path: Path) -> None:
    other = "11111111-1111-1111-1111-111111111111"
    async with registered(world, tmp_path, PoolDriver(FINE)) as first, served(first) as ask:
        await wait_ready_answer(ask, 200, "ok")
        beside = registered(world, tmp_path, PoolDriver(FINE), pod_uid=other)
        async with beside as second, served(second) as ask_second:
            await wait_ready_answer(ask_second, 200, "ok")
            assert (await ask.get("/readyz"))[0] == 200


async def test_liveness_does_not_wait_for_a_prepare(node: Node) -> None:
    claim = node.api.add(allocated("claim", "lamp-0"))
    driver = LampDriver(node.hardware)
    driver.gate = asyncio.Event()
    async with node.running(driver) as plugin, served(plugin) as ask:
        calling = asyncio.create_task(prepare(plugin, claim))
        await driver.entered.wait()
        assert await ask.get("/healthz") == (200, "ok\n")
        driver.gate.set()
        await calling


async def test_liveness_fails_without_the_socket(node: Node) -> None:
    async with node.running() as plugin, served(plugin) as ask:
        plugin.sockets.registrar.unlink()
        status, body = await ask.get("/healthz")
    assert status == 503
    assert f"{plugin.sockets.registrar} does not exist" in body


async def test_readiness_ends_before_liveness(world: World, tmp_path: Path) -> None:
    answers: list[tuple[int, str]] = []

    class Slow(PoolDriver):
        async def shutdown(self) -> None:
            answers.append(await ask.get("/readyz"))
            answers.append(await ask.get("/healthz"))

    async with registered(world, tmp_path, Slow(FINE)) as plugin, served(plugin) as ask:
        await wait_ready_answer(ask, 200, "ok")
        await plugin.stop(30)
    assert answers == [(503, "the driver is stopping\n"), (200, "ok\n")]


async def test_a_starting_plugin_is_alive_and_not_ready(tmp_path: Path, world: World) -> None:
    plugin = Plugin(PoolDriver(FINE), world.client, config(tmp_path))
    async with served(plugin) as ask:
        assert await ask.get("/healthz") == (200, "ok\n")
        assert await ask.get("/readyz") == (503, "the driver is starting\n")


@pytest.mark.parametrize("service", ["", "liveness"])
async def test_grpc_probes_are_answered(node: Node, service: str) -> None:
    async with node.running() as plugin, dial(plugin.sockets.service) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        answer = await stub.Check(health_pb2.HealthCheckRequest(service=service))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.aio.AioRpcError, match="NOT_FOUND"):
            await stub.Check(health_pb2.HealthCheckRequest(service="other"))


async def test_unknown_paths_and_methods_are_rejected(node: Node) -> None:
    async with node.running() as plugin, served(plugin) as ask:
        assert await ask.get("/") == (404, "not found; paths: /healthz, /readyz, /metrics\n")
        assert (await ask.get("/metrics", "POST"))[0] == 405
        assert await ask.get("/healthz?verbose", "HEAD") == (200, "")
        assert (await ask.raw(b"what?\r\n\r\n")).startswith(b"HTTP/1.1 404 ")
        assert (await ask.raw(b"GET /healthz")).startswith(b"HTTP/1.1 400 ")


async def test_a_silent_client_does_not_block_others(node: Node) -> None:
    async with node.running() as plugin, served(plugin) as ask:
        _, silent = await asyncio.open_connection(ask.host, ask.port)
        assert (await ask.get("/healthz"))[0] == 200
        silent.close()


async def test_an_ipv6_address_can_be_chosen(node: Node) -> None:
    try:
        reserve_port("::1")
    except OSError:
        pytest.skip("this machine has no IPv6")
    async with node.running() as plugin, served(plugin, "::1") as ask:
        assert (await ask.get("/healthz"))[0] == 200


async def test_an_unknown_host_is_an_error(node: Node) -> None:
    with pytest.raises(UsageError, match=r"--metrics-host no\.such\.host\.invalid"):
        async with Endpoints(node.plugin(), "no.such.host.invalid", reserve_port()):
            pass
