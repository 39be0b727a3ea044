"""KEP-5004, Motivation and Design Details: actions of users, developers and administrators."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from dradriver.control.extended import ScoringStrategy
from dradriver.kube import CLASSES, PatchKind
from tests.keps.conftest import ControlPlane, request
from tests.keps.extended_cluster import CLASS, EXPLICIT, IMPLICIT, ExtendedCluster
from tests.keps.test_5004_test_scenarios import QUOTAS


@pytest.fixture
async def cluster(plane: ControlPlane) -> ExtendedCluster:
    await plane.start()
    return ExtendedCluster(plane, EXPLICIT)


async def test_an_application_runs_unmodified_on_nodes_of_both_kinds(cluster: ExtendedCluster) -> None:
    """The KEP's Deployment, with three replicas."""
    await cluster.device_class()
    await cluster.dra_node("gke-xzrw2", 8)
    await cluster.plugin_node("gke-xyz8", 2)
    nodes = {(await cluster.create_bound_pod(f"demo-{number}")).spec.node_name for number in range(3)}
    assert nodes == {"gke-xzrw2", "gke-xyz8"}


async def test_extended_resources_and_claims_use_the_same_devices(cluster: ExtendedCluster) -> None:
    """No static partition: claims can use devices that pods do not use."""
    await cluster.device_class()
    await cluster.dra_node("node", 3)
    by_limit = await cluster.special_claim(await cluster.create_bound_pod("by-limit", 2))
    await cluster.plane.pod("by-claim", request(CLASS))
    taken = {result.device for result in by_limit.results}
    assert set(await cluster.plane.devices("by-claim")) == {"gpu-0", "gpu-1", "gpu-2"} - taken


async def test_before_the_class_names_the_resource_only_device_plugins_serve_it(
    cluster: ExtendedCluster,
) -> None:
    await cluster.dra_node("node", 1)
    await cluster.pod("early")
    assert "Insufficient" in await cluster.plane.refusal("early")
    await cluster.device_class()
    await cluster.special_claim(await cluster.bound("early"))


async def test_every_class_can_be_requested_by_its_implicit_name(cluster: ExtendedCluster) -> None:
    """Also a class with an explicit name."""
    await cluster.device_class()
    await cluster.dra_node("node", 2)
    for name, resource in (("explicit", EXPLICIT), ("implicit", IMPLICIT)):
        await cluster.pod(name, resource=resource)
        claim = await cluster.special_claim(await cluster.bound(name))
        (asked,) = claim.spec.devices.requests
        assert asked.exactly is not None
        assert asked.exactly.device_class_name == CLASS


async def test_a_class_is_replaced_without_disruption(cluster: ExtendedCluster) -> None:
    """A new class is created, then the old one's field is cleared; no pod is refused meanwhile."""
    await cluster.dra_node("node", 6)

    async def serving(number: int) -> str:
        claim = await cluster.special_claim(await cluster.create_bound_pod(f"pod-{number}"))
        (asked,) = claim.spec.devices.requests
        assert asked.exactly is not None
        return asked.exactly.device_class_name

    await cluster.device_class("b-old")
    assert await serving(1) == "b-old"
    await cluster.device_class("a-new")
    assert await serving(2) == "a-new", "newer, or as old and first by name"
    cleared: Mapping[str, Any] = {"spec": {"extendedResourceName": None}}
    await cluster.plane.client.patch(CLASSES, "b-old", "", cleared, PatchKind.MERGE, into=dict)
    assert await serving(3) == "a-new"
    await cluster.plane.client.delete(CLASSES, "b-old")
    assert await serving(4) == "a-new"


async def test_the_quotas_of_the_kep_example_count_5_4_and_4(cluster: ExtendedCluster) -> None:
    """gpu-0 by a device plugin, gpu-1 and gpu-2 by the names of the class, gpu-3 and gpu-4 by claims."""
    names: Final = (
        f"requests.{EXPLICIT}",
        f"requests.{IMPLICIT}",
        f"{CLASS}.deviceclass.resource.k8s.io/devices",
    )
    body = {"metadata": {"name": "gpu"}, "spec": {"hard": dict.fromkeys(names, "10")}}
    await cluster.plane.client.create(QUOTAS, body, "default", into=dict)
    await cluster.device_class()
    await cluster.plugin_node("plugin", 1)
    await cluster.create_bound_pod("gpu-0")
    await cluster.dra_node("dra", 4)
    await cluster.create_bound_pod("gpu-1")
    await cluster.pod("gpu-2", resource=IMPLICIT)
    await cluster.bound("gpu-2")
    await cluster.plane.pod("gpu-3", request(CLASS))
    await cluster.plane.pod("gpu-4", request(CLASS))
    for name in ("gpu-3", "gpu-4"):
        await cluster.plane.devices(name)
    used: dict[str, str] = {}
    while [used.get(name) for name in names] != ["5", "4", "4"]:
        stored = await cluster.plane.client.get(QUOTAS, "gpu", "default", into=dict[str, Any])
        used = stored["status"].get("used", {})


async def test_a_claim_that_a_quota_forbids_leaves_the_pod_pending_with_the_reason(
    cluster: ExtendedCluster,
) -> None:
    name: Final = f"{CLASS}.deviceclass.resource.k8s.io/devices"
    body = {"metadata": {"name": "gpu"}, "spec": {"hard": {name: "0"}}}
    await cluster.plane.client.create(QUOTAS, body, "default", into=dict)
    await cluster.device_class()
    await cluster.dra_node("node", 1)
    await cluster.pod("pod")
    ref = "default/pod"
    await cluster.plane.until(
        lambda pods, _: (
            ref in pods
            and any("exceeded quota" in condition.message for condition in pods[ref].status.conditions)
        )
    )
    assert await cluster.special_claims() == []
    counted = cluster.plane.controllers.metrics.registry.get_sample_value
    assert (counted("scheduler_resourceclaim_creates_total", {"status": "failure"}) or 0) > 0


async def test_claims_for_extended_resources_are_counted_by_name(cluster: ExtendedCluster) -> None:
    """KEP-5004, Monitoring Requirements; the last one is the name in Kubernetes 1.37."""
    await cluster.device_class()
    await cluster.dra_node("node", 1)
    await cluster.create_bound_pod("pod")
    value = cluster.plane.controllers.metrics.registry.get_sample_value
    assert value("scheduler_resourceclaim_creates_total", {"status": "success"}) == 1
    labels = {"status": "success", "admin_access": "false", "owner_api_group": "", "owner_api_kind": "Pod"}
    assert value("dynamic_resource_allocation_resourceclaim_creates_total", labels) == 1
    kind = {"allocated": "true", "admin_access": "false", "source": "extended_resource"}
    assert value("resourceclaim_controller_resource_claims", kind) == 1


@pytest.mark.parametrize(("strategy", "expected"), [("LeastAllocated", "plugin"), ("MostAllocated", "dra")])
async def test_fuller_nodes_are_avoided_or_preferred(plane: ControlPlane, strategy: Any, expected: str) -> None:
    """NodeResourcesFit's strategy, for a resource of a device plugin on one node and of devices on another."""
    await plane.start(scoring=ScoringStrategy(strategy, {EXPLICIT: 1}))
    cluster = ExtendedCluster(plane, EXPLICIT)
    await cluster.device_class()
    await cluster.dra_node("dra", 2)
    await cluster.create_bound_pod("half")
    await cluster.plugin_node("plugin", 4)
    assert (await cluster.create_bound_pod("pod")).spec.node_name == expected


async def test_a_pod_that_needs_33_devices_is_refused_with_the_reason(cluster: ExtendedCluster) -> None:
    await cluster.device_class()
    await cluster.dra_node("node", 40)
    await cluster.pod("pod", 33)
    assert "33 devices: a claim must have at most 32" in await cluster.plane.refusal("pod")


async def test_the_example_of_the_page_on_extended_resources_works(cluster: ExtendedCluster) -> None:
    page = (Path(__file__).parents[2] / "docs/extended-resources.md").read_text()
    pod, device_class = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    await cluster.dra_node("node", 2)
    await cluster.plane.apply(device_class)
    await cluster.plane.apply(pod)
    assert len((await cluster.special_claim(await cluster.bound("demo"))).results) == 2
