"""KEP-5007: the scheduler's part, in the KEP's order: goals, stories, integration and e2e tests, skew, metrics.

The test acts as the external controller and sets conditions; `test_5007_user_stories` has the same with a
driver of this SDK.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

from prometheus_client import generate_latest

from dradriver.kube import CLAIMS, EVENTS, PODS, SLICES, Invalid, PatchKind
from dradriver.model.core.meta import ObjectMeta
from dradriver.model.core.workload import Pod
from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool
from dradriver.model.resource.slices import ResourceSlice
from dradriver.publish.layout import layout
from tests.keps.conftest import ControlPlane, request

DRIVER: Final = "dra.example.com"
PREPARED: Final = "dra.example.com/is-prepared"
FAILED: Final = "dra.example.com/preparing-failed"
GATE: Final = "DRADeviceBindingConditions"
OFF: Final = {GATE: False}

NODES: Final = """
apiVersion: v1
kind: Node
metadata: {name: node-1}
---
apiVersion: v1
kind: Node
metadata: {name: node-2}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {selectors: [{cel: {expression: "device.driver == 'dra.example.com'"}}]}
"""
FABRIC: Final = """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: fabric}
spec:
  driver: dra.example.com
  pool: {name: fabric, generation: 1, resourceSliceCount: 1}
  allNodes: true
  devices:
"""
LOCAL: Final = """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: local}
spec:
  driver: dra.example.com
  pool: {name: local, generation: 1, resourceSliceCount: 1}
  nodeName: node-2
  devices: [{name: local-gpu}]
"""


def fabric(count: int) -> str:
    """Return devices that must be prepared and bind to their node."""
    device = f"bindsToNode: true, bindingConditions: [{PREPARED}], bindingFailureConditions: [{FAILED}]"
    return FABRIC + "".join(f"  - {{name: gpu-{i}, {device}}}\n" for i in range(count))


async def start(
    plane: ControlPlane, gates: Mapping[str, bool] | None = None, devices: int = 1, **settings: Any
) -> None:
    await plane.start(gates, pod_backoff=(0.05, 0.2), **settings)
    await plane.apply(NODES)
    await plane.apply(fabric(devices))


async def pod(plane: ControlPlane, name: str, claim: str = "") -> None:
    """Create a pod with a claim of its name, or with an existing one."""
    if not claim:
        await plane.pod(name, request("gpu"))
        return
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "containers": [{"name": "c", "image": "busybox", "resources": {"claims": [{"name": "claim"}]}}],
            "resourceClaims": [{"name": "claim", "resourceClaimName": claim}],
        },
    }
    await plane.client.create(PODS, body, "default", into=dict)


async def wait_for_nomination(plane: ControlPlane, name: str) -> str:
    """Wait until the pod waits for its devices; return the nominated node."""
    ref = f"default/{name}"
    await plane.until(
        lambda pods, claims: (
            ref in pods
            and bool(pods[ref].status.nominated_node_name)
            and ref in claims
            and claims[ref].allocation is not None
        )
    )
    return plane.controllers.caches.pods.items[ref].status.nominated_node_name


async def set_condition(plane: ControlPlane, name: str, kind: str, status: str = "True") -> None:
    """Set a condition of all devices of a claim."""
    claim = plane.controllers.caches.claims.items[f"default/{name}"]
    condition = {
        "type": kind,
        "status": status,
        "reason": "Told",
        "message": "by the controller",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    entries = [
        {"driver": r.driver, "pool": r.pool, "device": r.device, "conditions": [condition]}
        for r in claim.results
    ]
    await plane.client.patch(
        *(CLAIMS, name, "default", {"status": {"devices": entries}}, PatchKind.MERGE),
        into=dict,
        subresource="status",
    )


async def keep_condition(plane: ControlPlane, name: str, kind: str, until: Callable[[], bool]) -> None:
    """Set a condition after each allocation. On a busy machine, a short deadline may be exceeded more often."""
    while not until():
        claim = plane.controllers.caches.claims.items[f"default/{name}"]
        if claim.allocation is not None and not claim.status.devices:
            with suppress(Invalid):  # the allocation is gone meanwhile
                await set_condition(plane, name, kind)
        await asyncio.sleep(0.02)


def is_bound(plane: ControlPlane, name: str) -> bool:
    return bool(plane.controllers.caches.pods.items[f"default/{name}"].spec.node_name)


async def bound(plane: ControlPlane, name: str) -> str:
    ref = f"default/{name}"
    await plane.until(lambda pods, _: ref in pods and bool(pods[ref].spec.node_name))
    return plane.controllers.caches.pods.items[ref].spec.node_name


async def wait_for_refusal(plane: ControlPlane, name: str) -> str:
    """Wait until the scheduler reports why the pod has no node."""
    found = ""

    def is_reported(pods: Mapping[str, Pod], _: object) -> bool:
        nonlocal found
        each = pods.get(f"default/{name}")
        found = next((c.message for c in each.status.conditions if c.message), "") if each else ""
        return bool(found)

    await plane.until(is_reported)
    return found


async def wait_for_event(plane: ControlPlane, name: str, reason: str) -> list[str]:
    """Wait for an event of a pod; return the messages with this reason."""
    while True:
        listing = await plane.client.list(EVENTS, "default", into=dict[str, Any])
        found = [e for e in listing.items if (e.get("regarding") or e["involvedObject"])["name"] == name]
        if messages := [e.get("note") or e.get("message", "") for e in found if e["reason"] == reason]:
            return messages
        await asyncio.sleep(0.02)


def metric(plane: ControlPlane, name: str, **labels: str) -> float:
    value = plane.controllers.metrics.registry.get_sample_value(name, labels)
    return value or 0.0


async def until_counted(plane: ControlPlane, name: str, **labels: str) -> None:
    """Wait until a metric counts.

    Metrics of a bound pod count when the scheduler has the answer of its bind, which may be after the watch.
    """
    while not metric(plane, name, **labels):
        await asyncio.sleep(0.01)


# Goals


async def test_goal_1_the_pod_is_bound_when_the_device_is_confirmed_to_be_ready(plane: ControlPlane) -> None:
    await start(plane)
    await pod(plane, "pod-1")
    node = await wait_for_nomination(plane, "pod-1")
    assert (
        "waiting for binding conditions"
        in (await wait_for_event(plane, "pod-1", "BindingConditionsPending"))[0]
    )
    await set_condition(plane, "pod-1", PREPARED)
    assert await bound(plane, "pod-1") == node


async def test_goal_3_devices_without_binding_conditions_are_preferred(plane: ControlPlane) -> None:
    """This favors node-local devices over fabric-attached ones."""
    await start(plane)
    await plane.apply(LOCAL)
    await pod(plane, "pod-1")
    assert await bound(plane, "pod-1") == "node-2"
    assert [r.device for r in plane.controllers.caches.claims.items["default/pod-1"].results] == ["local-gpu"]


async def test_goal_3_holds_inside_a_pool_too(plane: ControlPlane) -> None:
    """Kubernetes sorts whole pools only, so the publisher puts the ready devices first."""
    await plane.start()
    await plane.apply(NODES)
    slow = Device("a-slow", binding_conditions=[PREPARED], binding_failure_conditions=[FAILED])
    (spec,) = layout(Pool("mixed", (slow, Device("b-ready"))), DRIVER, "node-1")
    source = ResourceSlice(metadata=ObjectMeta(name="mixed"), spec=spec)
    await plane.client.create(SLICES, source, into=dict)
    await pod(plane, "pod-1")
    assert await bound(plane, "pod-1") == "node-1"
    assert [r.device for r in plane.controllers.caches.claims.items["default/pod-1"].results] == ["b-ready"]


# Integration tests: a controller that updates conditions; success, failure, timeout; a shared claim


async def test_failure_clears_the_allocation_and_the_pod_is_scheduled_again(plane: ControlPlane) -> None:
    await start(plane)
    await pod(plane, "pod-1")
    await wait_for_nomination(plane, "pod-1")
    await set_condition(plane, "pod-1", FAILED)
    assert "preparing-failed (Told): by the controller" in await wait_for_refusal(plane, "pod-1")
    assert "device binding failed" in (await wait_for_event(plane, "pod-1", "FailedScheduling"))[0]
    await wait_for_nomination(plane, "pod-1")
    assert not plane.controllers.caches.claims.items["default/pod-1"].status.devices
    await set_condition(plane, "pod-1", PREPARED)
    await bound(plane, "pod-1")


async def test_timeout_clears_the_allocation_and_the_pod_is_scheduled_again(plane: ControlPlane) -> None:
    await start(plane, binding_timeout=timedelta(seconds=1))
    await pod(plane, "pod-1")
    assert "device binding timeout" in await wait_for_refusal(plane, "pod-1")
    await keep_condition(plane, "pod-1", PREPARED, until=lambda: is_bound(plane, "pod-1"))


async def test_timeouts_do_not_occur_under_appropriate_conditions(plane: ControlPlane) -> None:
    await start(plane, binding_timeout=timedelta(seconds=60))
    await pod(plane, "pod-1")
    await wait_for_nomination(plane, "pod-1")
    await set_condition(plane, "pod-1", PREPARED, "False")
    await set_condition(plane, "pod-1", PREPARED)
    await bound(plane, "pod-1")
    labels = {"profile": "default-scheduler", "driver": DRIVER}
    assert metric(plane, "scheduler_dra_bindingconditions_allocations_total", **labels, status="timeout") == 0


async def test_multiple_pods_referencing_the_same_claim_wait_for_it_together(plane: ControlPlane) -> None:
    await start(plane)
    await pod(plane, "pod-1")
    await wait_for_nomination(plane, "pod-1")
    await pod(plane, "pod-2", claim="pod-1")
    await plane.until(lambda pods, _: bool(pods.get("default/pod-2", Pod()).status.nominated_node_name))
    await set_condition(plane, "pod-1", PREPARED)
    assert await bound(plane, "pod-1") == await bound(plane, "pod-2")


# e2e tests: node nomination; many pods that wait


async def test_the_node_is_nominated_while_the_pod_waits_and_tried_first_after_a_restart(
    plane: ControlPlane,
) -> None:
    await start(plane)
    await pod(plane, "pod-1")
    node = await wait_for_nomination(plane, "pod-1")
    before = plane.controllers.caches.claims.items["default/pod-1"].allocation
    await plane.start()
    await plane.until(lambda _, claims: bool(claims["default/pod-1"].allocation))
    assert plane.controllers.caches.claims.items["default/pod-1"].allocation == before
    await set_condition(plane, "pod-1", PREPARED)
    assert await bound(plane, "pod-1") == node
    assert not plane.controllers.caches.pods.items["default/pod-1"].status.nominated_node_name


async def test_if_the_attachment_is_complete_after_a_restart_it_passes_through_prebind(
    plane: ControlPlane,
) -> None:
    await start(plane)
    await pod(plane, "pod-1")
    node = await wait_for_nomination(plane, "pod-1")
    await plane.controllers.__aexit__(None, None, None)
    await set_condition(plane, "pod-1", PREPARED)
    await plane.start()
    assert await bound(plane, "pod-1") == node


async def test_waiting_pods_do_not_block_others(plane: ControlPlane) -> None:
    """More pods wait than there are workers."""
    await start(plane, devices=40)
    await plane.apply(LOCAL.replace("devices: [{name: local-gpu}]", "devices: [{name: spare}]"))
    await pod(plane, "quick-before")
    await bound(plane, "quick-before")
    names = [f"pod-{i}" for i in range(40)]
    for name in names:
        await pod(plane, name)
    for name in names:
        await wait_for_nomination(plane, name)
    await plane.delete_pod("quick-before")
    await pod(plane, "quick-after")
    await bound(plane, "quick-after")
    for name in names:
        await set_condition(plane, name, PREPARED)
    for name in names:
        await bound(plane, name)


# Version skew, enablement and rollback


async def test_an_older_scheduler_allocates_no_device_with_conditions(plane: ControlPlane) -> None:
    """The KEP expects that it ignores the conditions and binds; 1.37's allocator does not use the device."""
    await start(plane, scheduler=OFF)
    await pod(plane, "pod-1")
    assert "0/2 nodes are available" in await wait_for_refusal(plane, "pod-1")


async def test_a_waiting_pod_is_bound_while_the_gate_is_off_and_the_next_one_waits_again(
    plane: ControlPlane,
) -> None:
    """Existing claims are not affected; the feature works again when it is enabled again."""
    await start(plane, devices=2)
    await pod(plane, "pod-1")
    await wait_for_nomination(plane, "pod-1")
    await plane.start(scheduler=OFF)
    await bound(plane, "pod-1")
    await plane.start()
    assert plane.controllers.caches.pods.items["default/pod-1"].spec.node_name
    await pod(plane, "pod-2")
    await wait_for_nomination(plane, "pod-2")


async def test_pods_that_were_started_in_one_version_can_be_removed_by_the_other(plane: ControlPlane) -> None:
    """Upgrade, downgrade, upgrade; each version removes pods of the other one."""
    await start(plane, OFF)
    await pod(plane, "before")
    assert await plane.devices("before") == ["gpu-0"]

    await plane.start()
    await plane.delete_pod("before")
    await plane.apply(fabric(1).replace("generation: 1", "generation: 2"))
    await pod(plane, "between")
    await wait_for_nomination(plane, "between")
    await set_condition(plane, "between", PREPARED)
    await bound(plane, "between")

    await plane.start(OFF)
    await plane.delete_pod("between")

    await plane.start()
    await pod(plane, "after")
    await wait_for_nomination(plane, "after")


async def test_the_rollout_in_the_order_of_the_kep_and_its_reverse_disturb_no_pod(plane: ControlPlane) -> None:
    """1. API server, 2. scheduler, 3. driver, 4. controller; the reverse for a rollback."""
    await plane.start({}, scheduler=OFF)
    await plane.apply(NODES)
    await plane.apply(LOCAL)
    await pod(plane, "ordinary")
    await plane.devices("ordinary")

    await plane.start({})
    await plane.apply(fabric(1))
    await pod(plane, "waiting")
    await wait_for_nomination(plane, "waiting")
    await set_condition(plane, "waiting", PREPARED)
    await bound(plane, "waiting")

    await plane.client.delete(SLICES, "fabric")
    await plane.start({}, scheduler=OFF)
    await plane.start(OFF)
    for name in ("ordinary", "waiting"):
        assert plane.controllers.caches.pods.items[f"default/{name}"].spec.node_name
        await plane.delete_pod(name)


async def test_without_the_controller_the_pod_waits_and_an_event_names_the_conditions(
    plane: ControlPlane,
) -> None:
    """The KEP's example of a rollout failure: step 3 is done, step 4 is not."""
    await start(plane, binding_timeout=timedelta(seconds=2))
    await pod(plane, "pod-1")
    (message, *_) = await wait_for_event(plane, "pod-1", "BindingConditionsUnserved")
    assert message == (
        f"binding conditions that no controller has set on this cluster: {PREPARED} of driver {DRIVER}"
    )


# Monitoring


async def test_metrics_distinguish_success_failure_and_timeout(plane: ControlPlane) -> None:
    await start(plane, binding_timeout=timedelta(seconds=1))
    await pod(plane, "pod-1")
    await wait_for_refusal(plane, "pod-1")
    labels = {"profile": "default-scheduler", "driver": DRIVER}
    total = "scheduler_dra_bindingconditions_allocations_total"
    await keep_condition(
        plane, "pod-1", FAILED, until=lambda: metric(plane, total, **labels, status="failure") >= 1
    )
    await plane.until(lambda _, claims: not claims["default/pod-1"].status.devices)
    await keep_condition(plane, "pod-1", PREPARED, until=lambda: is_bound(plane, "pod-1"))
    await until_counted(plane, total, **labels, status="success")
    assert metric(plane, total, **labels, status="success") == 1
    assert metric(plane, total, **labels, status="timeout") >= 1
    prebind = "scheduler_dra_bindingconditions_prebind_duration_seconds_count"
    assert metric(
        plane, prebind, profile="default-scheduler", status="success", requires_bindingconditions="true"
    )
    assert metric(
        plane, "scheduler_dra_bindingconditions_wait_duration_seconds_count", **labels, status="success"
    )


async def test_metrics_distinguish_the_durations_of_other_pods(plane: ControlPlane) -> None:
    await start(plane)
    await plane.apply(LOCAL)
    await pod(plane, "pod-1")
    await bound(plane, "pod-1")
    prebind = "scheduler_dra_bindingconditions_prebind_duration_seconds_count"
    labels = {"profile": "default-scheduler", "status": "success", "requires_bindingconditions": "false"}
    await until_counted(plane, prebind, **labels)
    exposed = generate_latest(plane.controllers.metrics.registry).decode()
    assert 'requires_bindingconditions="false",status="success"' in exposed
    for name in (
        "scheduler_pending_pods",
        "scheduler_plugin_execution_duration_seconds",
        "scheduler_framework_extension_point_duration_seconds",
        "scheduler_pod_scheduling_sli_duration_seconds",
        "resourceclaim_controller_resource_claims",
        'workqueue_depth{name="resource_claim"}',
    ):
        assert name in exposed
