"""The queues do not grow, and a slow part delays no other part."""

import asyncio

from dradriver.cluster.apiserver import Fault
from dradriver.control.controllers import Controllers
from dradriver.kube import CLASSES, PODS
from dradriver.testing import builders
from tests.unit.control.conftest import Lab


async def test_deleted_pods_leave_nothing_in_the_queue(lab: Lab) -> None:
    async with Controllers(lab.client) as controllers:
        await lab.pods(*(builders.pod(name=f"pod-{i}", templates=["template"]) for i in range(8)))
        await lab.until_bound(4)
        await lab.until(lambda pods, _: all(p.spec.node_name or p.status.conditions for p in pods.values()))
        queue, waiting = controllers._scheduler._loop.queue, controllers._scheduler._unschedulable
        await lab.client.create(CLASSES, builders.device_class("other"), into=dict)  # wakes them in vain
        while len([*waiting]) != 4 or queue._timers or queue._queued or queue._processing:
            await asyncio.sleep(0.01)
        for pod in [pod for pod in lab.seen.pods.items.values() if not pod.spec.node_name]:
            await lab.client.delete(PODS, pod.metadata.name, "default", grace_seconds=0)
        await lab.until(lambda pods, _: len(pods) == 4)
        while [*waiting] or queue._backoffs or queue._timers:
            await asyncio.sleep(0.01)


async def test_events_without_an_answer_delay_no_pod(lab: Lab) -> None:
    lab.server.faults.add(Fault("create", "events", delay=3600, count=-1))
    async with Controllers(lab.client):
        for batch in range(10):
            names = [f"pod-{batch}-{i}" for i in range(4)]
            await lab.pods(*(builders.pod(name=name, templates=["template"]) for name in names))
            await lab.until_bound(4)
            for name in names:
                await lab.client.delete(PODS, name, "default", grace_seconds=0)
            await lab.until(lambda pods, _: not pods)
