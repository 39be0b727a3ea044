"""The API server fails, loses answers or cuts watches, and pods and claims still converge."""

from pathlib import Path
from typing import Any

import pytest

from dradriver.cluster.apiserver import ApiServer, Fault
from dradriver.kube import NODES
from tests.conformance.kubelet.embedded import EmbeddedNode
from tests.conformance.kubelet.lab import Lab


@pytest.mark.parametrize(
    "fault",
    [
        Fault("patch", "pods/status", code=500, count=2),
        Fault("patch", "pods/status", drop=True, applied=True, count=2),
        Fault("patch", "pods/status", code=409, count=1),
        Fault("create", "events", code=500, count=-1),
        Fault("watch", "pods", after=1, count=3),
    ],
    ids=str,
)
async def test_a_pod_starts_and_ends_despite(lab: Lab, api: ApiServer, fault: Fault) -> None:
    async with lab.registered() as driver:
        await lab.claim("claim")
        api.faults.add(fault)
        await lab.pod("pod", "claim")
        await lab.phase("pod", "Running")
        await lab.delete_pod("pod")
        await lab.gone("pod")
        assert driver.unprepares == [["claim"]]


async def test_a_failed_read_of_a_claim_is_retried(lab: Lab, api: ApiServer) -> None:
    await lab.claim("claim")
    await lab.pod("pod", "claim")
    await lab.event("pod", "FailedPrepareDynamicResources", "is not registered")
    api.faults.add(Fault("get", "resourceclaims", code=403, count=2))
    async with lab.registered():
        await lab.event("pod", "FailedPrepareDynamicResources", "fetch ResourceClaim claim")
        await lab.phase("pod", "Running")


async def test_a_failed_removal_of_a_pod_is_retried(lab: Lab, api: ApiServer) -> None:
    async with lab.registered() as driver:
        await lab.claim("claim")
        await lab.pod("pod", "claim")
        await lab.phase("pod", "Running")
        driver.unprepare_errors["claim"] = "not now"
        await lab.delete_pod("pod")
        fault = api.faults.add(Fault("delete", "pods", code=500, count=2))
        driver.unprepare_errors.clear()
        await lab.gone("pod")
        assert fault.count == 0


async def test_a_deleted_node_is_created_again(lab: Lab) -> None:
    await lab.client.delete(NODES, lab.node.name)

    async def there() -> bool:
        listed = await lab.client.list(NODES, into=dict[str, Any])
        return bool(listed.items)

    await lab.until("the Node", there)


async def test_logs_of_pods_that_were_deleted_meanwhile_are_removed(lab: Lab) -> None:
    assert isinstance(lab.node, EmbeddedNode)
    pods: Path = lab.node.cdi.parent / "pods"
    (pods / "default_gone_1234" / "main").mkdir(parents=True)
    await lab.node.stop()
    await lab.node.start()

    async def gone() -> bool:
        return not list(pods.iterdir())

    await lab.until("removal of logs", gone)


async def test_slow_events_block_no_pod(lab: Lab, api: ApiServer) -> None:
    """The server accepts no event. Events that were awaited one by one would block the pod."""
    async with lab.registered():
        api.faults.add(Fault("create", "events", delay=3600, count=-1))
        await lab.claim("claim")
        await lab.pod("pod", "claim")
        await lab.phase("pod", "Running")
        await lab.delete_pod("pod")
        await lab.gone("pod")
