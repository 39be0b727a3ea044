"""The durations of the scheduler's metrics, on a clock that only the tests move."""

import asyncio

import pytest
from prometheus_client.exposition import generate_latest

from dradriver.allocator import Features
from dradriver.cluster.apiserver import Fault
from dradriver.control.controllers import Controllers
from dradriver.control.queueing.attempts import Attempts
from dradriver.control.runtime.actions import Action, Allocate, Bind
from dradriver.control.runtime.executor import Executor
from dradriver.control.scheduler import pipeline
from dradriver.control.scheduler.node_choice.choice import choose_node
from dradriver.control.scheduler.snapshot import Cycle
from dradriver.control.settings import SchedulerSettings
from dradriver.kube import CLAIMS, CLASSES, NODES, PODS, SLICES, PatchKind
from dradriver.model.resource.claim import ResourceClaim
from dradriver.testing import builders
from tests.unit.control.conftest import Lab
from tests.unit.control.extended_pods import gpu_class, plugin_node
from tests.unit.control.extended_pods import pod as extended_pod
from tests.unit.control.world import ATTACHED, FAILED, slow_device

PLAN, ALLOCATE, WAIT, BIND = 1000.0, 100.0, 10.0, 1.0
"""Seconds of each part; each sum of parts is unique."""


class Clock:
    """A clock that does not run."""

    def __init__(self) -> None:
        self.now = 0.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return a clock; planning, allocating and binding advance it."""
    clock = Clock()
    execute = Executor.execute

    async def execute_slowly(self: Executor, action: Action) -> bool:
        clock.now += {Allocate: ALLOCATE, Bind: BIND}.get(type(action), 0.0)
        return await execute(self, action)

    def choose_slowly(cycle: Cycle, others: int) -> object:
        clock.now += PLAN
        return choose_node(cycle, others)

    monkeypatch.setattr(Attempts, "now", staticmethod(lambda: clock.now))
    monkeypatch.setattr(Executor, "execute", execute_slowly)
    monkeypatch.setattr(pipeline, "choose_node", choose_slowly)
    return clock


def seconds(controllers: Controllers, name: str, **labels: str) -> float | None:
    return controllers.metrics.registry.get_sample_value(name + "_sum", labels)


async def until_observed(controllers: Controllers, name: str, **labels: str) -> None:
    while not controllers.metrics.registry.get_sample_value(name + "_count", labels):
        await asyncio.sleep(0.01)


async def set_condition(lab: Lab, kind: str) -> None:
    """Set a condition of the claim's devices."""
    claim: ResourceClaim = lab.seen.claims.items["default/claim-1"]
    condition = {"type": kind, "status": "True", "reason": "Test", "message": ""}
    condition["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    entries = [
        {"driver": r.driver, "pool": r.pool, "device": r.device, "conditions": [condition]}
        for r in claim.results
    ]
    await lab.client.patch(
        *(CLAIMS, "claim-1", "default", {"status": {"devices": entries}}, PatchKind.MERGE),
        into=dict,
        subresource="status",
    )


SLOW = "slow.example.com"
LABELS = {"profile": "default-scheduler"}
ALLOCATIONS = "scheduler_dra_bindingconditions_allocations_total"
PREBIND = "scheduler_dra_bindingconditions_prebind_duration_seconds"
WAITED = "scheduler_dra_bindingconditions_wait_duration_seconds"
POINT = "scheduler_framework_extension_point_duration_seconds"
PLUGIN = "scheduler_plugin_execution_duration_seconds"


async def start_waiting_pod(lab: Lab, clock: Clock, controllers: Controllers) -> None:
    """Start a pod whose device is not ready, and wait."""
    await lab.client.create(CLASSES, builders.device_class(SLOW), into=dict)
    await lab.client.create(SLICES, builders.slice_(slow_device(), driver=SLOW), into=dict)
    await lab.client.create(CLAIMS, builders.claim(builders.device_request(SLOW)), "default", into=dict)
    # An attempt without one of these objects would begin a backoff.
    caches = controllers.caches
    while not (SLOW in caches.classes.items and len(caches.slices.items) == 3 and caches.claims.items):
        await asyncio.sleep(0.01)
    await lab.pods(builders.pod("claim-1"))
    await lab.until(lambda *_: bool(lab.held()))
    while "default/pod-1" not in controllers._scheduler._waiting_pods:
        await asyncio.sleep(0.01)
    clock.now += WAIT


async def run_waiting_pod(lab: Lab, clock: Clock, controllers: Controllers, outcome: str) -> None:
    """Start a pod whose device gets ready, or fails, after a wait."""
    await start_waiting_pod(lab, clock, controllers)
    await set_condition(lab, outcome)


async def test_prebind_lasts_from_the_plan_until_the_pod_can_be_bound(lab: Lab, clock: Clock) -> None:
    async with Controllers(lab.client) as controllers:
        await run_waiting_pod(lab, clock, controllers, ATTACHED)
        await lab.until_bound(1)
        done = {**LABELS, "status": "success"}
        await until_observed(controllers, PREBIND, **done, requires_bindingconditions="true")
        assert seconds(controllers, PREBIND, **done, requires_bindingconditions="true") == ALLOCATE + WAIT
        assert seconds(controllers, WAITED, **done, driver=SLOW) == WAIT
        assert seconds(controllers, POINT, **LABELS, extension_point="PreBind", status="Success") == (
            ALLOCATE + WAIT
        )
        assert seconds(controllers, POINT, **LABELS, extension_point="Filter", status="Success") == PLAN
        bind = {"extension_point": "Bind", "status": "Success"}
        assert seconds(controllers, POINT, **LABELS, **bind) == BIND
        assert seconds(controllers, PLUGIN, plugin="DefaultBinder", **bind) == BIND


async def test_a_failed_prebind_lasts_until_the_failure(lab: Lab, clock: Clock) -> None:
    async with Controllers(lab.client, SchedulerSettings(pod_backoff=(60, 60))) as controllers:
        await run_waiting_pod(lab, clock, controllers, FAILED)
        failed = {**LABELS, "status": "failure"}
        await until_observed(controllers, PREBIND, **failed, requires_bindingconditions="true")
        assert seconds(controllers, PREBIND, **failed, requires_bindingconditions="true") == ALLOCATE + WAIT
        assert seconds(controllers, WAITED, **failed, driver=SLOW) == WAIT
        assert seconds(controllers, POINT, **LABELS, extension_point="PreBind", status="Error") == (
            ALLOCATE + WAIT
        )


async def test_deleting_a_waiting_pod_is_an_error_of_prebind(lab: Lab, clock: Clock) -> None:
    async with Controllers(lab.client) as controllers:
        await start_waiting_pod(lab, clock, controllers)
        await lab.client.delete(PODS, "pod-1", "default")
        ended = {**LABELS, "status": "error"}
        await until_observed(controllers, PREBIND, **ended, requires_bindingconditions="true")
        assert seconds(controllers, PREBIND, **ended, requires_bindingconditions="true") == ALLOCATE + WAIT
        assert seconds(controllers, WAITED, **ended, driver=SLOW) == WAIT
        read = controllers.metrics.registry.get_sample_value
        assert read(ALLOCATIONS, {**ended, "driver": SLOW}) == 1
        assert seconds(controllers, POINT, **LABELS, extension_point="PreBind", status="Error") == (
            ALLOCATE + WAIT
        )


async def test_a_failed_attempt_counts_once_if_the_pod_is_deleted(lab: Lab, clock: Clock) -> None:
    async with Controllers(lab.client, SchedulerSettings(pod_backoff=(60, 60))) as controllers:
        await run_waiting_pod(lab, clock, controllers, FAILED)
        failed = {**LABELS, "status": "failure", "requires_bindingconditions": "true"}
        await until_observed(controllers, PREBIND, **failed)
        await lab.client.delete(PODS, "pod-1", "default")
        await lab.until(lambda pods, _: not pods and not lab.held())
        counted = [
            sample.value
            for metric in controllers.metrics.registry.collect()
            for sample in metric.samples
            if sample.name == ALLOCATIONS
        ]
    assert counted == [1]


async def test_with_the_gate_off_conditions_are_not_counted(lab: Lab, clock: Clock) -> None:
    """A claim was allocated while the gate was on."""
    async with Controllers(lab.client) as controllers:
        await start_waiting_pod(lab, clock, controllers)
    async with Controllers(
        lab.client, SchedulerSettings(features=Features(binding_conditions=False))
    ) as controllers:
        await lab.until_bound(1)
        done = {**LABELS, "status": "success"}
        await until_observed(controllers, PREBIND, **done, requires_bindingconditions="false")
    exposed = generate_latest(controllers.metrics.registry).decode()
    assert ALLOCATIONS + "{" not in exposed
    assert WAITED + "_sum" not in exposed


async def test_devices_without_conditions_have_no_wait(lab: Lab, clock: Clock) -> None:
    async with Controllers(lab.client) as controllers:
        await lab.pods(builders.pod(templates=["template"]))
        await lab.until_bound(1)
        done = {**LABELS, "status": "success", "requires_bindingconditions": "false"}
        await until_observed(controllers, PREBIND, **done)
        assert seconds(controllers, PREBIND, **done) == ALLOCATE
    assert WAITED + "_sum" not in generate_latest(controllers.metrics.registry).decode()


@pytest.mark.parametrize("outcome", ["bound", "refused"])
async def test_pods_without_claims_are_not_counted(lab: Lab, clock: Clock, outcome: str) -> None:
    if outcome == "refused":
        lab.server.faults.add(Fault("create", "pods/binding", code=422, count=1))
    async with Controllers(lab.client) as controllers:
        await lab.pods(builders.pod())
        status = {"extension_point": "PreBind", "status": "Success"}
        await until_observed(controllers, POINT, **LABELS, **status)
    exposed = generate_latest(controllers.metrics.registry).decode()
    assert PREBIND + "_sum" not in exposed
    assert 'plugin="DynamicResources"' not in exposed


@pytest.mark.parametrize(("amount", "status"), [(2, "Success"), (3, "Unschedulable")])
async def test_filter_durations_are_recorded_by_plugin(lab: Lab, amount: int, status: str) -> None:
    await lab.client.create(CLASSES, gpu_class("gpu"), into=dict)
    await lab.client.create(NODES, plugin_node("plugin", 1), into=dict)
    async with Controllers(lab.client) as controllers:
        await lab.pods(extended_pod(gpu=amount))
        await lab.until(lambda pods, _: any(p.spec.node_name or p.status.conditions for p in pods.values()))
    read = controllers.metrics.registry.get_sample_value
    for plugin, found in (("NodeResourcesFit", "Success"), ("DynamicResources", status)):
        labels = {"plugin": plugin, "extension_point": "Filter", "status": found}
        assert read(PLUGIN + "_count", labels) == 1


@pytest.mark.parametrize(("count", "last"), [(1, "Reserve"), (9, "PostFilter")])
async def test_each_extension_point_of_the_scheduling_cycle_has_a_duration(
    lab: Lab, count: int, last: str
) -> None:
    claim = builders.claim(builders.device_request(count=count))
    await lab.client.create(CLAIMS, claim, "default", into=dict)
    async with Controllers(lab.client) as controllers:
        await lab.pods(builders.pod("claim-1"))
        await lab.until(lambda pods, _: any(p.spec.node_name or p.status.conditions for p in pods.values()))
    read = controllers.metrics.registry.get_sample_value
    fits = "Success" if count == 1 else "Unschedulable"
    points = {"PreEnqueue": "Success", "PreFilter": "Success", "Filter": fits, last: fits}
    for point, status in points.items():
        labels = {**LABELS, "extension_point": point, "status": status}
        assert read(POINT + "_count", labels), point


async def test_insufficient_extended_resources_are_a_failure_of_node_resources_fit(lab: Lab) -> None:
    async with Controllers(lab.client) as controllers:
        await lab.pods(extended_pod(nic=1))
        await lab.until(lambda pods, _: any(p.status.conditions for p in pods.values()))
    labels = {"plugin": "NodeResourcesFit", "extension_point": "Filter", "status": "Unschedulable"}
    assert controllers.metrics.registry.get_sample_value(PLUGIN + "_count", labels) == 1
