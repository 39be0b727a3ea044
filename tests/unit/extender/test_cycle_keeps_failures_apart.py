"""A failure belongs to the plan that failed, never to the plan of the next `filter`."""

import asyncio

import pytest

from dradriver.cluster.apiserver import Fault
from dradriver.control.runtime.actions import Nudge
from tests.unit.extender.conftest import Caller, Pause
from tests.unit.extender.test_cycle_nudges_pods import fill, free, refuse, until_processed


async def test_a_plan_that_is_preempted_during_a_filter_does_not_fail_the_new_plan(caller: Caller) -> None:
    pod = await caller.pod("a")
    assert (await caller.filter(pod)).node_names
    planner = caller.cycle.scheduling._planner
    async with planner._turn:  # another pod is being planned
        again = asyncio.create_task(caller.filter(pod))
        while not planner._waiting:
            await asyncio.sleep(0)
        assert caller.cycle.cancel_plan(pod.ref, "preempted")
    nodes = (await again).node_names
    assert nodes
    plan = caller.cycle._plans[pod.ref]
    await until_processed(caller, pod)
    assert caller.cycle._plans.get(pod.ref) is plan, "its devices are kept for `bind`"
    await caller.bind(pod, nodes[0])


@pytest.mark.parametrize("code", [422, 500])
async def test_a_nudge_that_fails_during_a_filter_does_not_fail_the_new_plan(caller: Caller, code: int) -> None:
    full, pod = await fill(caller), await caller.pod("waiting")
    await refuse(caller, pod)
    pause = Pause(caller.cycle, Nudge)
    await free(caller, full[0])
    await pause.reached.wait()
    nodes = (await caller.filter(pod)).node_names
    assert nodes
    plan = caller.cycle._plans[pod.ref]
    caller.lab.server.faults.add(Fault("patch", "pods", code=code))
    pause.go.set()
    await until_processed(caller, pod)
    assert caller.cycle._plans[pod.ref] is plan
    assert pod.ref not in caller.cycle._failures
    assert pod.ref not in caller.cycle._unconfirmed
    await caller.bind(pod, nodes[0])
