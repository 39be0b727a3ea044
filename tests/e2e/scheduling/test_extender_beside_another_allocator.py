"""The extender beside a default kube-scheduler whose plugin DynamicResources is on."""

import asyncio
import urllib.request
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import pytest

from dradriver.extender.other_allocators import CONTESTED_POOL
from dradriver.kube import CLAIMS, CLASSES, PODS, SLICES
from dradriver.testing import builders
from tests.e2e.bed import control_plane
from tests.e2e.bed.api_server_bed import ApiServerBed, api_server_bed
from tests.e2e.bed.kube_scheduler import start_extender, start_kube_scheduler, write_config
from tests.e2e.scheduling.scheduled_cluster import ScheduledCluster, connect

PROFILE: Final = "dradriver"
POOL: Final = f"{builders.DRIVER}/node-1"


class Beds:
    """A control plane with both kube-schedulers.

    Attributes:
        bed: the bed of their processes.
        url: the address of the extender.
    """

    def __init__(self, bed: ApiServerBed) -> None:
        self.bed = bed
        bed.serve(None, {})
        control_plane.start_controller_manager(bed, ())
        control_plane.start_scheduler(bed, ())
        self.url = start_extender(bed, "--no-leader-elect")
        start_kube_scheduler(bed, write_config(bed, self.url), "extended-scheduler")

    def readiness(self) -> str:
        with urllib.request.urlopen(f"{self.url}/readyz", timeout=30) as answer:
            return bytes(answer.read()).decode()

    async def until_ready_as(self, text: str) -> None:
        async with asyncio.timeout(60):
            while await asyncio.to_thread(self.readiness) != text:
                await asyncio.sleep(0.1)


@pytest.fixture(scope="module")
def beds() -> Iterator[Beds]:
    with api_server_bed() as made:
        yield Beds(made)


@pytest.fixture
async def cluster(beds: Beds) -> AsyncIterator[ScheduledCluster]:
    """Return a cluster with one node with two devices."""
    async with connect(beds.bed) as connected:
        await connected.node("node-1")
        await connected.client.create(CLASSES, builders.device_class(), into=dict)
        devices = [builders.device(f"device-{number}") for number in range(2)]
        await connected.client.create(SLICES, builders.slice_(*devices), into=dict)
        yield connected


async def create_pod(cluster: ScheduledCluster, name: str, scheduler: str) -> None:
    """Create a pod, and a claim of its name."""
    await cluster.client.create(CLAIMS, builders.claim(name=name), "default", into=dict)
    container = {"name": "main", "image": "busybox", "resources": {"claims": [{"name": "device"}]}}
    body: dict[str, Any] = {
        "metadata": {"name": name},
        "spec": {
            "schedulerName": scheduler,
            "containers": [container],
            "resourceClaims": [{"name": "device", "resourceClaimName": name}],
        },
    }
    await cluster.client.create(PODS, body, "default", into=dict)


async def managers_of_allocation(cluster: ScheduledCluster, name: str) -> list[str]:
    """Return the field managers of a claim's allocation, by which the extender finds its writer."""
    claim: dict[str, Any] = await cluster.client.get(CLAIMS, name, "default", into=dict)
    owners = claim["metadata"]["managedFields"]
    return [each["manager"] for each in owners if "f:allocation" in each["fieldsV1"].get("f:status", {})]


async def test_a_pool_of_both_is_not_served_while_the_other_has_claims(
    beds: Beds, cluster: ScheduledCluster
) -> None:
    await create_pod(cluster, "mine", PROFILE)
    await cluster.bound("mine")
    await beds.until_ready_as("ok\n")
    await create_pod(cluster, "theirs", "default-scheduler")
    await cluster.bound("theirs")
    assert await managers_of_allocation(cluster, "theirs") == ["kube-scheduler"]
    assert await managers_of_allocation(cluster, "mine") == ["dradriver-scheduler"]
    allocator = "scheduler default-scheduler"
    await beds.until_ready_as(f"ok\nresource pool {POOL}: not served, because of allocations by {allocator}\n")
    await create_pod(cluster, "waiting", PROFILE)
    await cluster.refusal(
        "waiting", f"resource pool {POOL} is not served: {allocator} allocates its devices too"
    )
    (contested,) = await cluster.until_events(CONTESTED_POOL, builders.CLASS)
    assert contested["kind"] == CLASSES.kind
    await cluster.client.delete(PODS, "theirs", "default", grace_seconds=0)
    await cluster.bound("waiting", seconds=60)
    await beds.until_ready_as("ok\n")
