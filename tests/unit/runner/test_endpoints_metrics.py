"""Every metric, read over HTTP from a running plugin."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dradriver.kube.errors import Unavailable
from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool
from dradriver.node import Plugin
from dradriver.publish import PoolState
from dradriver.wire import dra_v1
from dradriver.wire.stubs import dra_v1_grpc
from tests.unit.node.plugin_world import Node, dial, notify, prepare, request
from tests.unit.node.published_world import PoolDriver, registered, reported
from tests.unit.node.world import DRIVER, LampDriver, allocated
from tests.unit.publish.conftest import World, a_world
from tests.unit.runner.observed import served

DOCUMENTED = set(
    re.findall(
        r"^\| `((?:dradriver|process)_\w+)",
        (Path(__file__).parents[3] / "docs/observe.md").read_text().partition("## A controller driver")[0],
        re.MULTILINE,
    )
)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with a_world(tmp_path) as started:
        yield started


async def unprepare(plugin: Plugin, claim: object) -> None:
    async with dial(plugin.sockets.service) as channel:
        await dra_v1_grpc.DRAPluginStub(channel).NodeUnprepareResources(
            dra_v1.NodeUnprepareResourcesRequest(claims=request(claim).claims)
        )


async def test_prepared_and_unprepared_claims(node: Node) -> None:
    claim = node.api.add(allocated("claim", "lamp-0", "lamp-1"))
    async with node.running() as plugin, served(plugin) as ask:
        seconds = "dradriver_node_request_duration_seconds_count"
        assert await ask.sample(seconds, driver=DRIVER, operation="prepare", result="ok") == 0
        await prepare(plugin, claim)
        assert await ask.sample(seconds, operation="prepare", result="ok") == 1
        assert await ask.sample("dradriver_node_prepared_devices", driver=DRIVER) == 2
        assert await ask.sample("dradriver_node_claims", state="prepared") == 1
        assert await ask.sample("dradriver_node_claims", state="preparing") == 0
        await unprepare(plugin, claim)
        assert await ask.sample(seconds, operation="unprepare", result="ok") == 1
        assert await ask.sample("dradriver_node_claims", state="prepared") == 0


async def test_a_claim_in_flight_and_after_the_deadline(node: Node) -> None:
    first, second = (node.api.add(allocated(f"claim-{n}", f"lamp-{n}")) for n in range(2))
    driver = LampDriver(node.hardware)
    driver.gate = asyncio.Event()
    async with node.running(driver, prepare_deadline=600) as plugin, served(plugin) as ask:
        calling = asyncio.create_task(prepare(plugin, first))
        await driver.entered.wait()
        assert await ask.sample("dradriver_node_requests_inflight", operation="prepare") == 1
        driver.gate.set()
        await calling
        assert await ask.sample("dradriver_node_requests_inflight", operation="prepare") == 0
    driver = LampDriver(node.hardware)
    driver.gate = asyncio.Event()
    async with node.running(driver, prepare_deadline=2) as plugin, served(plugin) as ask:
        await prepare(plugin, second)
        await driver.entered.wait()
        assert await ask.sample("dradriver_node_requests_inflight", operation="prepare") == 0
        assert await ask.sample("dradriver_node_claims", state="preparing") == 1
        driver.gate.set()
        seconds = "dradriver_node_request_duration_seconds_count"
        assert await ask.sample(seconds, operation="prepare", result="in_progress") == 1


async def test_errors_are_counted_by_reason(node: Node) -> None:
    driver, add = LampDriver(node.hardware), node.api.add
    async with node.running(driver) as plugin, served(plugin) as ask:
        await prepare(plugin, add(allocated("first", "lamp-0")))
        claims = {
            "device_in_use": add(allocated("second", "lamp-0")),
            "claim": allocated("gone", "lamp-1"),
            "config": add(allocated("wrong", "lamp-1", parameters=b'{"kind":"Nothing"}')),
            "driver": add(allocated("broken", "lamp-2")),
            "api_server": add(allocated("unknown", "lamp-1")),
            "internal": add(allocated("defect", "lamp-1")),
        }
        driver.failure = OSError("no")
        node.api.failures = {"unknown": Unavailable("away"), "defect": KeyError("no")}
        await prepare(plugin, *claims.values())
        for reason in claims:
            count = await ask.sample("dradriver_node_request_errors_total", operation="prepare", reason=reason)
            assert (reason, count) == (reason, 1)
        assert await ask.sample("dradriver_node_background_errors_total", source="prepare") == 1


async def test_the_registration(node: Node) -> None:
    async with node.running() as plugin, served(plugin) as ask:
        assert await ask.sample("dradriver_node_registered") == 0
        await notify(plugin)
        assert await ask.sample("dradriver_node_registered", driver=DRIVER) == 1
        await notify(plugin, "no thanks")
        assert await ask.sample("dradriver_node_registered") == 0


async def test_published_and_refused_pools(world: World, tmp_path: Path) -> None:
    pools = Pool("fine", (Device("a"), Device("b"))), Pool("bad", (Device("Not a label"),))
    async with registered(world, tmp_path, PoolDriver(*pools)) as plugin, served(plugin) as ask:
        await reported(tmp_path, "fine", PoolState.PUBLISHED)
        await reported(tmp_path, "bad", PoolState.REFUSED)
        assert await ask.sample("dradriver_node_pool_state", pool="fine", state="published") == 1
        assert await ask.sample("dradriver_node_pool_state", pool="bad", state="refused") == 1
        assert await ask.sample("dradriver_node_pool_state", pool="bad", state="published") == 0
        assert await ask.sample("dradriver_node_pool_devices", pool="fine") == 2
        assert (await ask.sample("dradriver_node_publish_results_total", state="refused") or 0) >= 1
        assert await ask.sample("dradriver_node_slice_writes_total", operation="create") == 1
        assert await ask.sample("dradriver_node_slice_writes_total", operation="delete") == 0


async def test_the_build_and_the_process(node: Node) -> None:
    async with node.running() as plugin, served(plugin) as ask:
        (build,) = (await ask.families())["dradriver_build_info"].samples
        assert set(build.labels) == {"driver", "version", "python_version"}
        assert (await ask.sample("process_resident_memory_bytes") or 0) > 1_000_000


async def test_all_metrics_are_documented(world: World, tmp_path: Path) -> None:
    driver = PoolDriver(Pool("fine", (Device("a"),)))
    async with registered(world, tmp_path, driver) as plugin, served(plugin) as ask:
        await reported(tmp_path, "fine", PoolState.PUBLISHED)
        shown = {with_unit(family.name, family.type) for family in (await ask.families()).values()}
    assert {name for name in shown if not name.endswith("_created")} == DOCUMENTED


def with_unit(name: str, kind: str) -> str:
    return f"{name}_total" if kind == "counter" and not name.endswith("_total") else name


async def test_openmetrics_is_served_on_request(node: Node) -> None:
    async with node.running() as plugin, served(plugin) as ask:
        _, body = await ask.get("/metrics", headers="Accept: application/openmetrics-text; version=1.0.0\r\n")
    assert body.endswith("# EOF\n")


def test_labels_have_few_values() -> None:
    """No claim, pod or device is a label, because their number is not limited."""
    text = (Path(__file__).parents[3] / "dradriver/node/reporting/metrics.py").read_text()
    assert not re.search(
        r'"(claim|claim_uid|pod|device|uid|namespace)"[,\]]', text.split("class NodeMetrics")[1]
    )
