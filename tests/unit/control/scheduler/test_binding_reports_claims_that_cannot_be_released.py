"""Unreserve and PostFilter on an API server that does not take what they write.

KEP-5004: "If the update or delete fails, the failure is logged, and continued."
"""

import asyncio

import pytest

from dradriver.cluster.apiserver import Fault
from dradriver.control.controllers import Controllers
from dradriver.kube import CLAIMS, PatchKind
from dradriver.model.core.workload import Pod, PodCondition
from dradriver.testing import builders
from tests.unit.control.conftest import Lab
from tests.unit.control.extended.test_special_claims_after_kills import begin, whole
from tests.unit.control.extended_pods import pod as extended_pod


def both_devices(kind: str, name: str) -> Pod:
    """A pod that takes all devices of a node."""
    return builders.pod(name, name=name) if kind == "a claim of its own" else extended_pod(name, gpu=2)


async def reported(lab: Lab, name: str) -> PodCondition:
    """The PodScheduled condition of a pod, as soon as it has one."""
    ref = f"default/{name}"
    async with asyncio.timeout(10):
        await lab.until(lambda pods, _: ref in pods and bool(pods[ref].status.conditions))
    return lab.seen.pods.items[ref].status.conditions[0]


@pytest.mark.parametrize("kind", ["a claim of its own", "extended resources"])
@pytest.mark.parametrize("code", [403, 500])
async def test_unreserve_goes_on_and_the_devices_are_given_to_nobody_else(
    lab: Lab, kind: str, code: int
) -> None:
    await begin(lab)
    for name in ("first", "second", "third"):
        claim = builders.claim(builders.device_request(count=2), name=name)
        await lab.client.create(CLAIMS, claim, "default", into=dict)
    binding = lab.server.faults.add(Fault("create", "pods/binding", code=422, delay=0.2, count=-1))
    releasing = Fault("patch", "resourceclaims/status", code=code, count=-1)
    held: list[list[str]] = []

    def watch(*_: object) -> None:
        held.append(lab.held())
        if held[-1] and releasing not in lab.server.faults.rules:
            lab.server.faults.add(releasing)

    lab.seen.claims.subscribe(watch)
    async with Controllers(lab.client):
        await lab.pods(both_devices(kind, "first"))
        condition = await reported(lab, "first")
        assert condition.reason == "SchedulerError"
        assert "Forbidden" in condition.message or "InternalError" in condition.message
        first = lab.held()
        assert len(first) == 2, "what can't be taken back stays where it is"
        binding.count = releasing.count = 0
        await lab.pods(both_devices(kind, "second"), both_devices(kind, "third"))
        await lab.until_bound(2)
    assert all(len(set(each)) == len(each) for each in held)
    if kind == "extended resources":
        whole(lab)


async def test_a_pod_learns_why_it_has_no_node_when_post_filter_fails(lab: Lab) -> None:
    claim = builders.claim()
    await lab.client.create(CLAIMS, claim, "default", into=dict)
    status = builders.allocated(claim, "device-0", node_name="gone").status
    await lab.client.patch(
        *(CLAIMS, claim.metadata.name, "default", {"status": status}, PatchKind.MERGE),
        into=dict,
        subresource="status",
    )
    refused = lab.server.faults.add(Fault("patch", "resourceclaims/status", code=403, count=-1))
    async with Controllers(lab.client):
        await lab.pods(builders.pod("claim-1"))
        condition = await reported(lab, "pod-1")
        assert "resourceclaim not available on the node" in condition.message
        refused.count = 0
        await lab.until_bound(1)
