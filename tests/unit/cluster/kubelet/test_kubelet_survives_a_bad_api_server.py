"""The API server refuses, loses answers or cuts watches; pods and claims get there nevertheless."""

from pathlib import Path
from typing import Any

import pytest

from dradriver.cluster.apiserver import ApiServer, Fault
from dradriver.kube import NODES
from tests.conformance.kubelet_embedded import EmbeddedNode
from tests.conformance.kubelet_lab import Lab


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
async def test_a_pod_runs_and_goes_in_spite_of(lab: Lab, api: ApiServer, fault: Fault) -> None:
    async with lab.registered() as driver:
        await lab.claim("claim")
        api.faults.add(fault)
        await lab.pod("pod", "claim")
        await lab.phase("pod", "Running")
        await lab.delete_pod("pod")
        await lab.gone("pod")
        assert driver.unprepares == [["claim"]]


async def test_a_claim_that_can_not_be_read_is_read_again(lab: Lab, api: ApiServer) -> None:
    await lab.claim("claim")
    await lab.pod("pod", "claim")
    await lab.event("pod", "FailedPrepareDynamicResources", "is not registered")
    api.faults.add(Fault("get", "resourceclaims", code=403, count=2))
    async with lab.registered():
        await lab.event("pod", "FailedPrepareDynamicResources", "fetch ResourceClaim claim")
        await lab.phase("pod", "Running")


async def test_a_pod_that_can_not_be_removed_is_removed_later(lab: Lab, api: ApiServer) -> None:
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


async def test_a_deleted_node_is_made_again(lab: Lab) -> None:
    await lab.client.delete(NODES, lab.node.name)

    async def there() -> bool:
        listed = await lab.client.list(NODES, into=dict[str, Any])
        return bool(listed.items)

    await lab.until("the Node", there)


async def test_logs_of_pods_that_went_meanwhile_are_removed(lab: Lab) -> None:
    assert isinstance(lab.node, EmbeddedNode)
    pods: Path = lab.node.cdi.parent / "pods"
    (pods / "default_gone_1234" / "main").mkdir(parents=True)
    await lab.node.stop()
    await lab.node.start()

    async def gone() -> bool:
        return not list(pods.iterdir())

    await lab.until("removal of logs", gone)


async def test_slow_events_hold_up_no_pod(lab: Lab, api: ApiServer) -> None:
    """The server never takes an event; written one after the other, they would be waited for."""
    async with lab.registered():
        api.faults.add(Fault("create", "events", delay=3600, count=-1))
        await lab.claim("claim")
        await lab.pod("pod", "claim")
        await lab.phase("pod", "Running")
        await lab.delete_pod("pod")
        await lab.gone("pod")
