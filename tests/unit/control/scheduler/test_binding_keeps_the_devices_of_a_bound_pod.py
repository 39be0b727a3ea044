"""Bind is stored, but its answer, the watch of pods, or both are late: nothing of that pod is taken back."""

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


async def pods_that_nobody_sees_change(lab: Lab, *claims: ResourceClaim) -> Fault:
    """A pod for each claim; whoever watches pods from now on sees them as they are now until the fault ends."""
    for claim in claims:
        await lab.client.create(CLAIMS, claim, "default", into=dict)
        await lab.pods(builders.pod(claim.metadata.name, name=claim.metadata.name))
    await lab.until(lambda pods, _: len(pods) == len(claims))
    return lab.server.faults.add(Fault(verb="watch", resource="pods", drop=True, count=-1))


def whole_nodes(*names: str) -> list[ResourceClaim]:
    return [builders.claim(builders.device_request(count=2), name=name) for name in names]


def as_seen_by(controllers: Controllers, lab: Lab) -> Lab:
    return Lab(lab.server, lab.client, controllers.caches)


async def set_condition(lab: Lab, name: str, kind: str) -> None:
    """What the controller of a driver says of the devices of a claim."""
    claim = lab.seen.claims.items[f"default/{name}"]
    said = [
        AllocatedDeviceStatus(
            driver=result.driver,
            pool=result.pool,
            device=result.device,
            conditions=[Condition(type=kind, status="True", reason="Told", last_transition_time=NOW)],
        )
        for result in claim.results
    ]
    body = {"status": {"devices": said}}
    await lab.client.patch(*(CLAIMS, name, "default", body, PatchKind.MERGE), into=dict, subresource="status")


def is_failed(claim: ResourceClaim) -> bool:
    return any(each.type == FAILED for device in claim.status.devices for each in device.conditions)


async def test_a_binding_whose_answers_are_all_lost_is_never_taken_back(lab: Lab) -> None:
    """Not even by the last of the writes without an answer that a plan may have."""
    watch = await pods_that_nobody_sees_change(lab, *whole_nodes("first", "second", "third"))
    lab.server.faults.add(Fault(verb="create", resource="pods/binding", count=-1, **LOST))
    users: list[set[str]] = []
    lab.seen.claims.subscribe(lambda *_: users.append({name.partition("/")[2] for name in lab.held()}))
    async with Controllers(lab.client) as controllers:
        theirs = as_seen_by(controllers, lab)
        await theirs.until(lambda pods, _: sum(bool(p.spec.node_name) for p in pods.values()) >= 2)
        bound = {ref: pod.metadata.uid for ref, pod in lab.seen.pods.items.items() if pod.spec.node_name}
        assert len(bound) == 2, "there are devices for two pods"
        await lab.until(lambda pods, _: any(pod.status.conditions for pod in pods.values()))
        for ref, uid in bound.items():
            claim = lab.seen.claims.items[ref]
            assert claim.allocation is not None
            assert [consumer.uid for consumer in claim.status.reserved_for] == [uid]
        watch.count = 0
        await lab.client.delete(PODS, next(iter(bound)).partition("/")[2], "default", grace_seconds=0)
        await lab.until_bound(2)
    assert len(set(lab.held())) == len(lab.held()) == 4


ANSWERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "told": ({"count": 0}, {"count": 0}),
    "lost": (LOST, {"drop": True, "count": -1}),
    "another one": ({"code": 409, "applied": True}, {"code": 403, "count": -1}),
}
"""What goes wrong with the answer to Bind, and with the reads after it."""


@pytest.mark.parametrize(("answer", "read"), ANSWERS.values(), ids=ANSWERS.keys())
async def test_a_device_that_fails_after_its_pod_was_bound_stays_with_the_pod(
    lab: Lab, answer: dict[str, Any], read: dict[str, Any]
) -> None:
    """The claim is known to have failed before the pod can be known to be bound."""
    await lab.client.create(SLICES, builders.slice_(slow_device(), driver=SLOW), into=dict)
    await lab.client.create(CLASSES, builders.device_class(SLOW), into=dict)
    await pods_that_nobody_sees_change(lab, builders.claim(builders.device_request(SLOW), name="first"))
    lab.server.faults.add(Fault(verb="create", resource="pods/binding", **answer))
    reads = lab.server.faults.add(Fault(verb="get", **read))
    async with Controllers(lab.client) as controllers:
        theirs = as_seen_by(controllers, lab)
        await lab.until(lambda *_: bool(lab.held()))
        await set_condition(lab, "first", ATTACHED)
        await lab.until_bound(1)
        await set_condition(lab, "first", FAILED)
        await theirs.until(lambda _, claims: is_failed(claims["default/first"]) or not theirs.held())
        reads.count = 0
        await theirs.until(lambda pods, _: bool(pods["default/first"].spec.node_name) or not theirs.held())
        assert theirs.held()
