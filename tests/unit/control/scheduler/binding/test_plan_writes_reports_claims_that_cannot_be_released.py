"""Unreserve and PostFilter on an API server that rejects their writes.

KEP-5004: "If the update or delete fails, the failure is logged, and continued."
"""

import pytest

from dradriver.cluster.apiserver import Fault
from dradriver.control.controllers import Controllers
from dradriver.control.settings import SchedulerSettings
from dradriver.kube import CLAIMS, PatchKind
from dradriver.model.core.workload import Pod, PodCondition
from dradriver.testing import builders
from tests.unit.control.conftest import Lab
from tests.unit.control.extended.test_special_after_kills import check_claims, create_class
from tests.unit.control.extended_pods import pod as extended_pod

SOON = SchedulerSettings(pod_backoff=(0.05, 0.2))


def both_devices(kind: str, name: str) -> Pod:
    """Return a pod that needs all devices of a node."""
    return builders.pod(name, name=name) if kind == "a claim of its own" else extended_pod(name, gpu=2)


async def reported(lab: Lab, name: str) -> PodCondition:
    """Wait for the PodScheduled condition of a pod and return it."""
    ref = f"default/{name}"
    await lab.until(lambda pods, _: ref in pods and bool(pods[ref].status.conditions))
    return lab.seen.pods.items[ref].status.conditions[0]


@pytest.mark.parametrize("kind", ["a claim of its own", "extended resources"])
@pytest.mark.parametrize("code", [403, 500])
async def test_after_a_failed_release_the_devices_stay_allocated(lab: Lab, kind: str, code: int) -> None:
    await create_class(lab)
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
    async with Controllers(lab.client, SOON):
        await lab.pods(both_devices(kind, "first"))
        condition = await reported(lab, "first")
        assert condition.reason == "SchedulerError"
        assert "Forbidden" in condition.message or "InternalError" in condition.message
        first = lab.held()
        assert len(first) == 2, "a claim that cannot be released stays allocated"
        binding.count = releasing.count = 0
        await lab.pods(both_devices(kind, "second"), both_devices(kind, "third"))
        await lab.until_bound(2)
    assert all(len(set(each)) == len(each) for each in held)
    if kind == "extended resources":
        check_claims(lab)


async def test_a_failed_post_filter_is_reported_in_the_pod_condition(lab: Lab) -> None:
    claim = builders.claim()
    await lab.client.create(CLAIMS, claim, "default", into=dict)
    status = builders.allocated(claim, "device-0", node_name="gone").status
    await lab.client.patch(
        *(CLAIMS, claim.metadata.name, "default", {"status": status}, PatchKind.MERGE),
        into=dict,
        subresource="status",
    )
    refused = lab.server.faults.add(Fault("patch", "resourceclaims/status", code=403, count=-1))
    async with Controllers(lab.client, SOON):
        await lab.pods(builders.pod("claim-1"))
        condition = await reported(lab, "pod-1")
        assert "resourceclaim not available on the node" in condition.message
        refused.count = 0
        await lab.until_bound(1)
