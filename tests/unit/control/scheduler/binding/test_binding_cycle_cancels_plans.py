"""A plan is given up for a pod of higher priority, unless its pod may be bound already."""

from typing import cast

import pytest
from msgspec.structs import replace

from dradriver.control.runtime.caches import Caches
from dradriver.control.runtime.executor import Executor
from dradriver.control.scheduler.scheduler import Scheduler
from dradriver.control.scheduler.snapshot import Plan
from dradriver.kube import Client, EventRecorder
from dradriver.testing import builders

POD = builders.pod()


@pytest.mark.parametrize(
    ("state", "is_given_up"),
    [("planned", True), ("bind without an answer", False), ("bound", False), ("without a plan", True)],
)
async def test_a_plan_is_given_up_unless_its_pod_may_be_bound(state: str, is_given_up: bool) -> None:
    client = cast(Client, None)
    caches = Caches(client)
    scheduler = Scheduler(caches, Executor(client, caches, EventRecorder(client, "test")))
    node = "node-1" if state == "bound" else ""
    meta = replace(POD.metadata, resource_version="1")
    caches.pods.apply_written(replace(POD, metadata=meta, spec=replace(POD.spec, node_name=node)))
    if state != "without a plan":
        scheduler._view.set_plan(POD.ref, Plan(POD.metadata.uid, "node-1"))
        scheduler._attempts.begin_prebind(POD.ref)
    if state == "bind without an answer":
        scheduler._unconfirmed.add(POD.ref)
    assert scheduler.cancel_plan(POD.ref, "preempted") is is_given_up
    assert (POD.ref in scheduler._failures) is (state == "planned")
    assert scheduler.cancel_plan(POD.ref, "preempted again") is is_given_up
