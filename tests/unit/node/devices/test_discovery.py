"""SourceCalls of `discover()` and `fallback()`, and the use of their results."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

import dradriver as dra
from dradriver.driver import Driver
from dradriver.errors import DriverError
from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool
from dradriver.node.devices.discovery import Discovery
from dradriver.node.devices.inventory import DiscoveredDevices, as_pools
from dradriver.node.driver_calls import SourceCalls
from dradriver.node.reporting.metrics import NodeMetrics
from dradriver.publish.features.dropped_fields import DroppedField
from tests.unit.node.plugin_world import FakePublisher, Node
from tests.unit.node.world import NODE, LampDriver


class Counting(LampDriver):
    """Counts the calls of `discover()`."""

    rescan_seconds = None

    def __init__(self) -> None:
        super().__init__({})
        self.asked = 0
        self.broken = False

    def discover(self) -> Sequence[Pool]:
        self.asked += 1
        if self.broken:
            raise OSError("bus error")
        return super().discover()

    def fallback(self, dropped: Collection[str]) -> list[Device] | None:
        return [Device("whole")] if dropped == {"consumesCounters", "sharedCounters"} else None


async def until_asked(driver: Counting, times: int) -> None:
    while driver.asked < times:
        await asyncio.sleep(0.01)


async def test_a_burst_of_rediscover_causes_one_discover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, loop = Counting(), asyncio.get_running_loop()
    async with Node(tmp_path).running(driver, rediscover_delay=0.05):
        await until_asked(driver, 1)
        with monkeypatch.context() as clock:  # it stands still, so the burst is shorter than the delay
            now = loop.time()
            clock.setattr(loop, "time", lambda: now)
            await asyncio.gather(*(asyncio.to_thread(driver.rediscover) for _ in range(20)))
            assert driver.asked == 1
        await until_asked(driver, 2)
        driver.rediscover()
        await until_asked(driver, 3)
        assert driver.asked == 3


async def test_an_error_keeps_what_is_published(tmp_path: Path) -> None:
    driver = Counting()
    async with Node(tmp_path).running(driver, rediscover_delay=0.0) as plugin:
        assert isinstance(plugin.parts.publisher, FakePublisher)
        await plugin.parts.publisher.is_wanted.wait()
        driver.broken = True
        plugin.parts.publisher.is_wanted.clear()
        driver.rediscover()
        await until_asked(driver, 2)
        assert not plugin.parts.publisher.is_wanted.is_set()
        assert plugin.parts.publisher.wanted


async def test_a_discover_that_does_not_return_is_reported_repeatedly(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hanging(dra.PoolDriver):
        name = "hangs.example.com"

        async def discover(self) -> list[Pool]:
            await answer.wait()
            return []

    monkeypatch.setattr("dradriver.node.devices.discovery._SLOW_SECONDS", (0.01, 0.02))
    answer, published = asyncio.Event(), asyncio.Event()
    metrics, inventory = NodeMetrics("hangs.example.com"), DiscoveredDevices()
    discovery = Discovery(
        calls := SourceCalls(Hanging()), None, inventory, lambda _: published.set(), metrics, delay=0.0
    )
    running = asyncio.create_task(discovery.run())

    def count() -> float:
        labels = {"driver": "hangs.example.com", "source": "discover_slow"}
        return metrics.registry.get_sample_value("dradriver_node_background_errors_total", labels) or 0.0

    while count() < 3:
        await asyncio.sleep(0.01)
    assert "discover() has not returned for" in inventory.failure
    answer.set()
    await published.wait()
    assert not inventory.failure
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert discovery._slow_timer is None
    calls.close()


async def test_the_fallback_gets_json_names_and_its_devices_get_the_nodes_pool(tmp_path: Path) -> None:
    dropped = frozenset({DroppedField("devices[].consumesCounters", "G"), DroppedField("sharedCounters", "G")})
    async with Node(tmp_path).running(Counting()) as plugin:
        assert isinstance(plugin.parts.publisher, FakePublisher)
        pools = await plugin.parts.publisher.on_dropped("node-1", dropped)
        assert pools is not None
        assert [(pool.name, [device.name for device in pool.devices]) for pool in pools] == [
            ("node-1", ["whole"])
        ]
        assert await plugin.parts.publisher.on_dropped("node-1", frozenset()) is None


def test_devices_become_the_pool_of_the_node() -> None:
    (pool,) = as_pools((Device(name) for name in ("a", "b")), "node-1", "discover()")
    assert (pool.name, [device.name for device in pool.devices]) == ("node-1", ["a", "b"])


def test_no_devices_are_an_empty_pool() -> None:
    (pool,) = as_pools([], "node-1", "discover()")
    assert (pool.name, pool.devices) == ("node-1", ())


def test_a_pool_without_a_name_is_the_nodes() -> None:
    assert [pool.name for pool in as_pools([Pool(), Pool("shared", all_nodes=True)], "node-1", "x")] == [
        "node-1",
        "shared",
    ]


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, "must be a list of devices or pools"),
        (["gpu-0"], r"returned 'gpu-0' \(str\) at index 0"),
        ({"gpu-0": 1}, "must be a list of devices or pools"),
        ([Device("a"), Pool("p")], "both pools and devices"),
    ],
)
def test_any_other_result_is_an_error_of_the_driver(returned: object, message: str) -> None:
    with pytest.raises(DriverError, match=message):
        as_pools(returned, "node-1", "driver x: discover()")  # type: ignore[arg-type]


def test_a_driver_has_no_fallback_by_default() -> None:
    assert Driver.fallback(Counting(), {"consumesCounters"}) is None


WRONG: dict[str, Callable[[], object]] = {
    "a text for a device": lambda: [Pool(NODE, devices=cast(Any, ["lamp-0"]))],
    "a number for a name": lambda: [Device(cast(str, 5))],
    "a list for a name": lambda: [Device(cast(str, ["lamp-0"]))],
    "a number for a pool's name": lambda: [Pool(cast(str, 5))],
    "a text for a counter set": lambda: [Pool(NODE, counter_sets=cast(Any, ["memory"]))],
    "a text for what is consumed": lambda: [Device("lamp-0", consumes_counters=cast(Any, ["memory"]))],
    "half a character": lambda: [Device("lamp-\ud800")],
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
def test_devices_of_wrong_types_are_an_error_of_the_driver(wrong: Callable[[], object]) -> None:
    with pytest.raises(DriverError, match=r"^discover\(\) returned "):
        as_pools(cast(Iterable[object], wrong()), NODE, "discover()")


def test_valid_pools_stay_unchanged() -> None:
    pool = Pool("lamps", devices=(Device("lamp-0", {"color": "red"}, capacity={"light": "800"}),))
    assert as_pools([pool], NODE, "discover()") == [pool]
