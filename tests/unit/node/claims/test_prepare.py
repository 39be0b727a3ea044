"""Prepare and unprepare, without errors and with errors of the driver."""

import asyncio
import threading

import pytest

from dradriver.driver import AllocatedDevice, Claim, PreparedDevice
from dradriver.errors import DriverError, InvalidObjectError
from dradriver.model.cdi import ContainerEdits, DeviceNode
from dradriver.model.resource.claim import DeviceResult
from dradriver.node.errors import ClaimError, DeviceInUseError, InProgressError
from dradriver.node.state.claim_states import ClaimState
from tests.unit.node.world import DRIVER, NODE, Answers, LampConfig, LampDriver, World, allocated, ref


async def test_prepare_answers_with_cdi_ids_that_the_spec_defines(world: World) -> None:
    claim = allocated("claim", "lamp-0", "lamp-1")
    async with world.running() as process:
        answers = await process.prepare(claim)
    assert [(a.requests, a.pool, a.device) for a in answers] == [
        (("request-0",), NODE, "lamp-0"),
        (("request-1",), NODE, "lamp-1"),
    ]
    spec = world.spec(claim)
    defined = {f"{spec['kind']}={device['name']}" for device in spec["devices"]}
    assert {cdi_id for answer in answers for cdi_id in answer.cdi_ids} == defined


async def test_prepare_again_answers_the_same_without_the_driver(world: World) -> None:
    claim = allocated("claim", "lamp-0")
    async with world.running() as process:
        first = await process.prepare(claim)
        assert await process.prepare(claim) == first
        assert process.driver.calls == ["prepare claim"]


async def test_prepare_answers_the_same_after_a_restart(world: World) -> None:
    claim = allocated("claim", "lamp-0")
    async with world.running() as process:
        first = await process.prepare(claim)
    async with world.running() as process:
        assert await process.prepare(claim) == first
        assert process.driver.calls == []


async def test_unprepare_leaves_nothing(world: World) -> None:
    claim = allocated("claim", "lamp-0")
    async with world.running() as process:
        await process.prepare(claim)
        await process.unprepare(ref(claim))
        assert await process.rows() == []
    assert (world.hardware, world.specs()) == ({}, set())


async def test_unprepare_of_an_unknown_claim_still_calls_the_driver(world: World) -> None:
    claim = allocated("claim", "lamp-0")
    world.hardware[claim.metadata.uid] = ("lamp-0",)
    async with world.running() as process:
        await process.unprepare(ref(claim))
    assert world.hardware == {}


async def test_a_claim_without_devices_of_this_driver_has_no_devices_in_the_answer(world: World) -> None:
    other = DeviceResult(request="r", driver="other.example.com", pool="p", device="d")
    async with world.running() as process:
        assert await process.prepare(allocated("claim", other)) == []
        assert process.driver.calls == []
        assert await process.rows() == []


async def test_devices_of_other_drivers_are_omitted(world: World) -> None:
    other = DeviceResult(request="r", driver="other.example.com", pool="p", device="d")
    async with world.running() as process:
        answers = await process.prepare(allocated("claim", other, "lamp-2"))
    assert [answer.device for answer in answers] == ["lamp-2"]


async def test_a_device_without_edits_gets_no_cdi_device(world: World) -> None:
    driver = LampDriver(world.hardware)
    driver.answer = lambda device: PreparedDevice(cdi_ids=("vendor.example.com/card=0",))
    claim = allocated("claim", "lamp-0")
    async with world.running(driver=driver) as process:
        answers = await process.prepare(claim)
    assert answers[0].cdi_ids == ("vendor.example.com/card=0",)
    assert world.specs() == set()


async def test_a_subrequest_is_answered_under_its_request(world: World) -> None:
    result = DeviceResult(request="lamp/large", driver=DRIVER, pool=NODE, device="lamp-0")
    async with world.running() as process:
        answers = await process.prepare(allocated("claim", result))
    assert answers[0].requests == ("lamp",)


async def test_a_device_twice_in_a_claim_with_admin_access_makes_two_cdi_devices(world: World) -> None:
    twice = [
        DeviceResult(request=f"r{n}", driver=DRIVER, pool=NODE, device="lamp-0", admin_access=True)
        for n in range(2)
    ]
    claim = allocated("claim", *twice)
    async with world.running() as process:
        answers = await process.prepare(claim)
    assert len({cdi_id for answer in answers for cdi_id in answer.cdi_ids}) == 2


async def test_the_driver_gets_its_typed_configuration(world: World) -> None:
    seen: list[str] = []

    def answer(device: AllocatedDevice) -> ContainerEdits:
        config = device.config(LampConfig)
        seen.append(config.color if config else "none")
        return ContainerEdits()

    driver = LampDriver(world.hardware)
    driver.answer = answer
    parameters = b'{"apiVersion":"lamp.example.com/v1","kind":"LampConfig","color":"red"}'
    async with world.running(driver=driver) as process:
        await process.prepare(allocated("claim", "lamp-0", parameters=parameters))
    assert seen == ["red"]


async def test_an_unknown_field_in_the_configuration_is_an_error_that_leaves_no_record(world: World) -> None:
    parameters = b'{"apiVersion":"lamp.example.com/v1","kind":"LampConfig","colour":"red"}'
    async with world.running() as process:
        with pytest.raises(InvalidObjectError, match="colour"):
            await process.prepare(allocated("claim", "lamp-0", parameters=parameters))
        assert await process.rows() == []


async def test_the_driver_must_answer_for_every_device(world: World) -> None:
    class Forgetful(LampDriver):
        async def prepare(self, claim: Claim) -> Answers:
            return dict([*(await super().prepare(claim)).items()][:1])

    async with world.running(driver=Forgetful(world.hardware)) as process:
        with pytest.raises(DriverError, match="returned no answer for device node-1/lamp-1"):
            await process.prepare(allocated("claim", "lamp-0", "lamp-1"))


async def test_edits_that_break_cdi_are_the_drivers_error(world: World) -> None:
    driver = LampDriver(world.hardware)
    driver.answer = lambda device: ContainerEdits(device_nodes=[DeviceNode("dev/relative")])
    async with world.running(driver=driver) as process:
        with pytest.raises(DriverError, match=r"deviceNodes\[0\].path"):
            await process.prepare(allocated("claim", "lamp-0"))
    assert world.specs() == set()


async def test_an_invalid_cdi_id_is_an_error_of_the_driver(world: World) -> None:
    driver = LampDriver(world.hardware)
    driver.answer = lambda device: PreparedDevice(cdi_ids=("gpu0",))
    async with world.running(driver=driver) as process:
        with pytest.raises(DriverError, match="'gpu0': must be a CDI ID"):
            await process.prepare(allocated("claim", "lamp-0"))


async def test_after_an_error_of_the_driver_the_next_prepare_continues(
    world: World,
) -> None:
    claim = allocated("claim", "lamp-0")
    async with world.running() as process:
        process.driver.failure = ValueError("bulb is broken")
        with pytest.raises(DriverError, match=r"prepare\(\) of claim \S+ .*raised ValueError: bulb is broken"):
            await process.prepare(claim)
        assert [row.state for row in await process.rows()] == [ClaimState.PREPARING]
        process.driver.failure = None
        await process.prepare(claim)
        assert [row.state for row in await process.rows()] == [ClaimState.PREPARED]


async def test_a_plain_method_runs_in_a_thread_and_may_block(world: World) -> None:
    class Blocking(LampDriver):
        def prepare(self, claim: Claim) -> Answers:  # type: ignore[override]
            with pytest.raises(RuntimeError):
                asyncio.get_running_loop()
            return {device: ContainerEdits() for device in claim.devices}

    async with world.running(driver=Blocking(world.hardware)) as process:
        assert await process.prepare(allocated("claim", "lamp-0"))


async def test_a_claim_for_another_node_is_rejected(world: World) -> None:
    async with world.running() as process:
        with pytest.raises(ClaimError, match="not allocated for node node-1"):
            await process.prepare(allocated("claim", "lamp-0", node="node-2"))


async def test_a_device_of_another_prepared_claim_is_rejected_and_both_claims_are_named(world: World) -> None:
    first, second = allocated("first", "lamp-0"), allocated("second", "lamp-0")
    async with world.running() as process:
        await process.prepare(first)
        with pytest.raises(DeviceInUseError, match=f"{first.ref}.*{second.ref}"):
            await process.prepare(second)
        assert [row.record.name for row in await process.rows()] == ["first"]
        await process.unprepare(ref(first))
        await process.prepare(second)


async def test_one_of_two_concurrent_claims_for_a_device_is_prepared(world: World) -> None:
    claims = [allocated(f"claim-{n}", "lamp-0") for n in range(8)]
    async with world.running() as process:
        outcomes = await asyncio.gather(*map(process.prepare, claims), return_exceptions=True)
    assert sum(isinstance(outcome, list) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, DeviceInUseError) for outcome in outcomes) == 7
    assert len(world.hardware) == 1


async def test_a_claim_that_was_allocated_again_releases_its_old_device_first(world: World) -> None:
    old = allocated("claim", "lamp-0")
    new = allocated("claim", "lamp-1", uid=old.metadata.uid)
    async with world.running() as process:
        await process.prepare(old)
        await process.prepare(new)
        assert process.driver.calls == ["prepare claim", "unprepare claim", "prepare claim"]
    assert world.hardware == {old.metadata.uid: ("lamp-1",)}


async def test_work_continues_after_the_deadline_and_the_next_call_gets_its_result(
    world: World,
) -> None:
    claim = allocated("claim", "lamp-0")
    async with world.running(deadline=0.05) as process:
        process.driver.gate = asyncio.Event()
        with pytest.raises(InProgressError, match="still in progress"):
            await process.prepare(claim)
        await process.driver.entered.wait()
        with pytest.raises(InProgressError, match=r"still in progress \(driver.prepare of device lamp-0 since"):
            await process.prepare(claim)
        process.driver.gate.set()
        assert await process.prepare(claim, 30)
        assert process.driver.calls == ["prepare claim"]


async def test_the_next_caller_gets_a_failure_that_no_caller_waited_for(world: World) -> None:
    claim = allocated("claim", "lamp-0")
    async with world.running(deadline=0.05) as process:
        process.driver.gate, process.driver.failure = asyncio.Event(), ValueError("bulb is broken")
        with pytest.raises(InProgressError):
            await process.prepare(claim)
        process.driver.gate.set()
        with pytest.raises(DriverError, match="bulb is broken"):
            await process.prepare(claim, 30)
        process.driver.failure = None
        assert await process.prepare(claim, 30)
        assert process.driver.calls == ["prepare claim", "prepare claim"]


async def test_an_unprepare_waits_for_the_prepare_before_it(world: World) -> None:
    claim = allocated("claim", "lamp-0")
    async with world.running() as process:
        process.driver.gate = asyncio.Event()
        preparing = asyncio.create_task(process.prepare(claim))
        unpreparing = asyncio.create_task(process.unprepare(ref(claim)))
        await asyncio.sleep(0)
        process.driver.gate.set()
        await asyncio.gather(preparing, unpreparing)
        assert process.driver.calls == ["prepare claim", "unprepare claim"]
    assert world.hardware == {}


async def test_a_slow_claim_does_not_delay_another(world: World) -> None:
    class OneSlow(LampDriver):
        async def prepare(self, claim: Claim) -> Answers:
            if claim.name == "slow":
                await asyncio.Event().wait()
            return await super().prepare(claim)

    async with world.running(driver=OneSlow(world.hardware)) as process:
        slow = asyncio.create_task(process.prepare(allocated("slow", "lamp-0")))
        await process.prepare(allocated("quick", "lamp-1"))
        slow.cancel()
        await asyncio.gather(slow, return_exceptions=True)


async def test_a_plain_method_that_cannot_be_stopped_keeps_its_claim_locked(world: World) -> None:
    """Another process must not call `prepare` for the claim while the first one's thread is still in it."""
    release = threading.Event()

    class Stuck(LampDriver):
        def prepare(self, claim: Claim) -> Answers:  # type: ignore[override]
            self.calls.append("entered")
            release.wait(30)
            return {device: ContainerEdits() for device in claim.devices}

    claim = allocated("claim", "lamp-0")
    stuck = Stuck(world.hardware)
    process = await world.start(driver=stuck)
    preparing = asyncio.create_task(process.prepare(claim))
    while not stuck.calls:
        await asyncio.sleep(0.01)
    await process.die()
    with pytest.raises(InProgressError, match="interrupted"):
        await preparing
    async with world.running() as successor:
        with pytest.raises(InProgressError, match="waiting for the claim's lock"):
            await successor.prepare(claim, 0.05)
        assert successor.driver.calls == []
    release.set()
