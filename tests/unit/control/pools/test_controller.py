"""KEP-4815, Validation: a controller that checks all slices of a pool together."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from dradriver.allocator import ORDERED, PACKED, Features, Order
from dradriver.control.pools.controller import NAME, PoolController, _Key
from dradriver.control.runtime.actions import EmitEvent, NextAction
from dradriver.control.runtime.caches import Caches
from dradriver.control.runtime.executor import Executor
from dradriver.control.runtime.metrics import ControlMetrics
from dradriver.kube import SLICES, EventRecorder
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Device
from dradriver.model.resource.slices import ResourceSlice
from dradriver.testing import builders
from tests.unit.control.conftest import Lab
from tests.unit.control.events import wait_for_event

DRIVER = "cards.example.com"
KEY = _Key(DRIVER, "cards")
BROKEN = Device("card-0", consumes_counters=[CounterConsumption("missing", {"memory": 1})])


def a_slice(*devices: Device, count: int = 1, generation: int = 1, name: str = "cards-1") -> ResourceSlice:
    return builders.slice_(
        *(devices or (Device("card-1"),)),
        driver=DRIVER,
        pool="cards",
        count=count,
        generation=generation,
        name=name,
    )


@asynccontextmanager
async def controller(
    lab: Lab, report_after: float, features: Features | None = None, order: Order = ORDERED
) -> AsyncIterator[tuple[PoolController, ControlMetrics]]:
    metrics, caches = ControlMetrics(), Caches(lab.client)
    async with AsyncExitStack() as stack:
        recorder = await stack.enter_async_context(EventRecorder(lab.client, NAME))
        executor = Executor(lab.client, caches, recorder)
        features = features or Features()
        made = PoolController(caches, executor, metrics, features, order, report_after=report_after)
        await stack.enter_async_context(caches)
        await stack.enter_async_context(made)
        yield made, metrics


def broken(metrics: ControlMetrics, problem: str) -> float | None:
    return metrics.registry.get_sample_value("dradriver_broken_pools", {"problem": problem})


async def test_an_invalid_pool_reported_with_the_rule_and_again_when_it_is_usable(lab: Lab) -> None:
    async with controller(lab, 0.01) as (_, metrics):
        await lab.client.create(SLICES, a_slice(BROKEN), into=dict)
        event = await wait_for_event(lab.client, "pool cards of driver cards.example.com: invalid")
        assert (event.type, event.reason) == ("Warning", "PoolInvalid")
        assert "the pool has no counter set 'missing'" in event.message
        assert (event.involved_object.kind, event.involved_object.name) == ("ResourceSlice", "cards-1")
        assert broken(metrics, "invalid") == 1
        await lab.client.create(SLICES, a_slice(generation=2, name="cards-2"), into=dict)
        event = await wait_for_event(lab.client, "usable by claims again")
        assert (event.type, event.reason) == ("Normal", "PoolUsable")
        assert broken(metrics, "invalid") == 0


async def test_a_pool_that_was_broken_before_the_start_reported(lab: Lab) -> None:
    await lab.client.create(SLICES, a_slice(count=2), into=dict)
    async with controller(lab, 0.01) as (_, metrics):
        event = await wait_for_event(lab.client, "incomplete: 1 of 2 slices")
    assert event.reason == "PoolIncomplete"
    assert broken(metrics, "incomplete") == 1


async def test_a_pool_that_is_being_written_is_not_reported(lab: Lab) -> None:
    await lab.client.create(SLICES, a_slice(count=2), into=dict)
    async with controller(lab, 3600) as (made, _):
        step = await made.decide(KEY)
        assert (step.next, step.action) == (NextAction.WAIT, None)
        second = a_slice(Device("card-2"), count=2, name="cards-2")
        await lab.client.create(SLICES, second, into=dict)
        await until_complete(made)
        step = await made.decide(KEY)
        assert (step.next, step.action) == (NextAction.DONE, None)


async def until_complete(made: PoolController) -> None:
    while len(made._pools.slices_of(KEY)) < 2:
        await asyncio.sleep(0.01)


async def test_a_problem_reported_once(lab: Lab) -> None:
    await lab.client.create(SLICES, a_slice(BROKEN), into=dict)
    async with controller(lab, 3600) as (made, _):
        made._report_after = 0.0
        first, second = await made.decide(KEY), await made.decide(KEY)
    assert isinstance(first.action, EmitEvent)
    assert second.action is None


@pytest.mark.parametrize(("partitionable", "reported"), [(True, True), (False, False)])
async def test_a_disabled_field_does_not_break_a_pool(lab: Lab, partitionable: bool, reported: bool) -> None:
    await lab.client.create(SLICES, a_slice(BROKEN), into=dict)
    async with controller(lab, 3600, Features(partitionable_devices=partitionable)) as (made, _):
        made._report_after = 0.0
        assert ((await made.decide(KEY)).action is not None) == reported


@pytest.mark.parametrize("lab", [{"DRADeviceCompatibilityGroups": True}], indirect=True, ids=["gate on"])
@pytest.mark.parametrize(("order", "reported"), [(ORDERED, True), (PACKED, False)], ids=["ordered", "packed"])
async def test_a_pool_with_only_skipped_devices_is_not_broken(lab: Lab, order: Order, reported: bool) -> None:
    """A scheduler with the gate off skips the slices that have groups, or under `packed` the devices."""
    grouped = CounterConsumption("card", {"memory": 1}, compatibility_groups=["mig"])
    sets = [CounterSet("card", {"memory": 2})]
    counters = builders.slice_(counter_sets=sets, driver=DRIVER, pool="cards", count=2, name="cards-2")
    await lab.client.create(SLICES, counters, into=dict)
    await lab.client.create(SLICES, a_slice(Device("card-0", consumes_counters=[grouped]), count=2), into=dict)
    async with controller(lab, 3600, Features(), order) as (made, _):
        made._report_after = 0.0
        assert ((await made.decide(KEY)).action is not None) == reported


async def test_a_deleted_pool_is_forgotten(lab: Lab) -> None:
    async with controller(lab, 3600) as (made, metrics):
        made._reported[KEY] = "invalid: something"
        step = await made.decide(KEY)
        assert (step.next, step.action) == (NextAction.DONE, None)
        assert broken(metrics, "invalid") == 0
