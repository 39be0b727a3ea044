"""Special claims (KEP-5004) on an API server with faults, with a scheduler that is killed."""

import asyncio
import random
from typing import Any

import pytest

from dradriver.cluster.apiserver import Fault
from dradriver.control.controllers import Controllers
from dradriver.control.queueing.attempts import Attempts
from dradriver.kube import CLAIMS, CLASSES, NODES, PODS
from dradriver.model.resource.claim import ResourceClaim
from dradriver.testing import builders
from tests.unit.control.conftest import Lab
from tests.unit.control.extended_pods import container, gpu_class, plugin_node, pod

WRITES = [
    ("create", "resourceclaims"),
    ("patch", "resourceclaims"),
    ("patch", "resourceclaims/status"),
    ("patch", "pods/status"),
    ("create", "pods/binding"),
]
FAULTS: dict[str, dict[str, Any]] = {
    "conflict": {"code": 409},
    "error": {"code": 500},
    "too many requests": {"code": 429},
    "error after it was carried out": {"code": 500, "applied": True},
    "answer lost": {"drop": True, "applied": True},
}


async def create_class(lab: Lab) -> None:
    await lab.client.create(CLASSES, gpu_class("gpu"), into=dict)


def check_claims(lab: Lab) -> None:
    """Check that each bound pod has the claim that its status names, and its own devices."""
    claims = lab.seen.claims.items
    for each in lab.seen.pods.items.values():
        status = each.status.extended_resource_claim_status
        if each.spec.node_name.startswith("node-"):
            assert status is not None
            claim = claims[f"default/{status.resource_claim_name}"]
            assert [consumer.uid for consumer in claim.status.reserved_for] == [each.metadata.uid]
    held = lab.held()
    assert len(set(held)) == len(held)


@pytest.mark.parametrize(("verb", "resource"), WRITES)
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
async def test_a_failed_write_is_retried(lab: Lab, verb: str, resource: str, fault: dict[str, Any]) -> None:
    await create_class(lab)
    lab.server.faults.add(Fault(verb=verb, resource=resource, count=2, **fault))
    async with Controllers(lab.client):
        await lab.pods(pod("pod-1", gpu=1, init=(container("setup", gpu=2),)), pod("pod-2", implicit=2))
        await lab.until_bound(2)
        await lab.until(lambda _, claims: len(claims) == 2)
    check_claims(lab)
    assert len(lab.held()) == 4


async def test_a_rejected_binding_deletes_the_claim(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    await create_class(lab)
    backoffs: list[tuple[str, float]] = []
    back_off = Attempts.back_off

    def record_backoff(attempts: Attempts, key: str) -> float:
        backoffs.append((key, back_off(attempts, key)))
        return backoffs[-1][1]

    monkeypatch.setattr(Attempts, "back_off", record_backoff)
    lab.server.faults.add(Fault(verb="create", resource="pods/binding", code=422, count=1))
    deleted: list[str] = []
    lab.seen.claims.subscribe(lambda _kind, old, new: deleted.append(old.ref) if old and new is None else None)
    async with Controllers(lab.client) as controllers:
        await lab.pods(pod(gpu=1))
        await lab.until(lambda pods, _: any(each.status.conditions for each in pods.values()))
        await lab.until_bound(1)
    key, backoff = backoffs[0]
    assert key == "default/pod-1"
    assert backoff > 0
    labels = {"profile": "default-scheduler", "status": "error", "requires_bindingconditions": "false"}
    name = "scheduler_dra_bindingconditions_prebind_duration_seconds_count"
    assert controllers.metrics.registry.get_sample_value(name, labels) == 1
    assert len(deleted) == 1
    check_claims(lab)


async def test_deleting_a_pod_during_binding_deletes_its_claim(lab: Lab) -> None:
    await create_class(lab)
    lab.server.faults.add(Fault(verb="create", resource="pods/binding", code=409, count=-1))
    async with Controllers(lab.client):
        await lab.pods(pod(gpu=2))
        await lab.until(lambda _, claims: bool(lab.held()))
        await lab.client.delete(PODS, "pod-1", "default", grace_seconds=0)
        await lab.until(lambda pods, claims: not pods and not claims)


async def test_no_two_claims_have_one_device_and_no_device_is_leaked(lab: Lab) -> None:
    """The scheduler is killed at random times, between writes and within them."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    await create_class(lab)
    await lab.client.create(NODES, plugin_node("plugin", 1), into=dict)
    held: dict[tuple[str, str], str] = {}
    twice: list[str] = []

    def replay(_kind: object, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        for result in old.results if old else ():
            held.pop((result.pool, result.device), None)
        for result in new.results if new else ():
            device = (result.pool, result.device)
            if new is not None and held.setdefault(device, new.ref) != new.ref:
                twice.append(f"{device}: {held[device]} and {new.ref}")

    lab.seen.claims.subscribe(replay)
    await lab.pods(*(pod(f"pod-{i}", gpu=1, init=(container("setup", gpu=i % 2),)) for i in range(5)))
    for _ in range(10):
        async with Controllers(lab.client):
            await asyncio.sleep(chance.random() * 0.04)
    async with Controllers(lab.client):
        await lab.until_bound(5)
        check_claims(lab)
        for name in [pod.metadata.name for pod in lab.seen.pods.items.values()]:
            await lab.client.delete(PODS, name, "default", grace_seconds=0)
        await lab.until(lambda pods, claims: not pods and not claims)
    assert not twice
    assert not held


@pytest.mark.parametrize("kind", ["a claim of its own", "extended resources"])
async def test_devices_of_a_write_in_flight_for_a_deleted_pod_are_not_reallocated(lab: Lab, kind: str) -> None:
    """An allocation may be stored after its pod is deleted. Until then its devices stay assumed."""
    await create_class(lab)
    lab.server.faults.add(Fault(verb="patch", resource="resourceclaims/status", delay=0.5, count=1))
    own = kind == "a claim of its own"
    if own:
        both = builders.claim(builders.device_request(count=2), name="first")
        await lab.client.create(CLAIMS, both, "default", into=dict)
    first = builders.pod("first", name="first") if own else pod("first", gpu=2)
    held: list[list[str]] = []
    allocated: list[str] = []

    def replay(_kind: object, _old: object, new: ResourceClaim | None) -> None:
        held.append(lab.held())
        if new is not None and new.metadata.name == "first" and new.allocation is not None:
            allocated.append(new.ref)

    lab.seen.claims.subscribe(replay)
    async with Controllers(lab.client):
        await lab.pods(first)
        await lab.until(lambda _, claims: any(claim.metadata.finalizers for claim in claims.values()))
        await lab.client.delete(PODS, "first", "default", grace_seconds=0)
        await lab.pods(pod("second", gpu=2), pod("third", gpu=2))
        await lab.until(lambda _, claims: bool(allocated) if own else not any("first" in ref for ref in claims))
        await lab.until_bound(2)
    assert all(len(set(each)) == len(each) for each in held)


async def test_an_unconfirmed_write_is_read_back_before_its_devices_are_reallocated(lab: Lab) -> None:
    """The write is stored, its answer is lost, the watch is late, and the pod is deleted."""
    await create_class(lab)
    both = builders.claim(builders.device_request(count=2), name="first")
    await lab.client.create(CLAIMS, both, "default", into=dict)
    late = Fault(verb="watch", resource="resourceclaims", delay=1.5, count=1)
    slow = Fault(verb="get", resource="resourceclaims", delay=0.1, count=-1)
    lost = Fault(verb="patch", resource="resourceclaims/status", drop=True, applied=True)
    away = Fault(verb="patch", resource="resourceclaims/status", code=500, count=-1)
    for fault in (late, slow, lost, away):
        lab.server.faults.add(fault)
    held: list[list[str]] = []
    lab.seen.claims.subscribe(lambda *_: held.append(lab.held()))
    async with Controllers(lab.client):
        await lab.pods(builders.pod("first", name="first"))
        await lab.until(lambda *_: bool(lab.held()))
        await lab.client.delete(PODS, "first", "default", grace_seconds=0)
        await lab.pods(pod("second", gpu=2), pod("third", gpu=2))
        await lab.until(lambda pods, _: "default/first" not in pods)
        away.count = slow.count = 0
        await lab.until_bound(2)
    assert all(len(set(each)) == len(each) for each in held)


async def test_writes_that_always_fail_do_not_keep_devices_allocated(lab: Lab) -> None:
    await create_class(lab)
    fault = lab.server.faults.add(Fault(verb="create", resource="pods/binding", code=500, count=-1))
    async with Controllers(lab.client):
        await lab.pods(pod(gpu=2))
        await lab.until(lambda *_: bool(lab.held()))
        await lab.until(lambda pods, _: any(each.status.conditions for each in pods.values()))
        assert not lab.held()
        fault.count = 0
        await lab.until_bound(1)
    check_claims(lab)
