"""A pod that is bound, but whose claims have no devices for it, gets an Event."""

import itertools
from typing import Any, Final, cast

import pytest
from msgspec.structs import replace

from dradriver.control.claims.pod_claims import consumer_of
from dradriver.control.conflicts.late_bindings import LateBindingController, find_claim_without_devices
from dradriver.control.controllers import Controllers
from dradriver.control.runtime.actions import Action, Bind, EmitEvent, LookUpPlan, NextAction
from dradriver.control.runtime.caches import Caches
from dradriver.control.runtime.executor import Executor
from dradriver.control.runtime.metrics import ControlMetrics
from dradriver.kube import CLAIMS, PODS, Cache, Client, EventRecorder
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.testing import builders
from tests.unit.control.conftest import Lab, lab
from tests.unit.control.events import wait_for_event

__all__ = ["lab"]

POD: Final = builders.pod("claim-1")
BOUND: Final = replace(POD, spec=replace(POD.spec, node_name="node-1"))


def allocated(node: str = "node-1", *, is_reserved: bool = True) -> ResourceClaim:
    claim = builders.allocated(builders.claim(), "device-0", node_name=node)
    consumers = [consumer_of(POD)] if is_reserved else []
    return replace(claim, status=replace(claim.status, reserved_for=consumers))


@pytest.mark.parametrize(
    ("claim", "problem"),
    [
        (allocated(), ""),
        (builders.claim(), "resourceclaim default/claim-1 is not allocated"),
        (allocated("node-2"), "resourceclaim default/claim-1 is allocated on node node-2"),
        pytest.param(allocated(is_reserved=False), "", id="kube-controller-manager reserves the claim"),
    ],
)
def test_a_bound_pod_needs_its_claims_allocated_on_its_node(claim: ResourceClaim, problem: str) -> None:
    assert find_claim_without_devices(BOUND, {claim.ref: claim}, {}) == problem
    assert find_claim_without_devices(POD, {claim.ref: claim}, {}) == ""
    for phase in ("Running", "Succeeded"):
        started = replace(BOUND, status=replace(BOUND.status, phase=phase))
        assert find_claim_without_devices(started, {claim.ref: claim}, {}) == ""


def test_a_classic_claim_of_a_bound_pod_is_allocated_by_its_controller_later() -> None:
    name = "a.example.com"
    classes = {name: builders.controller_class(name, controller=name)}
    claim = builders.claim(builders.device_request(name))
    assert find_claim_without_devices(BOUND, {claim.ref: claim}, classes) == ""


class Cluster:
    """Caches without an API server, and a controller whose actions are recorded.

    Attributes:
        stored: the claim in the API server, which may be newer than the claim in the cache.
    """

    def __init__(self, stored: ResourceClaim) -> None:
        self.caches = Caches(cast(Client, None))
        self.stored = stored
        self.actions: list[Action] = []
        self.controller = LateBindingController(self.caches, cast(Executor, self), ControlMetrics())
        self._versions = itertools.count(1)
        self.put(self.caches.claims, builders.claim())
        self.put(self.caches.pods, BOUND)

    def put(self, cache: Cache[Any], item: Any) -> None:
        meta = replace(item.metadata, resource_version=str(next(self._versions)))
        cache.apply_written(replace(item, metadata=meta))

    async def execute(self, action: Action) -> bool:
        self.actions.append(action)
        if isinstance(action, LookUpPlan):
            meta = replace(self.stored.metadata, uid=action.claims[0].metadata.uid)
            self.put(self.caches.claims, replace(self.stored, metadata=meta))
        return True

    async def run(self) -> list[type[Action]]:
        while True:
            step = await self.controller.decide(BOUND.ref)
            if step.action is not None:
                await self.controller._carry_out(step.action)
            if step.next is NextAction.DONE:
                return [type(action) for action in self.actions]


async def test_the_event_is_written_once_after_the_claims_were_read() -> None:
    cluster = Cluster(builders.claim())
    assert await cluster.run() == [LookUpPlan, EmitEvent]
    assert await cluster.run() == [LookUpPlan, EmitEvent]


async def test_a_pod_is_not_reported_if_only_the_claims_in_the_cache_are_old() -> None:
    assert await Cluster(allocated()).run() == [LookUpPlan]


def test_a_pod_is_checked_when_its_claim_is_released() -> None:
    cluster = Cluster(builders.claim())
    cluster.put(cluster.caches.claims, allocated())
    queue = cluster.controller._loop.queue
    assert list(queue.queued) == [BOUND.ref], "the pod was bound"
    other = replace(POD, metadata=replace(POD.metadata, name="other"))
    shared = replace(allocated().status, reserved_for=[consumer_of(POD), consumer_of(other)])
    cluster.put(cluster.caches.claims, replace(allocated(), status=shared))
    cluster.put(cluster.caches.claims, allocated(is_reserved=False))
    assert set(queue.queued) == {BOUND.ref, "default/other"}


async def test_a_late_binding_of_a_former_leader_is_reported(lab: Lab) -> None:
    claim = builders.claim(builders.device_request(count=9))
    await lab.client.create(CLAIMS, claim, "default", into=dict)
    async with Controllers(lab.client), EventRecorder(lab.client, "former") as recorder:
        await lab.pods(POD)
        await wait_for_event(lab.client, "cannot allocate all claims")
        pod = await lab.client.get(PODS, POD.metadata.name, "default", into=Pod)
        former = Executor(lab.client, Caches(lab.client), recorder)
        assert await former.execute(Bind(pod, "node-1"))
        event = await wait_for_event(lab.client, "is not allocated")
    assert (event.type, event.reason, event.involved_object.name) == ("Warning", "BoundWithoutDevices", "pod-1")
    assert event.message == (
        "the pod is bound to node node-1, but resourceclaim default/claim-1 is not allocated; "
        "the pod cannot start: delete it"
    )
