"""KEP-5963: compatibility groups. The YAML is the KEP's, corrected where 1.37 rejects it."""

from typing import Final

import pytest

from dradriver.allocator import ORDERED, PACKED, Order
from dradriver.kube import CLAIMS, NAMESPACES, PatchKind
from dradriver.model.resource.claim import ResourceClaim
from tests.keps.conftest import ControlPlane, request

GATE: Final = "DRADeviceCompatibilityGroups"
ON: Final = {GATE: True}
OFF: Final = {GATE: False}

NODE_AND_CLASS: Final = """
apiVersion: v1
kind: Node
metadata: {name: node-1}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.example.com}
spec: {selectors: [{cel: {expression: "device.driver == 'gpu.example.com'"}}]}
"""
COUNTERS: Final = """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: node-1-gpu-0-counters}
spec:
  driver: gpu.example.com
  pool: {name: node-1-pool, generation: 1, resourceSliceCount: 2}
  nodeName: node-1
  sharedCounters: [{name: gpu-0-counters, counters: {multiprocessors: {value: "100"}}}]
"""
_DEVICES: Final = """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: node-1-gpu-0-devices}
spec:
  driver: gpu.example.com
  pool: {name: node-1-pool, generation: 1, resourceSliceCount: 2}
  nodeName: node-1
  devices:
"""


def devices(*, groups: bool) -> str:
    """Return MIG and vGPU devices of one GPU, with or without the groups that make them incompatible."""
    text = _DEVICES
    for kind, amount in (("mig-1g", 20), ("vgpu", 50)):
        group = kind.partition("-")[0]
        declared = f"compatibilityGroups: [{group}], " if groups else ""
        for number in range(2):
            text += f"""
  - name: gpu-0-{kind}-{number}
    attributes: {{type: {{string: {kind}}}}}
    consumesCounters:
    - {{counterSet: gpu-0-counters, {declared}counters: {{multiprocessors: {{value: "{amount}"}}}}}}
"""
    return text


MIG: Final = request("gpu.example.com", "device.attributes['gpu.example.com'].type == 'mig-1g'")
VGPU: Final = request("gpu.example.com", "device.attributes['gpu.example.com'].type == 'vgpu'")


async def gpu_0(plane: ControlPlane, *, groups: bool = True) -> None:
    await plane.apply(f"{NODE_AND_CLASS}---{COUNTERS}---{devices(groups=groups)}")


async def test_example_1_devices_of_one_scheme_need_no_groups(plane: ControlPlane) -> None:
    await plane.start(ON)
    await gpu_0(plane, groups=False)
    await plane.pod("pod-a", MIG)
    assert await plane.devices("pod-a") == ["gpu-0-mig-1g-0"]
    await plane.pod("pod-b", MIG)
    assert await plane.devices("pod-b") == ["gpu-0-mig-1g-1"]


async def test_example_2_without_groups_exclusive_schemes_are_mixed(plane: ControlPlane) -> None:
    await plane.start(ON)
    await gpu_0(plane, groups=False)
    await plane.pod("pod-a", MIG)
    assert await plane.devices("pod-a") == ["gpu-0-mig-1g-0"]
    await plane.pod("pod-b", VGPU)
    assert await plane.devices("pod-b") == ["gpu-0-vgpu-0"]


@pytest.mark.parametrize(
    ("first", "second", "gets", "then"),
    [(MIG, VGPU, "gpu-0-mig-1g-0", "gpu-0-vgpu-0"), (VGPU, MIG, "gpu-0-vgpu-0", "gpu-0-mig-1g-0")],
    ids=["mig first", "vgpu first"],
)
async def test_example_3_incompatible_devices_wait_for_each_other(
    plane: ControlPlane, first: dict[str, object], second: dict[str, object], gets: str, then: str
) -> None:
    await plane.start(ON)
    await gpu_0(plane)
    await plane.pod("pod-a", first)
    assert await plane.devices("pod-a") == [gets]
    await plane.pod("pod-b", second)
    assert "cannot allocate all claims" in await plane.refusal("pod-b")
    await plane.pod("pod-c", first)
    assert len(await plane.devices("pod-c")) == 1
    await plane.delete_pod("pod-a")
    await plane.refusal("pod-b")
    await plane.delete_pod("pod-c")
    assert await plane.devices("pod-b") == [then]


async def test_a_pod_is_refused_on_one_node_and_admitted_where_a_compatible_device_is(
    plane: ControlPlane,
) -> None:
    """Test Plan: refused while its only candidate is incompatible, admitted when another node has one."""
    await plane.start(ON)
    await gpu_0(plane)
    await plane.pod("mig", MIG)
    assert await plane.devices("mig") == ["gpu-0-mig-1g-0"]
    await plane.pod("vgpu", VGPU)
    assert "compatibility groups mig, not vgpu" in await plane.refusal("vgpu")
    second = f"{NODE_AND_CLASS}---{COUNTERS}---{devices(groups=True)}".replace("node-1", "node-2")
    await plane.apply(second)
    assert await plane.devices("vgpu") == ["gpu-0-vgpu-0"]
    pods = plane.controllers.caches.pods.items
    assert [pods[f"default/{name}"].spec.node_name for name in ("mig", "vgpu")] == ["node-1", "node-2"]


async def test_two_requests_of_one_claim_must_agree(plane: ControlPlane) -> None:
    await plane.start(ON)
    await gpu_0(plane)
    await plane.pod("both", MIG, VGPU | {"name": "other"})
    assert "cannot allocate all claims" in await plane.refusal("both")


async def test_the_groups_at_the_time_of_the_allocation_win_over_a_slice_that_changed(
    plane: ControlPlane,
) -> None:
    await plane.start(ON)
    await gpu_0(plane)
    await plane.pod("pod-a", MIG)
    assert await plane.devices("pod-a") == ["gpu-0-mig-1g-0"]
    await plane.apply(devices(groups=True).replace("[mig]", "[vgpu]"))
    await plane.pod("pod-b", VGPU)
    await plane.refusal("pod-b")
    await plane.pod("pod-c", MIG)
    await plane.refusal("pod-c")
    await plane.apply(devices(groups=True))
    assert await plane.devices("pod-c") == ["gpu-0-mig-1g-1"]
    await plane.delete_pod("pod-a")
    await plane.delete_pod("pod-c")
    assert await plane.devices("pod-b") == ["gpu-0-vgpu-0"]


async def record_of(plane: ControlPlane, pod: str) -> tuple[dict[str, list[str]], list[str]]:
    """Return the groups on the result of a pod's claim, and the requests of the allocation's config entries."""
    claim = await plane.client.get(CLAIMS, pod, "default", into=ResourceClaim)
    assert claim.allocation is not None
    [result] = claim.results
    config = claim.allocation.devices.config
    return result.compatibility_groups, [entry.opaque.driver for entry in config if entry.opaque]


async def test_the_groups_are_recorded_in_the_claim_after_binding_it(plane: ControlPlane) -> None:
    await plane.start(ON)
    await gpu_0(plane)
    await plane.pod("pod-a", MIG)
    assert await plane.devices("pod-a") == ["gpu-0-mig-1g-0"]
    assert await record_of(plane, "pod-a") == ({"gpu-0-counters": ["mig"]}, [])


async def test_a_device_without_groups_has_no_record(plane: ControlPlane) -> None:
    await plane.start(ON)
    await gpu_0(plane, groups=False)
    await plane.pod("pod-a", MIG)
    assert await plane.devices("pod-a") == ["gpu-0-mig-1g-0"]
    assert await record_of(plane, "pod-a") == ({}, [])


async def test_where_the_field_is_dropped_the_groups_are_recorded_in_the_configuration(
    plane: ControlPlane,
) -> None:
    """As in Kubernetes 1.37, with the gate on or off; here the slices keep their groups."""
    await plane.start(ON)
    await gpu_0(plane)
    await plane.start(OFF, scheduler=ON)
    await plane.pod("pod-a", MIG)
    assert await plane.devices("pod-a") == ["gpu-0-mig-1g-0"]
    assert await record_of(plane, "pod-a") == ({}, ["allocator.dradriver.dev"])
    await plane.apply(devices(groups=True).replace("[mig]", "[vgpu]"))
    await plane.pod("pod-b", VGPU)
    await plane.refusal("pod-b")


PRE_KEP: Final = "groups are not known: devices are allocated without regard to them"
SKIPPED: Final = "devices with groups are not allocated"
FULL: Final = "groups are kept"


@pytest.mark.parametrize(
    ("server", "scheduler", "behavior"),
    [(OFF, OFF, PRE_KEP), (OFF, ON, PRE_KEP), (ON, OFF, SKIPPED), (ON, ON, FULL)],
    ids=["off, off: Pre-KEP", "off, on: Pre-KEP", "on, off: Devices skipped", "on, on: Full feature"],
)
async def test_version_skew(
    plane: ControlPlane, server: dict[str, bool], scheduler: dict[str, bool], behavior: str
) -> None:
    """The KEP's table: gate of kube-apiserver, gate of kube-scheduler."""
    await plane.start(server, scheduler=scheduler)
    await gpu_0(plane)
    await plane.pod("mig", MIG)
    if behavior == SKIPPED:
        await plane.refusal("mig")
        return
    assert await plane.devices("mig") == ["gpu-0-mig-1g-0"]
    await plane.pod("vgpu", VGPU)
    if behavior == FULL:
        await plane.refusal("vgpu")
    else:
        assert await plane.devices("vgpu") == ["gpu-0-vgpu-0"]


PLAIN: Final = """  - name: gpu-0-plain
    attributes: {type: {string: plain}}
    consumesCounters: [{counterSet: gpu-0-counters, counters: {multiprocessors: {value: "10"}}}]
"""
ANY: Final = request("gpu.example.com")


@pytest.mark.parametrize("order", [ORDERED, PACKED], ids=["ordered", "packed"])
async def test_version_skew_devices_that_do_not_declare_the_field_are_scheduled_normally(
    plane: ControlPlane, order: Order
) -> None:
    """The row "on, off: Devices skipped" under `packed`; Kubernetes 1.37, `ordered`, the slice."""
    await plane.start(ON, scheduler=OFF, order=order)
    await plane.apply(f"{NODE_AND_CLASS}---{COUNTERS}---{devices(groups=True)}{PLAIN}")
    await plane.pod("any", ANY)
    if order is ORDERED:
        assert "have compatibility groups and DRADeviceCompatibilityGroups is off" in await plane.refusal("any")
        return
    assert await plane.devices("any") == ["gpu-0-plain"]
    await plane.pod("mig", MIG)
    assert "DRADeviceCompatibilityGroups is off" in await plane.refusal("mig")


@pytest.mark.parametrize("order", [ORDERED, PACKED], ids=["ordered", "packed"])
async def test_a_monitor_reaches_a_partitioned_gpu_that_is_in_use_under_packed(
    plane: ControlPlane, order: Order
) -> None:
    """KEP-5018 grants admin access regardless of counters and groups; Kubernetes 1.37 checks them."""
    await plane.start(ON, order=order)
    await gpu_0(plane)
    labels = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    await plane.client.patch(NAMESPACES, "default", "", labels, PatchKind.MERGE, into=dict)
    await plane.pod("user", MIG)
    assert await plane.devices("user") == ["gpu-0-mig-1g-0"]
    all_devices = {"deviceClassName": "gpu.example.com", "allocationMode": "All", "adminAccess": True}
    await plane.pod("monitor", {"name": "all", "exactly": all_devices})
    if order is ORDERED:
        assert "compatibility groups" in await plane.refusal("monitor")
        return
    assert len(await plane.devices("monitor")) == 4
    await plane.pod("other", MIG)
    assert await plane.devices("other") == ["gpu-0-mig-1g-1"]


async def test_with_the_gate_off_the_field_is_dropped_on_write(plane: ControlPlane) -> None:
    await plane.start(OFF)
    await plane.apply(NODE_AND_CLASS)
    (stored,) = await plane.apply(devices(groups=True))
    for device in stored["spec"]["devices"]:
        (consumption,) = device["consumesCounters"]
        assert "compatibilityGroups" not in consumption
        assert consumption["counterSet"] == "gpu-0-counters"


async def test_enabled_disabled_and_enabled_again(plane: ControlPlane) -> None:
    """No existing allocation is invalidated; groups in slices become effective again."""
    await plane.start(ON)
    await gpu_0(plane)
    await plane.pod("mig", MIG)
    assert await plane.devices("mig") == ["gpu-0-mig-1g-0"]

    await plane.start(OFF)
    assert await plane.devices("mig") == ["gpu-0-mig-1g-0"]
    await plane.pod("meanwhile", MIG)
    await plane.refusal("meanwhile")

    await plane.start(ON)
    assert await plane.devices("mig") == ["gpu-0-mig-1g-0"]
    assert await plane.devices("meanwhile") == ["gpu-0-mig-1g-1"]
    await plane.pod("vgpu", VGPU)
    await plane.refusal("vgpu")


async def test_enabling_the_gate_invalidates_no_allocation_that_mixes_schemes(plane: ControlPlane) -> None:
    """Both allocations from before the gate stay; the next one finds no common group."""
    await plane.start(OFF)
    await gpu_0(plane)
    await plane.pod("mig", MIG)
    await plane.pod("vgpu", VGPU)
    before = [await plane.devices(name) for name in ("mig", "vgpu")]

    await plane.start(ON)
    await plane.apply(devices(groups=True))
    assert [await plane.devices(name) for name in ("mig", "vgpu")] == before
    await plane.pod("next", MIG)
    await plane.refusal("next")
    await plane.delete_pod("vgpu")
    assert await plane.devices("next") == ["gpu-0-mig-1g-1"]
