"""Bind is stored, but its answer or the watch of pods is late: the pod keeps its devices."""

from typing import Any

import pytest

from dradriver.cluster.apiserver import Fault
from dradriver.control.controllers import Controllers
from dradriver.kube import CLAIMS, CLASSES, PODS, SLICES, PatchKind
from dradriver.model.core.meta import Condition
from dradriver.model.resource.claim import AllocatedDeviceStatus, ResourceClaim
from dradriver.testing import builders
from tests.unit.control.conftest import Lab
from tests.unit.control.world import ATTACHED, FAILED, NOW, slow_device

SLOW = "slow.example.com"
LOST: dict[str, Any] = {"drop": True, "applied": True}


async def create_pods_and_stop_the_watch(lab: Lab, *claims: ResourceClaim) -> Fault:
    """Create a pod for each claim, and stop all watches of pods until the fault ends."""
    for claim in claims:
        await lab.client.create(CLAIMS, claim, "default", into=dict)
        await lab.pods(builders.pod(claim.metadata.name, name=claim.metadata.name))
    await lab.until(lambda pods, _: len(pods) == len(claims))
    return lab.server.faults.add(Fault(verb="watch", resource="pods", drop=True, count=-1))


def claims_for_all_devices(*names: str) -> list[ResourceClaim]:
    return [builders.claim(builders.device_request(count=2), name=name) for name in names]


def with_caches_of(controllers: Controllers, lab: Lab) -> Lab:
    return Lab(lab.server, lab.folder, lab.client, controllers.caches)


async def set_condition(lab: Lab, name: str, kind: str) -> None:
    """Set a condition of all devices of a claim, as a driver's controller does."""
    claim = lab.seen.claims.items[f"default/{name}"]
    devices = [
        AllocatedDeviceStatus(
            driver=result.driver,
            pool=result.pool,
            device=result.device,
            conditions=[Condition(type=kind, status="True", reason="Test", last_transition_time=NOW)],
        )
        for result in claim.results
    ]
    body = {"status": {"devices": devices}}
    await lab.client.patch(*(CLAIMS, name, "default", body, PatchKind.MERGE), into=dict, subresource="status")


def is_failed(claim: ResourceClaim) -> bool:
    return any(each.type == FAILED for device in claim.status.devices for each in device.conditions)


async def test_a_binding_whose_answers_are_all_lost_is_not_reverted(lab: Lab) -> None:
    """It is also not reverted after the last attempt of the plan."""
    watch = await create_pods_and_stop_the_watch(lab, *claims_for_all_devices("first", "second", "third"))
    lab.server.faults.add(Fault(verb="create", resource="pods/binding", count=-1, **LOST))
    users: list[set[str]] = []
    lab.seen.claims.subscribe(lambda *_: users.append({name.partition("/")[2] for name in lab.held()}))
    async with Controllers(lab.client) as controllers:
        watched = with_caches_of(controllers, lab)
        await watched.until(lambda pods, _: sum(bool(p.spec.node_name) for p in pods.values()) >= 2)
        bound = {ref: pod.metadata.uid for ref, pod in lab.seen.pods.items.items() if pod.spec.node_name}
        assert len(bound) == 2, "there are devices for two pods"
        await lab.until(lambda pods, _: any(pod.status.conditions for pod in pods.values()))
        for ref, uid in bound.items():
            claim = lab.seen.claims.items[ref]
            assert claim.allocation is not None
            assert [consumer.uid for consumer in claim.status.reserved_for] == [uid]
        watch.count = 0
        ended = next(iter(bound))
        await lab.client.delete(PODS, ended.partition("/")[2], "default", grace_seconds=0)
        await lab.until(lambda pods, _: ended not in pods)
        await lab.until_bound(2)
    assert len(set(lab.held())) == len(lab.held()) == 4


ANSWERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "received": ({"count": 0}, {"count": 0}),
    "lost": (LOST, {"drop": True, "count": -1}),
    "conflict, then forbidden": ({"code": 409, "applied": True}, {"code": 403, "count": -1}),
}
"""Faults of the answer to Bind, and of the reads after it."""


@pytest.mark.parametrize(("answer", "read"), ANSWERS.values(), ids=ANSWERS.keys())
async def test_a_bound_pod_keeps_a_device_that_fails_later(
    lab: Lab, answer: dict[str, Any], read: dict[str, Any]
) -> None:
    """The scheduler sees the failed claim before it sees that the pod is bound."""
    await lab.client.create(SLICES, builders.slice_(slow_device(), driver=SLOW), into=dict)
    await lab.client.create(CLASSES, builders.device_class(SLOW), into=dict)
    await create_pods_and_stop_the_watch(lab, builders.claim(builders.device_request(SLOW), name="first"))
    lab.server.faults.add(Fault(verb="create", resource="pods/binding", **answer))
    reads = lab.server.faults.add(Fault(verb="get", **read))
    async with Controllers(lab.client) as controllers:
        watched = with_caches_of(controllers, lab)
        await lab.until(lambda *_: bool(lab.held()))
        await set_condition(lab, "first", ATTACHED)
        await lab.until_bound(1)
        await set_condition(lab, "first", FAILED)
        await watched.until(lambda _, claims: is_failed(claims["default/first"]) or not watched.held())
        reads.count = 0
        await watched.until(lambda pods, _: bool(pods["default/first"].spec.node_name) or not watched.held())
        assert watched.held()
