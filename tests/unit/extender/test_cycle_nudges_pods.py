"""Refused pods are nudged after each change that helps them, in a fair order, and not in vain."""

import asyncio
import time

import pytest
from msgspec.structs import replace

from dradriver.cluster.apiserver import Fault
from dradriver.control.runtime.actions import Nudge
from dradriver.extender.nominations import BIND_SECONDS, NUDGE_SECONDS
from dradriver.kube import CLAIMS, PODS, SLICES, PatchKind
from dradriver.model.core.workload import Pod
from dradriver.testing import builders
from tests.unit.extender.conftest import PROFILE, Caller, Pause, nudged


async def refuse(caller: Caller, pod: Pod) -> None:
    assert not (await caller.filter(pod)).node_names


async def until_processed(caller: Caller, pod: Pod) -> None:
    """Wait until the extender has made its decisions about a pod."""
    queue = caller.cycle._loop.queue
    while queue.is_processing(pod.ref) or pod.ref in queue.queued:
        await asyncio.sleep(0)


async def fill(caller: Caller) -> list[Pod]:
    """Place pods on all devices."""
    pods = [await caller.pod(f"full-{number}") for number in range(4)]
    for pod in pods:
        await caller.place(pod)
    return pods


async def free(caller: Caller, *pods: Pod) -> None:
    """Delete pods, and release their claims as the claim controller does."""
    for pod in pods:
        await caller.delete_pod(pod)
        name = f"claim-{pod.metadata.name}"
        body = {"status": {"allocation": None, "reservedFor": None}}
        await caller.lab.client.patch(
            *(CLAIMS, name, "default", body, PatchKind.MERGE), into=dict, subresource="status"
        )


def add_slice(name: str, node: str = "node-1") -> object:
    return builders.slice_(builders.device("device-9"), node_name=node, pool=name)


async def test_pods_are_nudged_in_the_order_of_their_first_refusal(caller: Caller) -> None:
    full = await fill(caller)
    group = [await caller.pod(f"group-{number}") for number in range(4)]
    for pod in group:
        await refuse(caller, pod)
    for number in range(8):  # changes that do not help
        await caller.lab.client.create(SLICES, add_slice(f"far-{number}", "node-9"), into=dict)
        await asyncio.sleep(0)
    late = [await caller.pod(f"late-{number}") for number in range(4)]
    for pod in late:
        await refuse(caller, pod)
    await free(caller, *full)
    await caller.until_nudged(*(pod.metadata.name for pod in group))
    assert set(nudged(caller.lab.seen.pods.items.values())) == {pod.metadata.name for pod in group}
    for pod in group:
        assert await caller.place(pod)


async def test_the_pod_of_the_highest_priority_is_nudged_first(caller: Caller) -> None:
    full = await fill(caller)
    await refuse(caller, await caller.pod("low"))
    claim = builders.claim(builders.device_request(), name="claim-high")
    await caller.lab.client.create(CLAIMS, claim, "default", into=dict)
    high = builders.pod("claim-high", name="high")
    spec = replace(high.spec, scheduler_name=PROFILE, priority=10, preemption_policy="Never")
    await refuse(caller, await caller.add(replace(high, spec=spec)))
    await free(caller, full[0])
    await caller.until_nudged("high")
    assert nudged(caller.lab.seen.pods.items.values()) == ["high"]


async def test_gated_pods_are_not_nudged(caller: Caller) -> None:
    full = await fill(caller)
    claim = builders.claim(builders.device_request(), name="claim-gated")
    await caller.lab.client.create(CLAIMS, claim, "default", into=dict)
    gated = builders.pod("claim-gated", name="gated")
    gates = [{"name": "kueue.x-k8s.io/admission"}]
    spec = replace(gated.spec, scheduler_name=PROFILE, scheduling_gates=gates)
    await caller.add(replace(gated, spec=spec))
    waiting = await caller.pod("waiting")
    await refuse(caller, waiting)
    await free(caller, *full)
    await caller.until_nudged("waiting")
    await caller.restart()
    await caller.place(waiting)
    assert nudged(caller.lab.seen.pods.items.values()) == ["waiting"]
    body = {"spec": {"schedulingGates": None}}
    await caller.lab.client.patch(PODS, "gated", "default", body, PatchKind.MERGE, into=dict)
    await caller.until_current()
    assert await caller.place(caller.lab.seen.pods.items["default/gated"])


@pytest.mark.parametrize("fault", [Fault("patch", "pods", code=500), Fault("patch", "pods", drop=True)])
async def test_a_nudge_that_was_lost_is_repeated(caller: Caller, fault: Fault) -> None:
    full, pod = await fill(caller), await caller.pod("waiting")
    await refuse(caller, pod)
    caller.lab.server.faults.add(fault)
    await free(caller, full[0])
    await caller.until_nudged("waiting")
    assert fault.count == 0


@pytest.mark.parametrize("fault", [None, Fault("patch", "pods", code=500)])
async def test_a_pod_that_lacked_its_claim_is_nudged_once_although_it_does_not_fit(
    caller: Caller, fault: Fault | None
) -> None:
    await fill(caller)
    pod = await caller.pod_of("early", "claim-early")
    await refuse(caller, pod)
    await add_claim_of(caller, pod)
    assert (await caller.cycle.decide(pod.ref)).action is None, "kube-scheduler may call by itself"
    if fault is not None:
        caller.lab.server.faults.add(fault)
    end_wait(caller, pod)
    await caller.until_nudged("early")
    assert fault is None or fault.count == 0
    await until_processed(caller, pod)
    assert (await caller.cycle.decide(pod.ref)).action is None


async def test_a_pod_that_lacked_its_claim_is_not_nudged_if_kube_scheduler_calls_by_itself(
    caller: Caller,
) -> None:
    await fill(caller)
    pod = await caller.pod_of("early", "claim-early")
    await refuse(caller, pod)
    await add_claim_of(caller, pod)
    await refuse(caller, pod)
    end_wait(caller, pod)
    assert (await caller.cycle.decide(pod.ref)).action is None


async def add_claim_of(caller: Caller, pod: Pod) -> None:
    """Create the claim of a pod, and wait until the extender has received it."""
    name = f"claim-{pod.metadata.name}"
    await caller.lab.client.create(CLAIMS, builders.claim(name=name), "default", into=dict)
    while f"default/{name}" not in caller.cycle._caches.claims.items:
        await asyncio.sleep(0.001)


def end_wait(caller: Caller, pod: Pod) -> None:
    """Let the time pass after which kube-scheduler no longer calls by itself."""
    now = time.monotonic() + NUDGE_SECONDS
    caller.cycle._attempts.now = lambda: now  # type: ignore[method-assign]
    caller.cycle._loop.queue.add(pod.ref)


async def test_devices_that_a_filter_gives_back_are_offered_to_other_pods(caller: Caller) -> None:
    full = await fill(caller)
    first, second = await caller.pod("first"), await caller.pod("second")
    await refuse(caller, first)
    await refuse(caller, second)
    node = full[0].metadata.name
    await free(caller, full[0])
    await caller.until_nudged("first")
    (device,) = caller.cycle._plans[first.ref].allocations.values()
    node = device.devices.results[0].pool
    (other,) = {"node-1", "node-2"} - {node}
    assert not (await caller.filter(first, [other])).node_names
    await caller.until_nudged("second")


async def test_devices_of_another_node_than_that_of_the_call_are_offered_to_other_pods(caller: Caller) -> None:
    for number in range(2):
        await caller.bind(await caller.pod(f"full-{number}"), "node-1")
    await caller.bind(await caller.pod("full-2"), "node-2")
    await caller.lab.client.create(SLICES, add_slice("more"), into=dict)
    pod, waiting = await caller.pod("pod"), await caller.pod("waiting")
    while (await caller.filter(pod, ["node-1"])).node_names != ["node-1"]:
        await asyncio.sleep(0.001)
    assert not (await caller.filter(waiting, ["node-1"])).node_names
    await caller.bind(pod, "node-2")
    await caller.until_nudged("waiting")


async def test_a_pod_is_nudged_once_for_a_node_that_kube_scheduler_excludes(caller: Caller) -> None:
    full, pod = await fill(caller), await caller.pod("waiting")
    on_2 = [each for each in full if caller.lab.seen.pods.items[each.ref].spec.node_name == "node-2"]
    assert not (await caller.filter(pod, ["node-1"])).node_names
    await free(caller, *on_2)
    await caller.until_nudged("waiting")
    assert not (await caller.filter(pod, ["node-1"])).node_names
    nudge = Pause(caller.cycle, Nudge)
    await caller.lab.client.create(SLICES, add_slice("far", "node-9"), into=dict)
    await caller.add_node("node-3", builders.device())
    await nudge.reached.wait()
    assert caller.cycle._plans[pod.ref].node == "node-3"
    nudge.go.set()
    # When kube-scheduler does not exclude the node any more, it is tried again.
    assert (await caller.filter(pod, ["node-1", "node-2"])).node_names == ["node-2"]


async def test_a_refused_pod_is_nudged_by_the_next_process(caller: Caller) -> None:
    full, pod = await fill(caller), await caller.pod("waiting")
    await refuse(caller, pod)
    await caller.restart()
    await free(caller, full[0])
    await caller.until_nudged("waiting")


async def test_a_nomination_expires_and_its_devices_are_offered_to_other_pods(caller: Caller) -> None:
    pods = [await caller.pod(str(number)) for number in range(4)]
    for pod in pods:
        assert (await caller.filter(pod)).node_names
    late = await caller.pod("late")
    await refuse(caller, late)
    caller.cycle._nominations._clock = lambda: time.monotonic() + BIND_SECONDS
    caller.cycle._loop.queue.add(pods[0].ref)
    await caller.until_nudged("late")
    assert pods[0].ref not in caller.cycle._plans


async def test_the_second_pod_of_a_shared_claim_is_nudged_when_the_claim_is_allocated(caller: Caller) -> None:
    claim = builders.claim(builders.device_request(), name="shared")
    await caller.lab.client.create(CLAIMS, claim, "default", into=dict)
    first, second = await caller.pod_of("first", "shared"), await caller.pod_of("second", "shared")
    nodes = (await caller.filter(first)).node_names
    assert nodes
    result = await caller.filter(second)
    message = "resource claim default/shared is in the process of being allocated"
    assert result.failed_and_unresolvable_nodes == dict.fromkeys(["node-1", "node-2"], message)
    await caller.bind(first, nodes[0])
    await caller.until_nudged("second")
    assert await caller.place(second) == nodes[0]
    assert len(caller.lab.held()) == 1
