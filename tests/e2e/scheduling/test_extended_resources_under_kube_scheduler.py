"""KEP-5004: kube-scheduler 1.37 compared with the decisions of this package."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Final

import pytest

from dradriver.kube import CLAIMS, CLASSES, PODS, SLICES, PatchKind, Resource
from dradriver.model.core.workload import Pod
from dradriver.testing import builders
from tests.conformance.scheduler.generated_pods import generated, our_answer, without_defaults
from tests.e2e.bed.api_server_bed import ApiServerBed
from tests.e2e.scheduling.scheduled_cluster import (
    ScheduledCluster,
    connect,
    record_special_claims,
    scheduling_bed,
)

pytestmark = pytest.mark.timeout(600)

QUOTAS: Final = Resource("", "v1", "resourcequotas", "ResourceQuota", namespaced=True)


@pytest.fixture(scope="module")
def bed() -> Iterator[ApiServerBed]:
    with scheduling_bed() as made:
        yield made


@pytest.fixture
async def plane(bed: ApiServerBed) -> AsyncIterator[ScheduledCluster]:
    async with connect(bed) as made:
        yield made


async def test_generated_pods_get_the_same_special_claims_and_mappings(plane: ScheduledCluster) -> None:
    seed = random.randrange(10**9)
    pods = list(generated(seed, 60))
    theirs = await record_special_claims(plane, pods)
    different = [
        pod for pod, answer in zip(pods, theirs, strict=True) if our_answer(pod) != without_defaults(answer)
    ]
    assert not different, f"seed {seed}: {len(different)} differ, first: {different[0]}"
    await plane.delete(*(pod["metadata"]["name"] for pod in pods))


async def class_of(plane: ScheduledCluster, name: str) -> str | None:
    """Return the class that serves a pod, None if its node's device plugin serves it."""
    (pod,) = await plane.bound(name)
    claim = await plane.special_claim(pod)
    exactly = claim.spec.devices.requests[0].exactly if claim else None
    return exactly.device_class_name if exactly else None


async def test_nodes_of_both_kinds_serve_until_they_are_full(plane: ScheduledCluster) -> None:
    await plane.node("mixed-plugin", **{"example.com__mixed": "2"})
    await plane.node("mixed-dra")
    await plane.devices("mixed-dra", "mixed.example.com", 2)
    await plane.device_class("mixed", "mixed.example.com", "example.com/mixed")
    names = [f"mixed-{number}" for number in range(4)]
    for name in names:
        await plane.pod(name, "example.com/mixed")
    nodes = sorted(pod.spec.node_name for pod in await plane.bound(*names))
    assert nodes == ["mixed-dra", "mixed-dra", "mixed-plugin", "mixed-plugin"]
    await plane.pod("mixed-more", "example.com/mixed")
    message = await plane.refusal("mixed-more", "cannot allocate all claims")
    assert "Insufficient example.com/mixed" in message
    await plane.delete(*names, "mixed-more")


async def test_a_node_moves_from_device_plugin_to_dra_and_back(plane: ScheduledCluster) -> None:
    resource = "example.com/moving"
    await plane.node("moving", **{"example.com__moving": "1"})
    await plane.device_class("moving", "moving.example.com", resource)
    await plane.pod("moving-1", resource)
    assert await class_of(plane, "moving-1") is None
    await plane.delete("moving-1")
    await plane.node("moving", **{"example.com__moving": "0"})
    selector = await plane.label_change("moving", "to-dra")
    await plane.devices("moving", "moving.example.com", 1)
    await plane.pod("moving-2", resource, node_selector=selector)
    assert await class_of(plane, "moving-2") == "moving"
    await plane.delete("moving-2")
    await plane.client.delete(SLICES, "moving-moving.example.com-0")
    await plane.node("moving", **{"example.com__moving": "1"})
    selector = await plane.label_change("moving", "to-device-plugin")
    await plane.pod("moving-3", resource, node_selector=selector)
    assert await class_of(plane, "moving-3") is None
    await plane.delete("moving-3")


async def test_a_newer_class_serves_until_the_older_one_drops_the_name(
    plane: ScheduledCluster,
) -> None:
    """Unlike the KEP: kube-scheduler 1.37 drops the name when any class that had it loses it (docs/keps.md)."""
    resource = "example.com/replaced"
    await plane.node("replaced")
    await plane.devices("replaced", "replaced.example.com", 4)
    await plane.device_class("replaced-b-old", "replaced.example.com", resource)
    await plane.pod("replaced-1", resource)
    assert await class_of(plane, "replaced-1") == "replaced-b-old"
    await plane.device_class("replaced-a-new", "replaced.example.com", resource)
    # A pod with the new class shows that kube-scheduler has received it.
    seen, number = "", 2
    while seen != "replaced-a-new":
        await plane.delete(f"replaced-{number}")
        await plane.pod(f"replaced-{number}", resource)
        seen = await class_of(plane, f"replaced-{number}") or ""
    body = {"spec": {"extendedResourceName": None}}
    await plane.client.patch(CLASSES, "replaced-b-old", "", body, PatchKind.MERGE, into=dict)
    async with asyncio.timeout(60):
        message = ""
        while "Insufficient" not in message:
            await plane.delete("replaced-3")
            await plane.pod("replaced-3", resource)
            await asyncio.sleep(1)
            pod = await plane.client.get(PODS, "replaced-3", "default", into=Pod)
            message = " ".join(condition.message for condition in pod.status.conditions)
    touched = {"metadata": {"annotations": {"touched": "yes"}}}
    await plane.client.patch(CLASSES, "replaced-a-new", "", touched, PatchKind.MERGE, into=dict)
    await plane.delete("replaced-3")
    await plane.pod("replaced-4", resource)
    # kube-scheduler may have tried the pod before it received the class, which does not requeue the pod.
    async with asyncio.timeout(60):
        while not (pod := await plane.client.get(PODS, "replaced-4", "default", into=Pod)).spec.node_name:
            if any("Insufficient" in condition.message for condition in pod.status.conditions):
                await plane.delete("replaced-4")
                await plane.pod("replaced-4", resource)
            await asyncio.sleep(1)
    assert await class_of(plane, "replaced-4") == "replaced-a-new", "until the new class is written again"
    await plane.delete("replaced-1", "replaced-2", "replaced-4")


async def test_more_than_32_devices_do_not_fit(plane: ScheduledCluster) -> None:
    await plane.node("many")
    await plane.devices("many", "many.example.com", 40)
    await plane.device_class("many", "many.example.com", "example.com/many")
    await plane.pod("many", "example.com/many", 33)
    await plane.refusal("many", "number of requested devices 33 exceeds the claim limit of 32")
    await plane.delete("many")


async def test_the_quotas_of_the_kep_example_count_5_4_and_4(plane: ScheduledCluster) -> None:
    """gpu-0 by a device plugin, gpu-1 and gpu-2 by the names of the class, gpu-3 and gpu-4 by claims."""
    resource, name = "example.com/counted", "counted.example.com"
    implicit = f"deviceclass.resource.kubernetes.io/{name}"
    names = (f"requests.{resource}", f"requests.{implicit}", f"{name}.deviceclass.resource.k8s.io/devices")
    body = {"metadata": {"name": "counted"}, "spec": {"hard": dict.fromkeys(names, "10")}}
    await plane.client.create(QUOTAS, body, "default", into=dict)
    await plane.device_class(name, name, resource)
    await plane.node("counted-plugin", **{"example.com__counted": "1"})
    await wait_for_usage(plane, names, ["0", "0", "0"])
    await plane.pod("gpu-0", resource)
    assert await class_of(plane, "gpu-0") is None
    await plane.node("counted-dra")
    await plane.devices("counted-dra", name, 4)
    await plane.pod("gpu-1", resource)
    await plane.pod("gpu-2", implicit)
    assert [await class_of(plane, each) for each in ("gpu-1", "gpu-2")] == [name, name]
    for each in ("gpu-3", "gpu-4"):
        await plane.client.create(
            CLAIMS, builders.claim(builders.device_request(name), name=each), "default", into=dict
        )
        await plane.client.create(PODS, builders.pod(each, name=each), "default", into=dict)
    await plane.bound("gpu-3", "gpu-4")
    await wait_for_usage(plane, names, ["5", "4", "4"])
    await plane.delete(*(f"gpu-{number}" for number in range(5)))
    await plane.client.delete(QUOTAS, "counted", "default")


async def wait_for_usage(plane: ScheduledCluster, names: Sequence[str], wanted: list[str]) -> None:
    """Wait until the quota reports this usage.

    kube-apiserver counts a special claim in full if its cache does not have the pod yet. The controller counts
    again when the quota is changed.
    """
    async with asyncio.timeout(60):
        found: list[str | None] = []
        tries = 0
        while found != wanted:
            await asyncio.sleep(0.2)
            tries += 1
            if tries % 25 == 0:
                again = {"spec": {"hard": {"count/secrets": str(tries)}}}
                await plane.client.patch(QUOTAS, "counted", "default", again, PatchKind.MERGE, into=dict)
            stored = await plane.client.get(QUOTAS, "counted", "default", into=dict[str, Any])
            found = [stored.get("status", {}).get("used", {}).get(name) for name in names]
