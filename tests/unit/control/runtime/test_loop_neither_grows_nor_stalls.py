"""Pods and claims that come and go leave nothing behind; one slow part holds up no other."""

import asyncio

from dradriver.cluster.apiserver import Fault
from dradriver.control.controllers import Controllers
from dradriver.kube import CLASSES, PODS
from dradriver.testing import builders
from tests.unit.control.conftest import Lab


async def test_pods_that_never_ran_leave_nothing_behind(lab: Lab) -> None:
    async with Controllers(lab.client) as controllers:
        await lab.pods(*(builders.pod(name=f"pod-{i}", templates=["template"]) for i in range(8)))
        await lab.until_bound(4)
        await lab.until(lambda pods, _: all(p.spec.node_name or p.status.conditions for p in pods.values()))
        queue = controllers._scheduler._loop.queue
        await lab.client.create(CLASSES, builders.device_class("other"), into=dict)  # wakes them in vain
        async with asyncio.timeout(5):
            while not queue._backoffs or queue._timers or queue._queued or queue._working:
                await asyncio.sleep(0.01)
        for pod in [pod for pod in lab.seen.pods.items.values() if not pod.spec.node_name]:
            await lab.client.delete(PODS, pod.metadata.name, "default", grace_seconds=0)
        await lab.until(lambda pods, _: len(pods) == 4)
        async with asyncio.timeout(5):
            while queue._backoffs:
                await asyncio.sleep(0.01)


async def test_events_that_nobody_answers_hold_up_no_pod(lab: Lab) -> None:
    lab.server.faults.add(Fault("create", "events", delay=3600, count=-1))
    async with Controllers(lab.client):
        for batch in range(10):
            names = [f"pod-{batch}-{i}" for i in range(4)]
            await lab.pods(*(builders.pod(name=name, templates=["template"]) for name in names))
            await lab.until_bound(4)
            for name in names:
                await lab.client.delete(PODS, name, "default", grace_seconds=0)
            await lab.until(lambda pods, _: not pods)
