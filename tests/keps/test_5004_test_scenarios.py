"""KEP-5004, "DRAExtendedResources Test Scenarios": one to seven, each for an explicit and an implicit name.

These tests check the objects. Tests in `tests/e2e` check on a real Kubernetes that containers see their
devices.
"""

from typing import Any, Final

import pytest

from dradriver.kube import CLASSES, PODS, Resource
from dradriver.model.core.workload import Pod, RequestMapping
from tests.keps.conftest import ControlPlane
from tests.keps.extended_cluster import CLASS, EXPLICIT, IMPLICIT, ExtendedCluster

OFF: Final = {"DRAExtendedResource": False}
QUOTAS: Final = Resource("", "v1", "resourcequotas", "ResourceQuota", namespaced=True)


@pytest.fixture(params=[EXPLICIT, IMPLICIT], ids=["explicit", "implicit"])
def cluster(plane: ControlPlane, request: pytest.FixtureRequest) -> ExtendedCluster:
    return ExtendedCluster(plane, request.param)


async def with_both_kinds(cluster: ExtendedCluster, plugins: int = 1, devices: int = 1) -> None:
    await cluster.device_class()
    await cluster.plugin_node("plugin", plugins)
    await cluster.dra_node("dra", devices)


async def test_1_basic_feature_enablement(cluster: ExtendedCluster) -> None:
    await cluster.plane.start()
    await cluster.device_class()
    await cluster.dra_node("dra", 2)
    pod = await cluster.create_bound_pod("workload", 2)
    claim = await cluster.special_claim(pod)
    assert sorted(result.device for result in claim.results) == ["gpu-0", "gpu-1"]
    assert claim.metadata.generate_name == "workload-extended-resources-"
    assert pod.status.extended_resource_claim_status is not None
    assert pod.status.extended_resource_claim_status.request_mappings == [
        RequestMapping(
            container_name="main", resource_name=cluster.resource, request_name="container-0-request-0"
        )
    ]


async def test_2_enablement_off_to_on(cluster: ExtendedCluster) -> None:
    await cluster.plane.start(OFF)
    await with_both_kinds(cluster)
    before = await cluster.create_bound_pod("before")
    assert before.spec.node_name == "plugin"
    await cluster.pod("pending")
    assert "Insufficient" in await cluster.plane.refusal("pending")

    await cluster.plane.start()
    await cluster.device_class()  # the dropped field is applied again
    pending = await cluster.bound("pending")
    assert pending.spec.node_name == "dra"
    await cluster.special_claim(pending)
    assert (await cluster.bound("before")) == before, "not disturbed"
    quota = await quota_usage(cluster, f"requests.{cluster.resource}")
    assert quota == "2", "one by the device plugin, one by devices"


async def quota_usage(cluster: ExtendedCluster, name: str) -> str:
    """Return the usage that a new quota reports."""
    client = cluster.plane.client
    body = {"metadata": {"name": "quota"}, "spec": {"hard": {name: "10"}}}
    await client.create(QUOTAS, body, "default", into=dict)
    while True:
        stored = await client.get(QUOTAS, "quota", "default", into=dict[str, Any])
        if found := stored.get("status", {}).get("used"):
            return str(found[name])


async def test_3_upgrade_and_downgrade(cluster: ExtendedCluster) -> None:
    """Each version is a control plane that starts with the state of the one before."""
    plane, claims = cluster.plane, []
    await plane.start()
    await cluster.device_class()
    await cluster.dra_node("dra", 3)
    for step in ("n-before", "n", "n-after"):
        claims.append(await cluster.special_claim(await cluster.create_bound_pod(step)))
        await plane.start()
        assert [
            await cluster.special_claim(await cluster.bound(c.metadata.name.partition("-ext")[0]))
            for c in claims
        ] == claims
    held = [result.device for claim in claims for result in claim.results]
    assert sorted(held) == ["gpu-0", "gpu-1", "gpu-2"]
    await cluster.delete("n-before", "n", "n-after")
    assert await cluster.special_claims() == []
    await cluster.create_bound_pod("again", 3)


async def test_4_api_object_persistence(cluster: ExtendedCluster) -> None:
    await cluster.plane.start()
    await with_both_kinds(cluster, plugins=0)
    pod = await cluster.create_bound_pod("workload")
    for gates in (OFF, {}):
        await cluster.plane.start(gates)
        stored = await cluster.plane.client.get(CLASSES, CLASS, into=dict[str, Any])
        explicit = cluster.resource == EXPLICIT
        assert stored["spec"].get("extendedResourceName") == (EXPLICIT if explicit else None)
        kept = await cluster.plane.client.get(PODS, "workload", "default", into=Pod)
        assert kept.status.extended_resource_claim_status == pod.status.extended_resource_claim_status


async def test_5_disablement_on_to_off(cluster: ExtendedCluster) -> None:
    await cluster.plane.start()
    await with_both_kinds(cluster, plugins=1, devices=2)
    pods = [await cluster.create_bound_pod(f"before-{number}") for number in range(2)]
    assert {pod.spec.node_name for pod in pods} == {"plugin", "dra"}
    claims = await cluster.special_claims()

    await cluster.plane.start(OFF)
    assert [await cluster.bound(pod.metadata.name) for pod in pods] == pods, "still running"
    assert await cluster.special_claims() == claims, "the scheduler does not delete them"
    await cluster.pod("after")
    assert "Insufficient" in await cluster.plane.refusal("after")
    assert await cluster.special_claims() == claims, "and makes no more"
    await cluster.plugin_node("plugin", 2)
    assert (await cluster.bound("after")).spec.node_name == "plugin"
    stored = await cluster.device_class("another", "example.com/another")
    assert "extendedResourceName" not in stored["spec"], "accepted, and ignored"


async def test_6_enabled_disabled_and_enabled_again(cluster: ExtendedCluster) -> None:
    await cluster.plane.start()
    await cluster.device_class()
    await cluster.dra_node("dra", 2)
    await cluster.create_bound_pod("first", 2)

    await cluster.plane.start(OFF)
    await cluster.delete("first")
    assert await cluster.special_claims() == [], "cleaned up"

    await cluster.plane.start()
    pod = await cluster.create_bound_pod("second", 2)
    assert len((await cluster.special_claim(pod)).results) == 2


async def test_7_mixed_nodes(cluster: ExtendedCluster) -> None:
    await cluster.plane.start()
    await with_both_kinds(cluster, plugins=2, devices=2)
    pods = [await cluster.create_bound_pod(f"pod-{number}") for number in range(4)]
    nodes = sorted(pod.spec.node_name for pod in pods)
    assert nodes == ["dra", "dra", "plugin", "plugin"]
    by_devices = [pod for pod in pods if pod.status.extended_resource_claim_status is not None]
    assert {pod.spec.node_name for pod in by_devices} == {"dra"}
    await cluster.pod("one-too-many")
    refusal = await cluster.plane.refusal("one-too-many")
    assert f"1 Insufficient {cluster.resource}" in refusal, "a full device plugin"
    assert "1 cannot allocate all claims" in refusal, "and a node without free devices"


async def test_7_a_node_with_both_uses_its_device_plugin(cluster: ExtendedCluster) -> None:
    """The KEP excludes such nodes; on one of them no device is allocated twice."""
    await cluster.plane.start()
    await cluster.device_class()
    await cluster.dra_node("both", 1)
    await cluster.plugin_node("both", 1)
    assert (await cluster.create_bound_pod("first")).status.extended_resource_claim_status is None
    await cluster.pod("second")
    assert "Insufficient" in await cluster.plane.refusal("second")


async def test_7_a_node_moves_from_device_plugin_to_dra_and_back(cluster: ExtendedCluster) -> None:
    await cluster.plane.start()
    await cluster.device_class()
    await cluster.plugin_node("node", 1)
    assert (await cluster.create_bound_pod("by-plugin")).status.extended_resource_claim_status is None
    await cluster.delete("by-plugin")

    await cluster.plugin_node("node", 0)
    await cluster.pod("by-devices")
    assert "cannot allocate all claims" in await cluster.plane.refusal("by-devices")
    await cluster.dra_node("node", 1)
    await cluster.special_claim(await cluster.bound("by-devices"))
    await cluster.delete("by-devices")

    await cluster.remove_driver("node")
    await cluster.plugin_node("node", 1)
    assert (await cluster.create_bound_pod("by-plugin-again")).status.extended_resource_claim_status is None
    assert await cluster.special_claims() == []


async def test_a_scheduler_with_the_gate_off_leaves_the_resource_to_device_plugins(
    cluster: ExtendedCluster,
) -> None:
    """Version skew: the API server has the gate on."""
    await cluster.plane.start({}, scheduler=OFF)
    await with_both_kinds(cluster, plugins=1, devices=2)
    assert (await cluster.create_bound_pod("first")).spec.node_name == "plugin"
    await cluster.pod("second")
    assert "2 Insufficient" in await cluster.plane.refusal("second")


async def test_a_pod_is_not_bound_if_the_server_drops_the_field_for_its_kubelet(plane: ControlPlane) -> None:
    """Version skew: only the scheduler has the gate on. A bound pod would run without its devices."""
    cluster = ExtendedCluster(plane, IMPLICIT)
    await plane.start(OFF, scheduler={})
    await cluster.device_class()
    await cluster.dra_node("dra", 1)
    await cluster.pod("pod")
    await plane.until(
        lambda pods, _: (
            "default/pod" in pods
            and any(
                "the feature gate DRAExtendedResource is off" in c.message
                for c in pods["default/pod"].status.conditions
            )
        )
    )
    await plane.start()
    await cluster.special_claim(await cluster.bound("pod"))
