"""A driver's results and errors affect only their own claim: no other claim, no state, no task of the SDK."""

import asyncio
from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import pytest

from dradriver.aio.tasks import Background
from dradriver.driver import Claim, PreparedDevice
from dradriver.errors import DriverError, InvalidObjectError
from dradriver.model.cdi import ContainerEdits, DeviceNode
from dradriver.model.core.meta import Condition
from dradriver.model.quantity import Quantity
from dradriver.model.resource.claim import NetworkData
from dradriver.model.resource.counters import Counter, CounterConsumption
from dradriver.model.resource.device import Device
from dradriver.node.devices.discovery import Discovery
from dradriver.node.devices.inventory import DiscoveredDevices
from dradriver.node.devices.publishing import create_recorder
from dradriver.node.driver_calls import DriverCalls
from dradriver.node.kubelet.dra_service import ClaimService
from dradriver.node.kubelet.in_flight import CallsInFlight
from dradriver.node.reporting.claim_outcomes import ClaimOutcomes
from dradriver.node.reporting.events import WarningEvents
from dradriver.node.reporting.metrics import NodeMetrics
from tests.unit.node.world import DRIVER, NODE, LampDriver, World, allocated, ref

WRONG: dict[str, Callable[[], PreparedDevice]] = {
    "an object for a condition": lambda: PreparedDevice(conditions=cast(Any, (object(),))),
    "half a condition": lambda: PreparedDevice(conditions=cast(Any, ({"type": "Ready"},))),
    "a text for a time": lambda: PreparedDevice(
        conditions=(Condition(type="Ready", status="True", last_transition_time=cast(datetime, "now")),)
    ),
    "one address for a list": lambda: PreparedDevice(network=NetworkData(ips=cast(Any, "10.0.0.1/8"))),
    "a number for a name": lambda: PreparedDevice(network=NetworkData(interface_name=cast(str, 5))),
    "a path that is no text": lambda: PreparedDevice(
        edits=ContainerEdits(device_nodes=[DeviceNode(cast(str, Path("/dev/lamp")))])
    ),
    "a text for a device node": lambda: PreparedDevice(
        edits=ContainerEdits(device_nodes=cast(Any, ["/dev/lamp"]))
    ),
    "no edits": lambda: PreparedDevice(edits=cast(ContainerEdits, None)),
    "a number for a CDI ID": lambda: PreparedDevice(cdi_ids=cast(Any, (5,))),
    "no CDI IDs": lambda: PreparedDevice(cdi_ids=cast(Any, None)),
    "half a character in data": lambda: PreparedDevice(data={"serial": "\ud800"}),
    "half a character in the environment": lambda: PreparedDevice(edits=ContainerEdits(env={"LAMP": "\ud800"})),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
async def test_an_answer_of_wrong_types_fails_its_claim_alone(
    world: World, wrong: Callable[[], PreparedDevice]
) -> None:
    async with world.running() as process:
        good = process.driver.answer
        process.driver.answer = lambda _: wrong()
        with pytest.raises(DriverError, match=r"prepare\(\) of claim default/wrong"):
            await process.prepare(allocated("wrong", "lamp-0"))
        process.driver.answer = good
        assert await process.prepare(allocated("right", "lamp-1"))
    async with world.running() as process:
        assert [row.record.name for row in await process.rows()] == ["wrong", "right"]


async def test_a_device_of_wrong_types_fails_its_claim_alone(world: World) -> None:
    wrong = CounterConsumption(counter_set=cast(str, 5), counters={"memory": Counter(Quantity("1Gi"))})
    driver = LampDriver(world.hardware, [Device("lamp-0", consumes_counters=[wrong]), Device("lamp-1")])
    async with world.running(driver=driver) as process:
        with pytest.raises(InvalidObjectError, match="default/wrong"):
            await process.prepare(allocated("wrong", "lamp-0"))
        assert await process.prepare(allocated("right", "lamp-1"))


def raising(error: BaseException) -> Callable[[], object]:
    def method() -> object:
        raise error

    return method


@pytest.mark.parametrize(
    "error", [StopIteration(), KeyboardInterrupt(), SystemExit(3), asyncio.CancelledError(), GeneratorExit()]
)
async def test_any_exception_of_a_plain_method_is_an_error_of_the_driver(error: BaseException) -> None:
    calls = DriverCalls(LampDriver({}))
    with pytest.raises(DriverError, match=rf"method\(\) raised {type(error).__name__}"):
        await asyncio.wait_for(calls.call(raising(error)), 10)
    calls.close()


async def test_a_driver_that_cancels_its_own_work_causes_an_error() -> None:
    async def method() -> None:
        inner = asyncio.ensure_future(asyncio.Event().wait())
        inner.cancel()
        await inner

    calls = DriverCalls(LampDriver({}))
    with pytest.raises(DriverError, match=r"method\(\) raised CancelledError"):
        await calls.call(cast(Callable[[], object], method))
    calls.close()


async def test_an_async_method_is_cancelled_with_its_caller() -> None:
    begun, calls = asyncio.Event(), DriverCalls(LampDriver({}))

    async def method() -> None:
        begun.set()
        await asyncio.Event().wait()

    caller = asyncio.create_task(calls.call(cast(Callable[[], object], method)))
    await begun.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    calls.close()


def broken_iterator() -> Iterable[Device]:
    return filter(lambda device: device.attributes["x"], [Device("lamp-0")])


@pytest.mark.parametrize("waits", [False, True], ids=["plain", "async"])
async def test_a_lazy_list_of_devices_that_fails_is_read_again(
    waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Lazy(LampDriver):
        def discover(self) -> Any:
            async def later() -> Iterable[Device]:
                return broken_iterator()

            return later() if waits else broken_iterator()

    inventory, driver = DiscoveredDevices(), Lazy({})
    calls = DriverCalls(driver)
    discovery = Discovery(calls, NODE, inventory, lambda _: None, NodeMetrics(DRIVER), 0.1)
    failed = asyncio.Event()
    monkeypatch.setattr(inventory, "set_failure", lambda _: failed.set())
    background = Background()
    background.start("discover", discovery.run())
    ends = asyncio.ensure_future(background.failure()), asyncio.ensure_future(failed.wait())
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    assert not ends[0].done()
    ends[0].cancel()
    await background.stop()
    calls.close()


class Lister(LampDriver):
    listed: Any = ()

    def prepared_claims(self) -> Collection[str]:
        return cast(Collection[str], self.listed)


@pytest.mark.parametrize("listed", [[""], ["."], ["../../x"], [5, "a"], 5, "some-uid"])
async def test_an_invalid_list_of_claims_removes_nothing(world: World, listed: object) -> None:
    driver = Lister(world.hardware)
    driver.answer = lambda _: PreparedDevice(metadata={"color": "red"})
    driver.listed = listed
    async with world.running(driver=driver) as process:
        await process.prepare(world.api.add(allocated("claim", "lamp-0")))
        await process.reconciler.collect()
        assert driver.calls == ["prepare claim"]
    assert list((world.root / "metadata").glob("*/request-0.json"))


async def test_an_unknown_claim_that_cannot_be_unprepared_delays_no_other(world: World) -> None:
    class Picky(LampDriver):
        async def unprepare(self, claim: Claim) -> None:
            if claim.uid == "a":
                raise OSError("the lamp is stuck")
            await super().unprepare(claim)

    world.hardware.update(a=("lamp-0",), b=("lamp-1",))
    async with world.running(driver=Picky(world.hardware)) as process:
        await process.reconciler.collect()
    assert set(world.hardware) == {"a"}


async def test_a_file_that_cannot_be_removed_does_not_stop_the_sweep(world: World) -> None:
    async with world.running() as process:
        claim = world.api.add(allocated("claim", "lamp-0"))
        await process.prepare(claim)
        (world.root / "metadata").mkdir(exist_ok=True)
        (world.root / "metadata" / "strange").write_text("neither a folder nor ours")
        for spec in world.cdi_dir.iterdir():
            spec.unlink()
        await process.reconciler.sweep()
    assert world.specs() == {claim.metadata.uid}


async def test_an_unprepare_of_the_kubelet_is_not_answered_by_a_collection_that_leaves_the_claim(
    world: World,
) -> None:
    claim = allocated("claim", "lamp-0")
    asked, leave = asyncio.Event(), asyncio.Event()

    async def still_here() -> bool:
        asked.set()
        await leave.wait()
        return True

    async with world.running() as process:
        await process.prepare(claim)
        uid = claim.metadata.uid
        reference = (await process.rows())[0].record.ref
        collecting = asyncio.create_task(process.unprepare(reference, unless=still_here))
        await asked.wait()
        unpreparing = asyncio.create_task(process.unprepare(reference))
        await asyncio.sleep(0)
        leave.set()
        await asyncio.gather(collecting, unpreparing)
        assert uid not in world.hardware


async def test_a_very_long_error_is_cut(world: World) -> None:
    claim = world.api.add(allocated("claim", "lamp-0"))
    async with world.running() as process:
        process.driver.failure = OSError("x" * 5_000_000)
        outcomes = ClaimOutcomes(WarningEvents(create_recorder(world.api, DRIVER, NODE), NODE))
        service = ClaimService(
            world.api, process.claims, NodeMetrics(DRIVER), outcomes, 40, lambda: None, CallsInFlight()
        )
        outcome = (await service.prepare([ref(claim)]))[claim.metadata.uid]
    assert isinstance(outcome, str)
    assert len(outcome) < 10_000


async def test_a_forged_pod_claim_annotation_does_not_change_the_paths(
    world: World,
) -> None:
    driver = LampDriver(world.hardware)
    driver.answer = lambda _: PreparedDevice(metadata={"color": "red"})
    claim = allocated("claim", "lamp-0", pod_claim="../../../../etc")
    async with world.running(driver=driver) as process:
        await process.prepare(claim)
    [device] = world.spec(claim)["devices"]
    [mount] = device["containerEdits"]["mounts"]
    assert "/resourceclaims/claim/" in mount["containerPath"]
