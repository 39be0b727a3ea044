"""If kube-scheduler gives up a call, the devices are free again, and the pod is not bound."""

import asyncio
import threading
from typing import Any
from unittest.mock import Mock

import pytest

from dradriver.control.runtime.actions import Action, AddFinalizer, Allocate, Bind
from dradriver.control.scheduler import planner
from dradriver.extender.bind_calls import BindError
from dradriver.kube import CLAIMS, PODS
from tests.unit.extender.conftest import NODES, Caller, Pause


async def abandon(call: asyncio.Task[None]) -> None:
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)


@pytest.mark.parametrize(
    ("kind", "after"), [(AddFinalizer, False), (AddFinalizer, True), (Allocate, False), (Allocate, True)]
)
async def test_a_pod_whose_call_was_abandoned_before_the_binding_is_not_bound(
    caller: Caller, kind: type[Action], after: bool
) -> None:
    pod = await caller.pod("a")
    await caller.filter(pod)
    pause = Pause(caller.cycle, kind, after=after)
    call = asyncio.create_task(caller.bind(pod, "node-1"))
    await pause.reached.wait()
    await abandon(call)
    pause.go.set()
    await caller.until_free()
    assert not (await caller.lab.client.get(PODS, "a", "default", into=dict))["spec"].get("nodeName")
    assert await caller.place_again(pod)


async def test_a_pod_whose_call_was_abandoned_after_the_binding_was_sent_keeps_its_devices(
    caller: Caller,
) -> None:
    pod = await caller.pod("a")
    await caller.filter(pod)
    pause = Pause(caller.cycle, Bind)
    call = asyncio.create_task(caller.bind(pod, "node-1"))
    await pause.reached.wait()
    await abandon(call)
    pause.go.set()
    await caller.lab.until(lambda pods, _: pods[pod.ref].spec.node_name == "node-1")
    for number in range(3):
        await caller.place(await caller.pod(str(number)))
    assert len(set(caller.lab.held())) == 4


async def test_a_call_that_was_abandoned_before_its_first_decision_leaves_the_plan_for_the_next_call(
    caller: Caller,
) -> None:
    pod = await caller.pod("a")
    await caller.filter(pod)
    call = asyncio.create_task(caller.bind(pod, "node-1"))
    await asyncio.sleep(0)
    await abandon(call)
    await caller.bind(pod, "node-1")
    assert len(caller.lab.held()) == 1


async def test_a_call_that_was_abandoned_while_its_plan_was_made_writes_nothing(caller: Caller) -> None:
    pod = await caller.pod("a")
    async with caller.cycle.scheduling._planner._turn:
        call = asyncio.create_task(caller.bind(pod, "node-1"))
        while pod.ref not in caller.cycle._deciding:
            await asyncio.sleep(0)
        await abandon(call)
    await caller.place_again(await caller.pod("b"))
    # When the plan is reverted, a nudge may have nominated the pod again.
    while pod.ref in caller.cycle._plans and pod.ref not in caller.cycle._nominations:
        await asyncio.sleep(0.001)
    claim = await caller.lab.client.get(CLAIMS, "claim-a", "default", into=dict)
    assert "status" not in claim or "allocation" not in claim["status"]
    assert "finalizers" not in claim["metadata"]
    assert await caller.place_again(pod)


async def test_a_new_scheduling_attempt_ends_the_call_of_the_last_attempt(caller: Caller) -> None:
    """kube-scheduler was restarted, and the server has not noticed that the connection is gone."""
    pod = await caller.pod("a")
    await caller.filter(pod)
    pause = Pause(caller.cycle, Allocate)
    call = asyncio.create_task(caller.bind(pod, "node-1"))
    await pause.reached.wait()
    with pytest.raises(BindError, match="the devices of the last attempt are being released"):
        await caller.filter(pod)
    with pytest.raises(BindError, match="a new scheduling attempt has begun"):
        await call
    pause.go.set()
    assert await caller.place_again(pod)
    assert len(caller.lab.held()) == 1


async def test_a_new_scheduling_attempt_before_the_first_write_of_a_call_makes_a_new_plan(
    caller: Caller,
) -> None:
    pod = await caller.pod("a")
    await caller.filter(pod)
    call = asyncio.create_task(caller.bind(pod, "node-1"))
    await asyncio.sleep(0)
    assert pod.ref in caller.cycle._calls
    assert (await caller.filter(pod, ["node-2"])).node_names == ["node-2"]
    with pytest.raises(BindError, match="a new scheduling attempt has begun"):
        await call
    await caller.bind(pod, "node-2")


async def test_one_of_two_callers_that_leaves_does_not_end_the_call(caller: Caller) -> None:
    pod = await caller.pod("a")
    await caller.filter(pod)
    pause = Pause(caller.cycle, Allocate)
    calls = [asyncio.create_task(caller.bind(pod, "node-1")) for _ in range(2)]
    await pause.reached.wait()
    await abandon(calls[0])
    pause.go.set()
    await calls[1]


async def test_a_filter_that_was_cancelled_while_a_plan_is_made_lets_no_other_plan_begin(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = planner._decide
    begun, go, running = asyncio.Event(), threading.Event(), list[int]()
    loop = asyncio.get_running_loop()

    def make_plan(*args: Any) -> Any:
        running.append(1)
        assert len(running) == 1, "two threads change the state"
        loop.call_soon_threadsafe(begun.set)
        go.wait()
        verdict = original(*args)
        running.pop()
        return verdict

    pods = [await caller.pod(name) for name in "ab"]
    monkeypatch.setattr(planner, "_decide", make_plan)
    first = asyncio.create_task(caller.filter(pods[0]))
    await begun.wait()
    first.cancel()
    second = asyncio.create_task(caller.filter(pods[1]))
    await asyncio.sleep(0)
    assert running == [1]
    go.set()
    assert (await second).node_names
    with pytest.raises(asyncio.CancelledError):
        await first
    assert await caller.place(pods[0])


async def test_a_pod_that_was_deleted_during_its_call_is_not_bound(caller: Caller) -> None:
    pod = await caller.pod("a")
    await caller.filter(pod)
    pause = Pause(caller.cycle, Allocate, after=True)
    call = asyncio.create_task(caller.bind(pod, "node-1"))
    await pause.reached.wait()
    await caller.delete_pod(pod)
    pause.go.set()
    with pytest.raises(BindError, match="was deleted"):
        await call
    assert pod.ref not in caller.cycle._plans


async def test_a_new_pod_of_the_same_name_gets_its_own_plan(caller: Caller) -> None:
    old = await caller.pod("a")
    await caller.filter(old)
    pause = Pause(caller.cycle, Allocate, after=True)
    call = asyncio.create_task(caller.bind(old, "node-1"))
    await pause.reached.wait()
    await caller.delete_pod(old)
    new = await caller.pod_of("a", "claim-a")
    pause.go.set()
    with pytest.raises(BindError, match="new pod has its name"):
        await call
    assert await caller.place_again(new) in NODES


async def test_a_call_is_answered_if_a_defect_ends_its_decision(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = await caller.pod("a")
    with monkeypatch.context() as patch:
        patch.setattr(caller.cycle._view, "explain_unserved", Mock(side_effect=RuntimeError("a defect")))
        with pytest.raises(BindError, match="internal error of `dradriver scheduler`, see its log"):
            await caller.bind(pod, "node-1")
    assert await caller.place_again(pod)


async def test_a_repeated_call_for_a_bound_pod_succeeds(caller: Caller) -> None:
    pod = await caller.pod("a")
    node = await caller.place(pod)
    await caller.lab.until(lambda pods, _: bool(pods[pod.ref].spec.node_name))
    await caller.restart()
    await caller.bind(pod, node)
    (other,) = set(NODES) - {node}
    with pytest.raises(BindError, match=f"is bound to node {node}"):
        await caller.bind(pod, other)


async def test_a_pod_of_another_profile_is_not_bound(caller: Caller) -> None:
    pod = await caller.pod("a", scheduler="other")
    with pytest.raises(BindError, match=r"spec\.schedulerName: other is not a profile"):
        await caller.bind(pod, "node-1")
