"""Claim controller and scheduler on an API server that rejects writes, fails, and loses answers."""

import asyncio
import random
from typing import Any

import msgspec
import pytest

from dradriver.cluster.apiserver import Fault
from dradriver.control.controllers import Controllers
from dradriver.kube import CLAIMS, CLASSES, EVENTS, NODES, PODS, SLICES, PatchKind
from dradriver.model.encoding.codec import canonical
from dradriver.model.resource.claim import CLAIM_FINALIZER, MAX_RESERVED_FOR, ConsumerReference, OpaqueConfig
from dradriver.testing import builders
from tests.unit.control.conftest import Lab

WRITES = [
    ("create", "resourceclaims"),
    ("patch", "pods/status"),
    ("patch", "resourceclaims"),
    ("patch", "resourceclaims/status"),
    ("create", "pods/binding"),
]


async def test_each_pod_gets_its_own_device(lab: Lab) -> None:
    async with Controllers(lab.client):
        await lab.pods(*(builders.pod(name=f"pod-{i}", templates=["template"]) for i in range(4)))
        await lab.until_bound(4)
    assert len(set(lab.held())) == 4
    for claim in lab.seen.claims.items.values():
        assert claim.metadata.finalizers == [CLAIM_FINALIZER]


async def test_an_unschedulable_pod_has_a_condition_and_delays_no_other(lab: Lab) -> None:
    claim = builders.claim(builders.device_request("nowhere"))
    await lab.client.create(CLAIMS, claim, "default", into=dict)
    async with Controllers(lab.client):
        await lab.pods(builders.pod("claim-1", name="waits"), builders.pod(name="runs", templates=["template"]))
        await lab.until_bound(1)
        await lab.until(lambda pods, _: bool(pods["default/waits"].status.conditions))
        (condition,) = lab.seen.pods.items["default/waits"].status.conditions
        assert (condition.type, condition.status, condition.reason) == (
            "PodScheduled",
            "False",
            "Unschedulable",
        )
        assert "device class nowhere does not exist" in condition.message
        await lab.client.create(CLASSES, builders.device_class("nowhere", "true"), into=dict)
        await lab.until_bound(2)
        wanted = {("waits", "FailedScheduling"), ("waits", "Scheduled"), ("runs", "Scheduled")}
        while not wanted <= await event_reasons(lab):
            await asyncio.sleep(0.01)


async def event_reasons(lab: Lab) -> set[tuple[str, str]]:
    """Return the name of the object and the reason of each event."""
    events = (await lab.client.list(EVENTS, "default", into=dict)).items
    return {(event["involvedObject"]["name"], event["reason"]) for event in events}


async def test_a_change_that_helps_wakes_an_unschedulable_pod(lab: Lab) -> None:
    """A slice, a node that is uncordoned, devices that become free."""
    for name in ("node-1", "node-2"):
        cordon = {"spec": {"unschedulable": True}}
        await lab.client.patch(NODES, name, "", cordon, PatchKind.MERGE, into=dict)
    async with Controllers(lab.client):
        await lab.pods(*(builders.pod(name=f"pod-{i}", templates=["template"]) for i in range(4)))
        await lab.until(lambda pods, _: len(pods) == 4 and all(p.status.conditions for p in pods.values()))
        uncordon = {"spec": {"unschedulable": None}}
        await lab.client.patch(NODES, "node-1", "", uncordon, PatchKind.MERGE, into=dict)
        await lab.until_bound(2)
        more = builders.slice_(builders.device(), node_name="node-1", driver="other.example.com")
        await lab.client.create(SLICES, more, into=dict)
        await lab.client.create(CLASSES, builders.device_class("other.example.com"), into=dict)
        request = builders.device_request("other.example.com")
        await lab.client.create(CLAIMS, builders.claim(request), "default", into=dict)
        await lab.pods(builders.pod("claim-1", name="other"))
        await lab.until_bound(3)
        bound = next(p for p in lab.seen.pods.items.values() if p.spec.node_name and p.spec.resource_claims)
        await lab.client.delete(PODS, bound.metadata.name, "default", grace_seconds=0)
        await lab.until(
            lambda pods, _: bound.ref not in pods and sum(bool(p.spec.node_name) for p in pods.values()) == 3
        )
    assert len(set(lab.held())) == len(lab.held()) == 3


@pytest.mark.parametrize(("verb", "resource"), WRITES)
@pytest.mark.parametrize(
    "fault",
    [
        {"code": 409},
        {"code": 500},
        {"code": 500, "applied": True},
        {"drop": True, "applied": True},
    ],
    ids=["conflict", "error", "error after it was carried out", "answer lost"],
)
async def test_a_failed_write_is_retried(lab: Lab, verb: str, resource: str, fault: dict[str, Any]) -> None:
    lab.server.faults.add(Fault(verb=verb, resource=resource, count=2, **fault))
    async with Controllers(lab.client):
        await lab.pods(*(builders.pod(name=f"pod-{i}", templates=["template"]) for i in range(2)))
        await lab.until_bound(2)
        assert len(lab.seen.claims.items) == 2, "one claim for each pod"
        assert len(set(lab.held())) == 2


async def test_a_rejected_write_releases_the_devices(lab: Lab) -> None:
    """The plan is reverted and reported, and the pod is tried again later."""
    lab.server.faults.add(Fault(verb="create", resource="pods/binding", code=422, count=1))
    async with Controllers(lab.client):
        await lab.pods(builders.pod(templates=["template"]))
        await lab.until(lambda pods, _: any(p.status.conditions for p in pods.values()))
        await lab.until_bound(1)
    assert len(lab.held()) == 1


async def test_opaque_parameters_stay_unchanged_by_all_writes(lab: Lab) -> None:
    """They contain null and unsorted keys. The API server compares them byte by byte and rejects a change."""
    parameters = b'{"b":null,"a":{"z":1,"y":"\\u003c"}}'
    claim = builders.claim(configs=[OpaqueConfig(builders.DRIVER, msgspec.Raw(b'{"x":1}'))])
    body = canonical(claim).replace(b'{"x":1}', parameters)
    await lab.client.create(CLAIMS, body, "default", into=dict)
    async with Controllers(lab.client):
        await lab.pods(builders.pod("claim-1"))
        await lab.until_bound(1)
        stored = await lab.client.get(CLAIMS, "claim-1", "default", into=bytes)
        assert stored.count(parameters) >= 1
        allocated = lab.seen.claims.items["default/claim-1"].allocation
        assert allocated is not None
        (config,) = allocated.devices.config
        assert config.opaque is not None
        assert b'"b":null' in bytes(config.opaque.parameters)
        await lab.client.delete(PODS, "pod-1", "default", grace_seconds=0)
        await lab.until(lambda _, claims: claims["default/claim-1"].allocation is None)


async def test_controllers_continue_after_a_kill_at_any_time(lab: Lab) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    await lab.pods(*(builders.pod(name=f"pod-{i}", templates=["template", "template"]) for i in range(3)))
    for _ in range(8):
        async with Controllers(lab.client):
            await asyncio.sleep(chance.random() * 0.05)
    async with Controllers(lab.client):
        await lab.until_bound(2)
        await lab.until(lambda pods, claims: len(claims) == 6)
        bound = [pod for pod in lab.seen.pods.items.values() if pod.spec.node_name]
        assert len(set(lab.held())) == len(lab.held()) == 4
        await lab.client.delete(PODS, bound[0].metadata.name, "default", grace_seconds=0)
        await lab.until(lambda pods, claims: len(claims) == 4 and all(p.spec.node_name for p in pods.values()))
    assert len(set(lab.held())) == len(lab.held()) == 4


async def test_a_pod_is_bound_when_a_full_shared_claim_has_room(lab: Lab) -> None:
    async with Controllers(lab.client):
        await lab.client.create(CLAIMS, builders.claim(), "default", into=dict)
        await lab.pods(builders.pod("claim-1", name="first"))
        await lab.until_bound(1)
        (first,) = lab.seen.claims.items["default/claim-1"].status.reserved_for
        others = [
            ConsumerReference(api_group="example.com", resource="jobs", name=f"job-{i}", uid=f"job-{i}")
            for i in range(MAX_RESERVED_FOR - 1)
        ]
        await reserve(lab, first, *others)
        await lab.pods(builders.pod("claim-1", name="last"))
        await lab.until(lambda pods, _: any(c.message for p in pods.values() for c in p.status.conditions))
        (condition,) = lab.seen.pods.items["default/last"].status.conditions
        assert "resourceclaim in use" in condition.message
        await reserve(lab, first, *others[1:])
        await lab.until_bound(2)
    assert len(lab.seen.claims.items["default/claim-1"].status.reserved_for) == MAX_RESERVED_FOR


async def reserve(lab: Lab, *consumers: ConsumerReference) -> None:
    """Write the consumers of the claim."""
    body = {"status": {"reservedFor": consumers}}
    await lab.client.patch(
        *(CLAIMS, "claim-1", "default", body, PatchKind.MERGE), into=dict, subresource="status"
    )


async def test_the_reservation_of_a_pod_that_was_deleted_before_the_start_is_released(lab: Lab) -> None:
    await lab.client.create(CLAIMS, builders.claim(), "default", into=dict)
    async with Controllers(lab.client):
        await lab.pods(builders.pod("claim-1"), builders.pod(name="other", templates=["template"]))
        await lab.until_bound(2)
    for name in ("pod-1", "other"):
        await lab.client.delete(PODS, name, "default", grace_seconds=0)
    await lab.until(lambda pods, _: not pods)
    async with Controllers(lab.client):
        await lab.until(lambda _, claims: list(claims) == ["default/claim-1"] and not lab.held())


async def test_a_pod_that_is_deleted_during_binding_releases_its_devices(lab: Lab) -> None:
    """Its plan is reverted."""
    lab.server.faults.add(Fault(verb="create", resource="pods/binding", code=409, count=-1))
    async with Controllers(lab.client):
        await lab.client.create(CLAIMS, builders.claim(), "default", into=dict)
        await lab.pods(builders.pod("claim-1"))
        await lab.until(lambda _, claims: bool(lab.held()))
        await lab.client.delete(PODS, "pod-1", "default", grace_seconds=0)
        await lab.until(lambda _, claims: claims["default/claim-1"].allocation is None)
        lab.server.faults.clear()
        await lab.pods(*(builders.pod(name=f"next-{i}", templates=["template"]) for i in range(4)))
        await lab.until_bound(4)
