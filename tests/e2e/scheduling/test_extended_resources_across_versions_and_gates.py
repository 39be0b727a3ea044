"""KEP-5004's test scenarios 2, 3, 5 and 6 on Kubernetes 1.37 that emulates 1.36, where the gate can be off."""

import asyncio
from collections.abc import Iterator
from typing import Any, Final

import pytest

from dradriver.kube import CLASSES, PatchKind, Resource
from tests.e2e.bed.api_server_bed import ApiServerBed, api_server_bed
from tests.e2e.scheduling.scheduled_cluster import ScheduledCluster, connect, start_control_plane

pytestmark = pytest.mark.timeout(900)

EXPLICIT: Final = "example.com/gpu"
CLASS: Final = "gpu.example.com"
IMPLICIT: Final = f"deviceclass.resource.kubernetes.io/{CLASS}"
QUOTAS: Final = Resource("", "v1", "resourcequotas", "ResourceQuota", namespaced=True)
ON: Final[dict[str, bool]] = {"DRAExtendedResource": True}
OFF: Final = {"DRAExtendedResource": False}
MERGE: Final = PatchKind.MERGE


@pytest.fixture
def bed() -> Iterator[ApiServerBed]:
    with api_server_bed() as made:
        yield made


@pytest.fixture(params=[EXPLICIT, IMPLICIT], ids=["explicit", "implicit"])
def resource(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def create_nodes_and_class(plane: ScheduledCluster, resource: str) -> None:
    """Create a node with a device plugin for one pod, a node with two devices, and the class."""
    await plane.node("plugin", **{resource.replace("/", "__"): "1"})
    await plane.node("dra")
    await plane.devices("dra", CLASS, 2)
    await plane.device_class(CLASS, CLASS, EXPLICIT if resource == EXPLICIT else None)


async def test_2_5_and_6_off_on_off_and_on_again(bed: ApiServerBed, resource: str) -> None:
    await asyncio.to_thread(start_control_plane, bed, "1.36", OFF)
    async with connect(bed) as plane:
        await create_nodes_and_class(plane, resource)
        await plane.pod("before", resource)
        (before,) = await plane.bound("before")
        assert before.spec.node_name == "plugin"
        await plane.pod("pending", resource)
        await plane.refusal("pending", "Insufficient")

    await asyncio.to_thread(start_control_plane, bed, "1.36", ON)
    async with connect(bed) as plane:
        named = {"spec": {"extendedResourceName": EXPLICIT if resource == EXPLICIT else None}}
        await plane.client.patch(CLASSES, CLASS, "", named, MERGE, into=dict)
        (pending,) = await plane.bound("pending")
        assert pending.spec.node_name == "dra"
        claim = await plane.special_claim(pending)
        assert claim is not None
        assert len(claim.results) == 1
        assert await quota_usage(plane, f"requests.{resource}") == "2"

    await asyncio.to_thread(start_control_plane, bed, "1.36", OFF)
    async with connect(bed) as plane:
        again = await plane.bound("before", "pending")
        assert [pod.spec.node_name for pod in again] == ["plugin", "dra"], "still running"
        assert [each.metadata.name for each in await plane.special_claims()] == [claim.metadata.name]
        await plane.pod("after", resource)
        await plane.refusal("after", "Insufficient")
        await plane.delete("before", "pending", "after")
        assert await plane.special_claims() == [], "cleaned up"

    await asyncio.to_thread(start_control_plane, bed, "1.36", ON)
    async with connect(bed) as plane:
        names = [f"again-{number}" for number in range(3)]
        for name in names:
            await plane.pod(name, resource)
        nodes = sorted(pod.spec.node_name for pod in await plane.bound(*names))
        assert nodes == ["dra", "dra", "plugin"]


async def quota_usage(plane: ScheduledCluster, name: str) -> str:
    """Return the usage that a new quota reports."""
    body = {"metadata": {"name": "quota"}, "spec": {"hard": {name: "10"}}}
    await plane.client.create(QUOTAS, body, "default", into=dict)
    async with asyncio.timeout(60):
        while True:
            stored = await plane.client.get(QUOTAS, "quota", "default", into=dict[str, Any])
            if found := stored.get("status", {}).get("used"):
                return str(found[name])
            await asyncio.sleep(0.2)


async def test_3_upgrade_and_downgrade(bed: ApiServerBed, resource: str) -> None:
    claims: list[str] = []
    for step, version in (("before", "1.36"), ("upgraded", ""), ("downgraded", "1.36")):
        await asyncio.to_thread(start_control_plane, bed, version, None)
        async with connect(bed) as plane:
            if not claims:
                await plane.node("dra")
                await plane.devices("dra", CLASS, 3)
                await plane.device_class(CLASS, CLASS, EXPLICIT if resource == EXPLICIT else None)
            await plane.pod(step, resource)
            (pod,) = await plane.bound(step)
            claim = await plane.special_claim(pod)
            assert claim is not None
            claims.append(claim.metadata.name)
            standing = await plane.special_claims()
            assert {each.metadata.name for each in standing} == set(claims)
            assert all(each.allocation for each in standing)
    async with connect(bed) as plane:
        await plane.delete("before", "upgraded", "downgraded")
        assert await plane.special_claims() == []
