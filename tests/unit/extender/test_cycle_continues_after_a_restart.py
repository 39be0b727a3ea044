"""A process that starts between two calls or two writes continues from the objects."""

import asyncio

import pytest

from dradriver.control.runtime.actions import Action, AddFinalizer, Allocate
from dradriver.extender.bind_calls import BindError
from dradriver.kube import CLAIMS
from dradriver.testing import builders
from tests.unit.extender.conftest import Caller, Pause


async def test_a_process_that_starts_between_filter_and_bind_makes_its_own_plan(caller: Caller) -> None:
    pod = await caller.pod("a")
    nodes = (await caller.filter(pod)).node_names
    assert nodes
    await caller.restart()
    await caller.bind(pod, nodes[0])
    assert len(caller.lab.held()) == 1


@pytest.mark.parametrize("kind", [AddFinalizer, Allocate])
async def test_a_process_that_starts_between_two_writes_uses_what_was_written(
    caller: Caller, kind: type[Action]
) -> None:
    pod = await caller.pod("a")
    await caller.filter(pod)
    pause = Pause(caller.cycle, kind, after=True)
    call = asyncio.create_task(caller.bind(pod, "node-2"))
    await pause.reached.wait()
    await caller.restart()
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    node = await caller.place(pod)
    assert len(caller.lab.held()) == 1
    assert node == "node-2" or kind is AddFinalizer


async def test_devices_that_were_written_for_a_pod_that_no_node_suits_now_are_released(caller: Caller) -> None:
    pod = await caller.pod_of("a", "one", "two")
    for name, count in (("one", 1), ("two", 2)):
        claim = builders.claim(builders.device_request(count=count), name=name)
        await caller.lab.client.create(CLAIMS, claim, "default", into=dict)
    await caller.add_node("node-3", *(builders.device(f"device-{number}") for number in range(3)))
    while not (await caller.filter(pod, ["node-3"])).node_names:
        await asyncio.sleep(0.001)
    pause = Pause(caller.cycle, Allocate, after=True)
    call = asyncio.create_task(caller.bind(pod, "node-3"))
    await pause.reached.wait()
    await caller.restart()
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    await caller.lab.until(lambda pods, _: "default/a" in pods)
    result = await caller.filter(pod, ["node-1"])
    assert "resourceclaim not available on the node" in result.failed_and_unresolvable_nodes["node-1"]
    await caller.until_free()
    assert await caller.place(pod, ["node-3"]) == "node-3"


async def test_a_pod_that_the_process_does_not_know_yet_is_not_bound(caller: Caller) -> None:
    pod = builders.pod(name="unknown")
    with pytest.raises(BindError, match="was deleted"):
        await caller.bind(pod, "node-1")
