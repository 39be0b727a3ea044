"""DeviceTaintRules, the scheduler and the eviction controller on an API server."""

from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

import pytest

from dradriver.allocator import Features
from dradriver.cluster.apiserver import Fault
from dradriver.control.controllers import Controllers
from dradriver.control.settings import SchedulerSettings
from dradriver.kube import CLAIMS, PODS, SLICES, TAINT_RULES, Cache, PatchKind
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.taint_rule import DeviceTaintRule
from dradriver.testing import builders
from tests.unit.control.conftest import Lab
from tests.unit.control.events import wait_for_event


def a_rule(effect: str, **selector: str) -> dict[str, Any]:
    taint = {"key": "example.com/broken", "effect": effect}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "rule"},
        "spec": {"deviceSelector": selector, "taint": taint},
    }


async def run_a_pod(lab: Lab) -> Pod:
    await lab.pods(builders.pod(templates=["template"]))
    await lab.until_bound(1)
    return lab.seen.pods.items["default/pod-1"]


def is_evicted(pods: Mapping[str, Pod], _claims: Mapping[str, ResourceClaim]) -> bool:
    return pods["default/pod-1"].metadata.deletion_timestamp is not None


async def wait_for_condition(rules: Cache[DeviceTaintRule], reason: str) -> str:
    """Wait until the condition of a rule has this reason, and return its message."""
    async with aclosing(rules.changes()) as changes:
        while True:
            for condition in (c for rule in rules.items.values() for c in rule.status.conditions):
                if condition.reason == reason:
                    return condition.message
            await anext(changes)


async def test_a_rule_keeps_new_claims_from_a_device_until_it_is_deleted(lab: Lab) -> None:
    await lab.client.create(TAINT_RULES, a_rule("NoSchedule"), into=dict)
    async with Controllers(lab.client):
        await lab.pods(builders.pod(templates=["template"]))
        await lab.until(lambda pods, _: any(pod.status.conditions for pod in pods.values()))
        (condition,) = lab.seen.pods.items["default/pod-1"].status.conditions
        assert "taint" in condition.message
        await lab.client.delete(TAINT_RULES, "rule")
        await lab.until_bound(1)


async def test_a_pod_whose_device_gets_a_no_execute_taint_is_evicted(lab: Lab) -> None:
    async with Controllers(lab.client) as running:
        pod = await run_a_pod(lab)
        await lab.client.create(TAINT_RULES, a_rule("NoExecute"), into=dict)
        await lab.until(is_evicted)
        message = await wait_for_condition(running.caches.rules, "PodsPendingEviction")
        event = await wait_for_event(lab.client, "Marking for deletion")
    assert message == "1 pod needs to be evicted in 1 namespace."
    (condition,) = [c for c in lab.seen.pods.items[pod.ref].status.conditions if c.type == "DisruptionTarget"]
    assert (condition.status, condition.reason) == ("True", "DeletionByDeviceTaintManager")
    assert condition.message == "Device Taint manager: deleting due to NoExecute taint"
    assert event.source["component"] == "device-taint-eviction-controller"


async def test_a_taint_of_the_driver_evicts_too(lab: Lab) -> None:
    async with Controllers(lab.client):
        await run_a_pod(lab)
        (result,) = [r for claim in lab.seen.claims.items.values() for r in claim.results]
        path = f"/spec/devices/{result.device[-1]}/taints"
        taints = [{"key": "example.com/broken", "effect": "NoExecute"}]
        patch = [{"op": "add", "path": path, "value": taints}]
        name = f"{result.pool}-{builders.DRIVER}"
        await lab.client.patch(SLICES, name, "", patch, PatchKind.JSON, into=dict)
        await lab.until(is_evicted)


async def test_all_pods_that_share_a_claim_are_evicted_and_it_gets_another_device(lab: Lab) -> None:
    async with Controllers(lab.client):
        await lab.client.create(CLAIMS, builders.claim(), "default", into=dict)
        await lab.pods(*(builders.pod("claim-1", name=name) for name in ("first", "second")))
        await lab.until_bound(2)
        (result,) = lab.seen.claims.items["default/claim-1"].results
        await lab.client.create(
            TAINT_RULES, a_rule("NoExecute", pool=result.pool, device=result.device), into=dict
        )
        await lab.until(lambda pods, _: all(pod.metadata.deletion_timestamp for pod in pods.values()))
        for name in ("first", "second"):
            await lab.client.delete(PODS, name, "default", grace_seconds=0)
        await lab.pods(builders.pod("claim-1", name="third"))
        await lab.until_bound(1)
    (now,) = lab.seen.claims.items["default/claim-1"].results
    assert now.id != result.id


async def test_an_eviction_that_is_not_due_is_canceled_with_its_rule(lab: Lab) -> None:
    async with Controllers(lab.client) as running:
        toleration = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3600}
        exactly = {"deviceClassName": builders.CLASS, "tolerations": [toleration]}
        spec = {"devices": {"requests": [{"name": "device", "exactly": exactly}]}}
        claim = {"metadata": {"name": "claim-1"}, "spec": spec}
        await lab.client.create(CLAIMS, claim, "default", into=dict)
        await lab.pods(builders.pod("claim-1"))
        await lab.until_bound(1)
        await lab.client.create(TAINT_RULES, a_rule("NoExecute"), into=dict)
        assert await wait_for_condition(running.caches.rules, "PodsPendingEviction")
        await lab.client.delete(TAINT_RULES, "rule")
        assert (await wait_for_event(lab.client, "Cancelling deletion")).source[
            "component"
        ] == "device-taint-eviction-controller"
    assert lab.seen.pods.items["default/pod-1"].metadata.deletion_timestamp is None


async def test_a_rule_with_the_effect_none_only_reports(lab: Lab) -> None:
    async with Controllers(lab.client) as running:
        await run_a_pod(lab)
        await lab.client.create(TAINT_RULES, a_rule("None", driver=builders.DRIVER), into=dict)
        message = await wait_for_condition(running.caches.rules, "NoEffect")
    assert message.startswith(
        "4 published devices selected. 1 allocated device selected. 1 pod would be evicted"
    )
    assert lab.seen.pods.items["default/pod-1"].metadata.deletion_timestamp is None


async def test_a_pod_with_a_disruption_condition_is_deleted_after_a_crash(lab: Lab) -> None:
    async with Controllers(lab.client):
        pod = await run_a_pod(lab)
        lab.server.faults.add(Fault("delete", "pods", code=500, count=-1))
        await lab.client.create(TAINT_RULES, a_rule("NoExecute"), into=dict)
        await lab.until(
            lambda pods, _: any(c.type == "DisruptionTarget" for c in pods[pod.ref].status.conditions)
        )
    lab.server.faults.clear()
    async with Controllers(lab.client):
        await lab.until(is_evicted)


@pytest.mark.parametrize("off", ["rules", "taints"])
async def test_with_the_gate_off_rules_have_no_effect(lab: Lab, off: str) -> None:
    features = Features(device_taints=off != "taints")
    async with Controllers(lab.client, SchedulerSettings(features=features), taint_rules=off != "rules"):
        await lab.client.create(TAINT_RULES, a_rule("NoSchedule"), into=dict)
        await run_a_pod(lab)
    (rule,) = (await lab.client.list(TAINT_RULES, into=DeviceTaintRule)).items
    assert not rule.status.conditions
