"""`scheduler_pending_pods{queue}`: each pod without a node is counted once."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from dradriver.control.runtime.actions import NextAction, Step
from tests.unit.control.queueing.test_queueing_hints import WAITING, Cluster

REF = WAITING.ref


def gate(cluster: Cluster) -> None:
    gates = [{"name": "example.com/wait"}]
    cluster.show(cluster.caches.pods, replace(WAITING, spec=replace(WAITING.spec, scheduling_gates=gates)))
    cluster.make_unschedulable()


def wait_for_conditions(cluster: Cluster) -> None:
    """Let the pod wait, with a timer until the claim's deadline."""
    scheduler = cluster.scheduler
    scheduler._unschedulable.discard(REF)
    scheduler._waiting_pods.wait_step(REF, WAITING, [], Step(NextAction.WAIT))
    scheduler._loop.queue.add_after(REF, 600)


QUEUES: dict[str, tuple[str, Callable[[Cluster], None]]] = {
    "found no node": ("unschedulable", lambda _: None),
    "has scheduling gates": ("gated", gate),
    "is queued": ("active", lambda c: c.scheduler._loop.queue.add(REF)),
    "is in backoff": ("backoff", lambda c: c.scheduler._loop.queue.add_rate_limited(REF)),
    "waits for binding conditions": ("waiting", wait_for_conditions),
}


@pytest.mark.parametrize("state", QUEUES)
async def test_a_pod_that(state: str) -> None:
    queue, prepare = QUEUES[state]
    cluster = Cluster()
    cluster.make_unschedulable()
    prepare(cluster)
    read = cluster.scheduler._metrics.registry.get_sample_value
    names = {"active", "backoff", "unschedulable", "gated", "waiting"}
    found = {name: read("scheduler_pending_pods", {"queue": name}) for name in names}
    cluster.make_unschedulable()
    assert found == {name: float(name == queue) for name in names}
