"""At least two hundred pods start while the driver's DaemonSet is updated three times: no prepare fails."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import pytest

from dradriver.kube import EVENTS, PODS, Client, NotFound
from tests.e2e.bed.cluster import Cluster
from tests.e2e.bed.nodes import images
from tests.e2e.chart.chart_site import Site, chart_site
from tests.e2e.chart.helm import set_values

ALL: Final = 200
UPDATES: Final = 3
AT_ONCE: Final = 6
SECONDS: Final = 120.0
"""That one pod may take: a prepare that failed is tried again by the kubelet within this time."""

pytestmark = pytest.mark.timeout(1200)


@pytest.fixture(scope="module")
def site(real_cluster: Cluster) -> Iterator[Site]:
    with chart_site(real_cluster) as site:
        site.wait_for_rollout()
        yield site


@pytest.fixture
async def client(real_cluster: Cluster) -> AsyncIterator[Client]:
    async with await Client.connect(str(real_cluster.kubeconfig())) as client:
        yield client


async def test_two_hundred_pods_are_prepared(site: Site, client: Client) -> None:
    numbers, started, updated = itertools.count(), asyncio.Condition(), asyncio.Event()
    count = 0

    async def one_after_another() -> None:
        nonlocal count
        while (number := next(numbers)) < ALL or not updated.is_set():
            await _run_pod(client, f"load-{number}")
            async with started:
                count += 1
                started.notify_all()

    async def updates() -> None:
        """Start each update after its share of the pods; it ends while others start."""
        for update in range(1, UPDATES + 1):
            async with started:
                await started.wait_for(lambda share=update: count >= share * ALL // (UPDATES + 2))  # type: ignore[misc]
            count_before = count
            before = {pod["metadata"]["uid"] for pod in await asyncio.to_thread(site.driver_pods)}
            values = {**site.values, "drivers.loop.podAnnotations": {"update": f"number-{update}"}}
            await asyncio.to_thread(site.helm.upgrade, "dradriver", *set_values(values))
            await asyncio.to_thread(site.wait_for_rollout)
            after = {pod["metadata"]["uid"] for pod in await asyncio.to_thread(site.driver_pods)}
            assert after - before
            assert count > count_before, "pods start during the update"
        updated.set()

    async with asyncio.TaskGroup() as group:
        group.create_task(updates())
        for _ in range(AT_ONCE):
            group.create_task(one_after_another())
    assert count >= ALL
    events = (await client.list(EVENTS, "default", into=dict[str, Any])).items
    assert [event["message"] for event in events if _is_failed_prepare(event)] == []


def _is_failed_prepare(event: dict[str, Any]) -> bool:
    """Return whether an Event reports a failed prepare of these pods.

    The Node authorizer may learn of a pod after the kubelet: then the API server forbids the kubelet to read
    the claim for a moment, which no driver can help.
    """
    mine = event["involvedObject"].get("name", "").startswith("load-")
    return (
        mine
        and "FailedPrepare" in event["reason"]
        and "no relationship found between node" not in event["message"]
    )


async def _run_pod(client: Client, name: str) -> None:
    """Create a pod with a device of its own and wait until it is deleted."""
    container = {
        "name": "main", "image": images.BUSYBOX, "imagePullPolicy": "Never",
        "command": ["sh", "-c", "test -b $LOOP_DEVICE"], "resources": {"claims": [{"name": "loop"}]},
    }  # fmt: skip
    spec = {
        "containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
        "resourceClaims": [{"name": "loop", "resourceClaimTemplateName": "chart-loop"}],
    }  # fmt: skip
    await client.create(PODS, {"metadata": {"name": name}, "spec": spec}, "default", into=bytes)
    async with asyncio.timeout(SECONDS):
        while (phase := (await _get(client, name))["status"].get("phase")) not in ("Succeeded", "Failed"):
            await asyncio.sleep(0.1)
        assert phase == "Succeeded"
        await client.delete(PODS, name, "default")
        while await _exists(client, name):
            await asyncio.sleep(0.1)


async def _get(client: Client, name: str) -> dict[str, Any]:
    return await client.get(PODS, name, "default", into=dict[str, Any])


async def _exists(client: Client, name: str) -> bool:
    try:
        await _get(client, name)
    except NotFound:
        return False
    return True
