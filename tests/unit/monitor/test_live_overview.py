"""A live overview follows an API server, and reports what it cannot read."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from dradriver.cluster.apiserver import ApiServer
from dradriver.kube import CLAIMS, NODES, SLICES, Client, Forbidden
from dradriver.model.resource.device import Device
from dradriver.monitor import LiveOverview
from dradriver.testing import builders
from tests.unit.kube.scripted import Answer, ScriptedServer, kubeconfig, serve, status


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    running = ApiServer(tmp_path / "api")
    await running.start()
    yield running
    await running.stop()


@pytest.fixture
async def client(server: ApiServer, tmp_path: Path) -> AsyncIterator[Client]:
    await asyncio.to_thread(server.write_kubeconfig, tmp_path / "kubeconfig")
    async with await Client.connect(str(tmp_path / "kubeconfig")) as connected:
        await connected.create(NODES, builders.node("node-1"), into=dict)
        await connected.create(SLICES, builders.slice_(builders.device("a")), into=dict)
        yield connected


async def test_the_overview_is_complete_when_it_is_entered(client: Client) -> None:
    async with LiveOverview(client) as live:
        assert list(live.tracker.overview.nodes) == ["node-1"]
        assert (live.problem, live.missing, live.tracker.overview.changes) == (None, {}, ())


async def test_updates_report_changes_of_the_cluster(client: Client) -> None:
    async with LiveOverview(client) as live, aclosing(live.updates()) as updates:
        creating = asyncio.ensure_future(
            client.create(CLAIMS, builders.claim(name="lonely"), "default", into=dict)
        )
        async for update in updates:
            if update.waiting:
                break
        await creating
        assert [each.ref for each in live.tracker.overview.waiting] == ["default/lonely"]


async def test_each_reader_gets_all_changes_since_it_called_updates(client: Client) -> None:
    async with (
        LiveOverview(client) as live,
        aclosing(live.updates()) as late,
        aclosing(live.updates()) as early,
    ):
        await client.create(CLAIMS, builders.claim(name="lonely"), "default", into=dict)
        async for update in early:
            if update.waiting:
                break
        assert (await anext(late)).waiting


async def test_a_reader_that_never_starts_is_forgotten(client: Client) -> None:
    async with LiveOverview(client) as live:
        updates = live.updates()
        assert len(live._subscribers) == 1
        await updates.aclose()
        del updates
        assert len(live._subscribers) == 0


async def test_slices_of_equal_nodes_share_their_parts(client: Client) -> None:
    device = Device("a", {"model": "x"}, {"memory": "1Gi"})
    for name in ("node-2", "node-3"):
        await client.create(SLICES, builders.slice_(device, node_name=name, name=name), into=dict)
    async with LiveOverview(client) as live:
        first, second = (live.slices.items[name].spec.devices[0] for name in ("node-2", "node-3"))
        assert first.capacity is second.capacity


@pytest.mark.usefixtures("tasks_left")
async def test_a_cancelled_start_leaves_no_task_behind(client: Client) -> None:
    before = asyncio.all_tasks()
    entering = asyncio.ensure_future(LiveOverview(client).__aenter__())
    while len(asyncio.all_tasks() - before) < 2:  # the start itself, and the first cache
        await asyncio.sleep(0)
    entering.cancel()
    await asyncio.wait({entering})


async def test_an_update_reports_that_the_api_server_is_gone(server: ApiServer, client: Client) -> None:
    async with LiveOverview(client) as live, aclosing(live.updates()) as updates:
        stopping = asyncio.ensure_future(server.stop())
        async for _ in updates:
            if live.problem is not None:
                break
        await stopping
        assert list(live.tracker.overview.nodes) == ["node-1"]


async def test_updates_end_with_the_overview(client: Client) -> None:
    async with LiveOverview(client) as live:
        updates = live.updates()
        waiting = asyncio.ensure_future(anext(updates, None))
        await asyncio.sleep(0)
    assert await waiting is None


def listing() -> Answer:
    return Answer(body={"metadata": {"resourceVersion": "1"}, "items": []})


def script(server: ScriptedServer, **answers: Answer) -> None:
    """Answer lists and watches of each resource. The server knows no DeviceTaintRules."""
    server.serves("v1")
    server.on("GET", "/apis/resource.k8s.io/v1", Answer(body={"kind": "APIResourceList", "resources": []}))
    for plural, answer in answers.items():
        group = "/api/v1" if plural in {"pods", "nodes"} else "/apis/resource.k8s.io/v1"
        server.on("GET", f"{group}/{plural}", answer)


async def test_a_user_without_rights_to_pods_and_nodes_sees_devices(tmp_path: Path) -> None:
    forbidden = status(403, "Forbidden", "not for you")
    async with serve() as server:
        script(server, resourceslices=listing(), resourceclaims=listing(), pods=forbidden, nodes=forbidden)
        async with (
            await Client.connect(kubeconfig(tmp_path, server.url)) as connected,
            LiveOverview(connected) as live,
        ):
            assert sorted(live.missing) == ["nodes", "pods"]
            assert "not for you" in live.missing["pods"]


async def test_without_the_right_to_list_slices_the_reason_is_raised(tmp_path: Path) -> None:
    async with serve() as server:
        script(server, resourceslices=status(403, "Forbidden", "not for you"), resourceclaims=listing())
        async with await Client.connect(kubeconfig(tmp_path, server.url)) as connected:
            with pytest.raises(Forbidden, match="not for you"):
                async with LiveOverview(connected):
                    pass
