"""A call of `bind` waits for the binding conditions of the devices (KEP-5007)."""

import asyncio
from dataclasses import replace as with_changes
from datetime import timedelta

import pytest
from msgspec.structs import replace

from dradriver.control.settings import SchedulerSettings
from dradriver.extender.bind_calls import BindError
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim
from tests.unit.control.world import ATTACHED, FAILED, slow_device
from tests.unit.extender.conftest import Caller

NODE = "node-3"


async def filtered_pod(caller: Caller) -> Pod:
    """Create a pod, and filter a node whose only device has a binding condition."""
    await caller.add_node(NODE, slow_device())
    pod = await caller.pod("a")
    assert (await caller.filter(pod, [NODE])).node_names == [NODE]
    return pod


async def begin(caller: Caller) -> tuple[Pod, asyncio.Task[None]]:
    """Call `bind` for a pod on a node whose only device has a binding condition, until the call waits."""
    pod = await filtered_pod(caller)
    call = asyncio.create_task(caller.bind(pod, NODE))
    await caller.lab.until(lambda _, claims: claims["default/claim-a"].allocation is not None)
    while pod.ref not in caller.cycle._waiting_pods:
        await asyncio.sleep(0)
    return pod, call


def claim_of(caller: Caller, name: str = "a") -> ResourceClaim:
    return caller.lab.seen.claims.items[f"default/claim-{name}"]


async def test_the_pod_is_bound_when_the_last_condition_is_true(caller: Caller) -> None:
    pod, call = await begin(caller)
    assert not call.done()
    assert not caller.lab.seen.pods.items[pod.ref].spec.node_name
    await caller.set_condition(claim_of(caller), ATTACHED)
    await call
    await caller.lab.until(lambda pods, _: pods[pod.ref].spec.node_name == NODE)


async def test_a_waiting_pod_is_nominated_and_occupies_no_worker(caller: Caller) -> None:
    pod, call = await begin(caller)
    await caller.lab.until(lambda pods, _: pods[pod.ref].status.nominated_node_name == NODE)
    assert not caller.cycle._loop.queue.is_processing(pod.ref)
    await caller.set_condition(claim_of(caller), ATTACHED)
    await call


async def test_the_other_nodes_of_a_waiting_pod_are_forgotten(caller: Caller) -> None:
    for name in (NODE, "node-4"):
        await caller.add_node(name, slow_device())
    pod = await caller.pod("a")
    node, other = (await caller.filter(pod, [NODE, "node-4"])).node_names or []
    assert caller.cycle._plans[pod.ref].other_nodes.keys() == {other}
    call = asyncio.create_task(caller.bind(pod, node))
    while pod.ref not in caller.cycle._waiting_pods:
        await asyncio.sleep(0)
    assert not caller.cycle._plans[pod.ref].other_nodes
    await caller.lab.until(lambda _, claims: claims["default/claim-a"].allocation is not None)
    await caller.set_condition(claim_of(caller), ATTACHED)
    await call


async def test_a_failure_condition_is_the_answer_and_releases_the_device(caller: Caller) -> None:
    pod, call = await begin(caller)
    await caller.set_condition(claim_of(caller), FAILED)
    with pytest.raises(BindError, match=rf"claim default/claim-a, device .*{FAILED}"):
        await call
    await caller.until_free()
    assert await caller.place(pod) != NODE


class TestShortDeadline:
    @pytest.fixture
    def settings(self) -> SchedulerSettings:
        return SchedulerSettings(binding_timeout=timedelta(seconds=1), pod_backoff=(0.01, 0.02))

    async def test_a_condition_that_is_never_set_ends_the_call_at_the_deadline(self, caller: Caller) -> None:
        pod = await filtered_pod(caller)
        with pytest.raises(BindError, match=f"device binding timeout: claim default/claim-a.*{ATTACHED}"):
            await caller.bind(pod, NODE)
        await caller.until_free()


async def test_an_abandoned_wait_keeps_the_device_for_the_next_call(caller: Caller) -> None:
    pod, call = await begin(caller)
    before = claim_of(caller)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    while pod.ref in caller.cycle._plans:
        await asyncio.sleep(0)
    await caller.set_condition(before, ATTACHED)
    assert not caller.lab.seen.pods.items[pod.ref].spec.node_name
    assert await caller.place(pod, [NODE]) == NODE
    assert claim_of(caller).allocation == before.allocation


async def test_a_pod_that_waited_gives_its_device_back_if_no_node_suits_it_any_more(caller: Caller) -> None:
    pod, call = await begin(caller)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    while pod.ref in caller.cycle._plans:
        await asyncio.sleep(0)
    assert not (await caller.filter(pod)).node_names  # kube-scheduler excludes the node
    await caller.until_nudged("a")
    assert await caller.place(pod) != NODE


async def test_a_process_that_starts_during_the_wait_continues_it(caller: Caller) -> None:
    pod, call = await begin(caller)
    await caller.restart()
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    allocated = claim_of(caller).allocation
    assert (await caller.filter(pod, [NODE])).node_names == [NODE]
    call = asyncio.create_task(caller.bind(pod, NODE))
    await caller.set_condition(claim_of(caller), ATTACHED)
    await call
    assert claim_of(caller).allocation == allocated


async def let_nomination_expire(caller: Caller, pod: Pod) -> None:
    """Let the nomination of a pod expire, until the extender has decided about the pod."""
    cycle = caller.cycle
    while pod.ref not in cycle._nominations or cycle._loop.queue.is_processing(pod.ref):
        await asyncio.sleep(0)
    expired = cycle._nominations._nominations[pod.ref]
    cycle._nominations._nominations[pod.ref] = with_changes(expired, end=0.0)
    cycle._loop.queue.add(pod.ref)
    while pod.ref in cycle._loop.queue.queued or cycle._loop.queue.is_processing(pod.ref):
        await asyncio.sleep(0)


async def interrupt(caller: Caller) -> Pod:
    """Restart the extender during the wait, and let it nudge the pod."""
    pod, call = await begin(caller)
    await caller.restart()
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    await caller.until_nudged("a")
    return pod


async def test_a_nomination_after_a_failover_keeps_devices_that_become_ready_until_their_deadline(
    caller: Caller,
) -> None:
    pod = await interrupt(caller)
    allocated = claim_of(caller).allocation
    await let_nomination_expire(caller, pod)
    assert caller.cycle._nominations.seconds_left(pod.ref) > 0
    await caller.set_condition(claim_of(caller), ATTACHED)
    await let_nomination_expire(caller, pod)
    assert await caller.place(pod, [NODE]) == NODE
    assert claim_of(caller).allocation == allocated


async def test_a_nomination_after_a_failover_ends_at_the_deadline(caller: Caller) -> None:
    pod = await interrupt(caller)
    assert claim_of(caller).allocation is not None
    caller.cycle._waiting_pods.timeout = timedelta(0)
    await let_nomination_expire(caller, pod)
    await caller.until_free()


async def test_a_nomination_after_a_failover_does_not_keep_devices_that_failed(caller: Caller) -> None:
    pod = await interrupt(caller)
    await caller.set_condition(claim_of(caller), FAILED)
    while not caller.cycle._caches.claims.items["default/claim-a"].status.devices:
        await asyncio.sleep(0)
    await let_nomination_expire(caller, pod)
    await caller.until_free()


async def test_two_pods_that_share_a_claim_wait_together(caller: Caller) -> None:
    pod, call = await begin(caller)
    other = await caller.pod_of("b", "claim-a")
    assert (await caller.filter(other, [NODE])).node_names == [NODE]
    second = asyncio.create_task(caller.bind(other, NODE))
    await caller.lab.until(lambda _, claims: len(claims["default/claim-a"].status.reserved_for) == 2)
    await caller.set_condition(claim_of(caller), ATTACHED)
    await asyncio.gather(call, second)
    await caller.lab.until(lambda pods, _: {pods[p.ref].spec.node_name for p in (pod, other)} == {NODE})


async def test_a_node_that_is_deleted_during_the_wait_ends_the_call(caller: Caller) -> None:
    _, call = await begin(caller)
    node = caller.cycle._caches.nodes.items[NODE]
    caller.cycle._caches.nodes.apply_deleted(replace(node))
    with pytest.raises(BindError, match=f"node {NODE} was deleted"):
        await call
