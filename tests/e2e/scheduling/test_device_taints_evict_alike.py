"""DeviceTaintRules: kube-scheduler and kube-controller-manager act and report as the embedded cluster does."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from dradriver.cluster.apiserver import ApiServer
from dradriver.control.controllers import Controllers
from dradriver.kube import (
    CLAIMS,
    CLASSES,
    EVENTS,
    PODS,
    SLICES,
    TAINT_RULES,
    Client,
    NotFound,
)
from dradriver.testing import builders
from tests.e2e.bed import control_plane
from tests.e2e.bed.api_server_bed import NODE, ApiServerBed, api_server_bed
from tests.e2e.scheduling.scheduled_cluster import create_objects

Json = dict[str, Any]
SECONDS: Final = 90
TAINTED: Final = {"driver": builders.DRIVER, "device": "device-0"}
PATIENT: Final = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3600}


@pytest.fixture(scope="module")
def bed() -> Iterator[ApiServerBed]:
    with api_server_bed() as made:
        made.serve(None, {})
        control_plane.start_scheduler(made, [])
        control_plane.start_controller_manager(made, [])
        yield made


class Scenario:
    """Events on one cluster, in values that do not depend on time or names."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def begin(self) -> None:
        client = self._client
        devices = [builders.device("device-0"), builders.device("device-1")]
        await create_objects(
            client,
            (CLASSES, builders.device_class(), ""),
            (SLICES, builders.slice_(*devices, node_name=NODE), ""),
        )

    async def pod(self, name: str, *tolerations: Json, devices: int = 1) -> None:
        exactly = {"deviceClassName": builders.CLASS, "count": devices, "tolerations": list(tolerations)}
        spec = {"devices": {"requests": [{"name": "device", "exactly": exactly}]}}
        await self._client.create(CLAIMS, {"metadata": {"name": name}, "spec": spec}, "default", into=dict)
        await self._client.create(PODS, builders.pod(name, name=name), "default", into=dict)

    async def bound(self, name: str) -> list[str]:
        """Wait until a pod has a node; return its devices."""
        await self._until(PODS, name, lambda pod: bool(pod["spec"].get("nodeName")))
        claim = await self._client.get(CLAIMS, name, "default", into=dict[str, Any])
        return [each["device"] for each in claim["status"]["allocation"]["devices"]["results"]]

    async def until_no_device_is_tainted(self) -> None:
        """Wait until a pod without tolerations is bound with both devices.

        The scheduler receives the deletion of the last rule on another watch than claims and pods.
        """
        await self.begin()
        await self.pod("probe", devices=2)
        await self.bound("probe")

    async def replace_rule(self, effect: str) -> None:
        """Create a rule in place of the last one."""
        taint = {"key": "example.com/broken", "effect": effect}
        body = {"metadata": {"name": "rule"}, "spec": {"deviceSelector": TAINTED, "taint": taint}}
        with suppress(NotFound):
            await self._client.delete(TAINT_RULES, "rule")
        await self._client.create(TAINT_RULES, body, into=dict)

    async def wait_for_reason(self, reason: str) -> Json:
        """Wait until the rule's condition has this reason; return the condition."""

        def has(rule: Json) -> bool:
            return any(c["reason"] == reason for c in rule.get("status", {}).get("conditions", []))

        rule = await self._until(TAINT_RULES, "rule", has)
        (condition,) = rule["status"]["conditions"]
        return {key: condition.get(key, "") for key in ("type", "status", "reason", "message")}

    async def report_without_effect(self) -> Json:
        """Return the condition of a rule without effect that has counted the pod.

        The message is written once. It can be from before the controller has received the pod's binding or
        the slice.
        """
        while True:
            await self.replace_rule("None")
            condition = await self.wait_for_reason("NoEffect")
            if "1 published device " in condition["message"] and " 1 pod " in condition["message"]:
                return condition

    async def evicted(self, name: str) -> Json:
        pod = await self._until(PODS, name, lambda pod: "deletionTimestamp" in pod["metadata"])
        condition = next(c for c in pod["status"]["conditions"] if c["type"] == "DisruptionTarget")
        return {key: condition[key] for key in ("status", "reason", "message")}

    async def wait_for_refusal(self, name: str) -> str:
        def has_message(pod: Json) -> bool:
            return any(c.get("message") for c in pod.get("status", {}).get("conditions", []))

        pod = await self._until(PODS, name, has_message)
        return str(next(c["reason"] for c in pod["status"]["conditions"] if c["type"] == "PodScheduled"))

    async def event(self, name: str, message: str) -> Json:
        while True:
            for event in (await self._client.list(EVENTS, "default", into=dict[str, Any])).items:
                if event["involvedObject"]["name"] == name and event["message"] == message:
                    summary = {key: event[key] for key in ("type", "reason")}
                    return summary | {"component": event["source"]["component"]}
            await asyncio.sleep(0.1)

    async def _until(self, resource: Any, name: str, done: Callable[[Json], bool]) -> Json:
        namespace = "default" if resource.namespaced else ""
        while True:
            found = await self._client.get(resource, name, namespace, into=dict[str, Any])
            if done(found):
                return found
            await asyncio.sleep(0.1)

    async def play_effects(self) -> Json:
        results: Json = {}
        await self.begin()
        await self.pod("first")
        results["first"] = await self.bound("first")
        results["without effect"] = await self.report_without_effect()
        await self.replace_rule("NoSchedule")
        results["new claims only"] = await self.wait_for_reason("OtherEffect")
        await self.pod("second")
        results["second"] = await self.bound("second")
        await self.pod("third")
        results["third"] = await self.wait_for_refusal("third")
        await self.replace_rule("NoExecute")
        results["evicted"] = await self.evicted("first")
        results["event"] = await self.event("first", "Marking for deletion")
        results["completed"] = await self.wait_for_reason("Completed")
        return results

    async def play_toleration_with_a_time(self) -> Json:
        """A pod tolerates the taint for an hour; the rule is deleted before."""
        results: Json = {}
        await self.begin()
        await self.pod("patient", PATIENT)
        await self.bound("patient")
        await self.replace_rule("NoExecute")
        results["pending"] = await self.wait_for_reason("PodsPendingEviction")
        await self._client.delete(TAINT_RULES, "rule")
        results["called off"] = await self.event("patient", "Cancelling deletion")
        return results

    async def play_toleration_without_an_effect(self) -> Json:
        """The toleration lets the claim be allocated, and does not delay the eviction."""
        results: Json = {}
        await self.begin()
        await self.replace_rule("NoExecute")
        await self.pod("second", {"operator": "Exists"})
        results["allocated"] = await self.bound("second")
        results["evicted"] = await self.evicted("second")
        return results


async def on_kubernetes(bed: ApiServerBed, story: str) -> Json:
    async with await Client.connect(str(bed.credentials.write_kubeconfig(bed.url, "admin"))) as client:
        scenario = Scenario(client)
        await remove_pods_and_claims(client)
        await client.delete(TAINT_RULES, "rule")
        async with asyncio.timeout(SECONDS):
            await scenario.until_no_device_is_tainted()
        await remove_pods_and_claims(client)
        async with asyncio.timeout(SECONDS):
            return dict(await getattr(scenario, story)())


async def remove_pods_and_claims(client: Client) -> None:
    for resource in (PODS, CLAIMS):
        for each in (await client.list(resource, "default", into=dict[str, Any])).items:
            await client.delete(resource, each["metadata"]["name"], "default", grace_seconds=0)
    async with asyncio.timeout(SECONDS):
        while (await client.list(CLAIMS, "default", into=dict)).items:
            await asyncio.sleep(0.1)


async def embedded(folder: Path, story: str) -> Json:
    server = ApiServer(folder / "api")
    await server.start()
    await asyncio.to_thread(server.write_kubeconfig, folder / "kubeconfig")
    try:
        async with await Client.connect(str(folder / "kubeconfig")) as client, Controllers(client):
            async with asyncio.timeout(SECONDS):
                return dict(await getattr(Scenario(client), story)())
    finally:
        await server.stop()


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "story", ["play_toleration_with_a_time", "play_toleration_without_an_effect", "play_effects"]
)
async def test_both_clusters_report_the_same(bed: ApiServerBed, tmp_path: Path, story: str) -> None:
    assert await embedded(tmp_path, story) == await on_kubernetes(bed, story)
