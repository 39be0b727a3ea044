"""The state of a pool is in the log, the metrics, the status file and the events of the Node."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool
from dradriver.node import Plugin
from dradriver.node.reporting.pool_file import read_pools
from dradriver.publish import PoolState
from tests.unit.node.published_world import PoolDriver, allocate, events, registered, reported, sample, until
from tests.unit.publish.conftest import DRIVER, World, a_world

SET = CounterSet("gpu", {"memory": 4})


def part(name: str, memory: int, *groups: str) -> Device:
    return Device(name, consumes_counters=[CounterConsumption("gpu", {"memory": memory}, list(groups))])


FINE = Pool("fine", (Device("plain"),))
BAD = Pool("bad", (Device("Not a label"),))
GROUPED = Pool("gpus", (part("mig", 1, "mig"), Device("whole")), (SET,))
OLD = Pool("gpus", (part("a", 1), part("b", 1)), (SET,))
NEW = Pool("gpus", (part("a", 2), part("b", 2)), (SET,))


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with a_world(tmp_path) as made:
        yield made


@pytest.mark.parametrize("tries", [1, 3])
async def test_an_invalid_name_in_one_pool_is_reported(
    tries: int, world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    driver = PoolDriver(FINE, BAD)
    async with registered(world, tmp_path, driver) as plugin:
        bad = await reported(tmp_path, "bad", PoolState.REFUSED)
        fine = await reported(tmp_path, "fine", PoolState.PUBLISHED)
        for done in range(1, tries):
            driver.rediscover()
            await refused(plugin, done + 1)
        (event,) = await events(world, "PoolRefused")
        assert sample(plugin, "pool_state", pool="bad", state="refused") == 1
        assert sample(plugin, "pool_state", pool="bad", state="published") == 0
        assert sample(plugin, "slice_writes_total", operation="create") == 1
        assert sample(plugin, "slice_writes_total", operation="update") == 0
    assert "Not a label" in bad.status.message
    assert (fine.status.devices, fine.status.slices, fine.status.generation) == (1, 1, 1)
    assert bad.status.message in event["message"]
    assert event["count"] == 1
    assert caplog.text.count("pool bad: refused") == 1


async def refused(plugin: Plugin, times: int) -> None:
    async def tried() -> bool:
        return (sample(plugin, "publish_results_total", state="refused") or 0) >= times

    await until(tried)


async def test_a_pool_that_is_removed_leaves_no_series_and_no_entry(world: World, tmp_path: Path) -> None:
    driver = PoolDriver(FINE, Pool("other", (Device("x"),)))
    async with registered(world, tmp_path, driver) as plugin:
        await reported(tmp_path, "fine", PoolState.PUBLISHED)
        await reported(tmp_path, "other", PoolState.PUBLISHED)
        driver.pools = [FINE]
        driver.rediscover()

        async def gone() -> bool:
            return [known.status.pool for known in read_pools(tmp_path / "p" / DRIVER)] == ["fine"]

        await until(gone)
        assert sample(plugin, "pool_state", pool="other", state="published") is None
        assert sample(plugin, "pool_state", pool="fine", state="published") == 1
        assert sample(plugin, "slice_writes_total", operation="delete") == 1


async def test_groups_that_the_api_server_drops_are_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        a_world(tmp_path, DRADeviceCompatibilityGroups=False) as world,
        registered(world, tmp_path, PoolDriver(GROUPED)) as plugin,
    ):
        known = await reported(tmp_path, "gpus", PoolState.UNSAFE_WITHDRAWN)
        (event,) = await events(world, "PoolWithdrawn")
        assert sample(plugin, "pool_state", pool="gpus", state="unsafe_withdrawn") == 1
    assert {field.gate for field in known.status.dropped} == {"DRADeviceCompatibilityGroups"}
    assert "DRADeviceCompatibilityGroups" in event["message"]
    assert "pool gpus: unsafe withdrawn" in caplog.text
    assert "DRADeviceCompatibilityGroups" in caplog.text


async def test_a_pool_that_waits_for_a_claim_is_reported(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    driver = PoolDriver(OLD)
    async with registered(world, tmp_path, driver) as plugin:
        await reported(tmp_path, "gpus", PoolState.PUBLISHED)
        await allocate(world.client, "a")
        driver.pools = [NEW]
        driver.rediscover()
        known = await reported(tmp_path, "gpus", PoolState.HELD)
        (event,) = await events(world, "PoolHeld")
        assert sample(plugin, "pool_state", pool="gpus", state="held") == 1
    assert known.status.held_by == ("default/mine",)
    assert "default/mine" in event["message"]
    assert "held by default/mine" in caplog.text
