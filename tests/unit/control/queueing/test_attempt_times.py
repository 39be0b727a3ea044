"""What each duration of the scheduler's metrics covers, on a clock that only the tests move."""

import asyncio

import pytest
from prometheus_client.exposition import generate_latest

from dradriver.allocator import Features
from dradriver.cluster.apiserver import Fault
from dradriver.control.controllers import Controllers
from dradriver.control.queueing.attempts import Attempts
from dradriver.control.runtime.actions import Action, Allocate, Bind
from dradriver.control.runtime.executor import Executor
from dradriver.control.scheduler import scheduler
from dradriver.kube import CLAIMS, CLASSES, NODES, PODS, SLICES, PatchKind
from dradriver.model.resource.claim import ResourceClaim
from dradriver.testing import builders
from tests.unit.control.conftest import Lab
from tests.unit.control.extended_pods import gpu_class, plugin_node
from tests.unit.control.extended_pods import pod as extended_pod
from tests.unit.control.world import ATTACHED, FAILED, slow_device

PLAN, ALLOCATE, WAIT, BIND = 1000.0, 100.0, 10.0, 1.0
"""Seconds of each part: a sum says of which parts it is made."""


class Clock:
    """Seconds of a clock that stands still."""

    def __init__(self) -> None:
        self.now = 0.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Planning, allocating and binding take their time."""
    clock = Clock()
    execute, plan = Executor.execute, scheduler._plan

    async def execute_slowly(self: Executor, action: Action) -> bool:
        clock.now += {Allocate: ALLOCATE, Bind: BIND}.get(type(action), 0.0)
        return await execute(self, action)

    def plan_slowly(*arguments: object) -> object:
        clock.now += PLAN
        return plan(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Attempts, "now", staticmethod(lambda: clock.now))
    monkeypatch.setattr(Executor, "execute", execute_slowly)
    monkeypatch.setattr(scheduler, "_plan", plan_slowly)
    return clock


def seconds(controllers: Controllers, name: str, **labels: str) -> float | None:
    return controllers.metrics.registry.get_sample_value(name + "_sum", labels)


async def until_observed(controllers: Controllers, name: str, **labels: str) -> None:
    async with asyncio.timeout(5):
        while not controllers.metrics.registry.get_sample_value(name + "_count", labels):
            await asyncio.sleep(0.01)


async def tell(lab: Lab, kind: str) -> None:
    """Sets a condition of the claim's devices."""
    claim: ResourceClaim = lab.seen.claims.items["default/claim-1"]
    condition = {"type": kind, "status": "True", "reason": "Told", "message": ""}
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


async def let_a_pod_wait(lab: Lab, clock: Clock, controllers: Controllers) -> None:
    """Its device is not ready for a while."""
    await lab.client.create(CLASSES, builders.device_class(SLOW), into=dict)
    await lab.client.create(SLICES, builders.slice_(slow_device(), driver=SLOW), into=dict)
    await lab.client.create(CLAIMS, builders.claim(builders.device_request(SLOW)), "default", into=dict)
    await lab.pods(builders.pod("claim-1"))
    await lab.until(lambda *_: bool(lab.held()))
    async with asyncio.timeout(5):
        while "default/pod-1" not in controllers._scheduler._waits:
            await asyncio.sleep(0.01)
    clock.now += WAIT


async def run_a_pod_that_waits(lab: Lab, clock: Clock, controllers: Controllers, outcome: str) -> None:
    """Its device gets ready, or fails, after a while."""
    await let_a_pod_wait(lab, clock, controllers)
    await tell(lab, outcome)


async def test_prebind_is_timed_from_the_plan_until_the_pod_can_be_bound_and_the_wait_by_itself(
    lab: Lab, clock: Clock
) -> None:
    async with Controllers(lab.client) as controllers:
        await run_a_pod_that_waits(lab, clock, controllers, ATTACHED)
        await lab.until_bound(1)
        done = {**LABELS, "status": "success"}
        await until_observed(controllers, PREBIND, **done, requires_bindingconditions="true")
        assert seconds(controllers, PREBIND, **done, requires_bindingconditions="true") == ALLOCATE + WAIT
        assert seconds(controllers, WAITED, **done, driver=SLOW) == WAIT
        assert seconds(controllers, POINT, **LABELS, extension_point="PreBind", status="Success") == (
            ALLOCATE + WAIT
        )
        assert seconds(controllers, POINT, **LABELS, extension_point="Filter", status="Success") == PLAN


async def test_prebind_that_fails_is_timed_until_the_failure(lab: Lab, clock: Clock) -> None:
    async with Controllers(lab.client, setback=(60, 60)) as controllers:
        await run_a_pod_that_waits(lab, clock, controllers, FAILED)
        failed = {**LABELS, "status": "failure"}
        await until_observed(controllers, PREBIND, **failed, requires_bindingconditions="true")
        assert seconds(controllers, PREBIND, **failed, requires_bindingconditions="true") == ALLOCATE + WAIT
        assert seconds(controllers, WAITED, **failed, driver=SLOW) == WAIT
        assert seconds(controllers, POINT, **LABELS, extension_point="PreBind", status="Error") == (
            ALLOCATE + WAIT
        )


async def test_a_pod_that_is_deleted_while_it_waits_is_an_error(lab: Lab, clock: Clock) -> None:
    async with Controllers(lab.client) as controllers:
        await let_a_pod_wait(lab, clock, controllers)
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


async def test_a_pod_whose_attempt_has_failed_and_that_is_deleted_counts_once(lab: Lab, clock: Clock) -> None:
    async with Controllers(lab.client, setback=(60, 60)) as controllers:
        await run_a_pod_that_waits(lab, clock, controllers, FAILED)
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


async def test_with_the_gate_off_no_conditions_are_counted(lab: Lab, clock: Clock) -> None:
    """A claim was allocated while the gate was on."""
    async with Controllers(lab.client) as controllers:
        await let_a_pod_wait(lab, clock, controllers)
    async with Controllers(lab.client, features=Features(binding_conditions=False)) as controllers:
        await lab.until_bound(1)
        done = {**LABELS, "status": "success"}
        await until_observed(controllers, PREBIND, **done, requires_bindingconditions="false")
    exposed = generate_latest(controllers.metrics.registry).decode()
    assert ALLOCATIONS + "{" not in exposed
    assert WAITED + "_sum" not in exposed


async def test_devices_without_conditions_are_not_waited_for(lab: Lab, clock: Clock) -> None:
    async with Controllers(lab.client) as controllers:
        await lab.pods(builders.pod(templates=["template"]))
        await lab.until_bound(1)
        done = {**LABELS, "status": "success", "requires_bindingconditions": "false"}
        await until_observed(controllers, PREBIND, **done)
        assert seconds(controllers, PREBIND, **done) == ALLOCATE
    assert WAITED + "_sum" not in generate_latest(controllers.metrics.registry).decode()


@pytest.mark.parametrize("outcome", ["bound", "refused"])
async def test_pods_without_claims_are_no_flow_of_dra(lab: Lab, clock: Clock, outcome: str) -> None:
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
async def test_the_filter_for_extended_resources_is_that_of_node_resources_fit(
    lab: Lab, amount: int, status: str
) -> None:
    await lab.client.create(CLASSES, gpu_class("gpu"), into=dict)
    await lab.client.create(NODES, plugin_node("plugin", 1), into=dict)
    async with Controllers(lab.client) as controllers:
        await lab.pods(extended_pod(gpu=amount))
        await lab.until(lambda pods, _: any(p.spec.node_name or p.status.conditions for p in pods.values()))
    read = controllers.metrics.registry.get_sample_value
    for plugin, found in (("NodeResourcesFit", "Success"), ("DynamicResources", status)):
        labels = {"plugin": plugin, "extension_point": "Filter", "status": found}
        assert read(PLUGIN + "_count", labels) == 1


async def test_a_node_without_enough_of_an_extended_resource_is_refused_by_node_resources_fit(lab: Lab) -> None:
    async with Controllers(lab.client) as controllers:
        await lab.pods(extended_pod(nic=1))
        await lab.until(lambda pods, _: any(p.status.conditions for p in pods.values()))
    labels = {"plugin": "NodeResourcesFit", "extension_point": "Filter", "status": "Unschedulable"}
    assert controllers.metrics.registry.get_sample_value(PLUGIN + "_count", labels) == 1
