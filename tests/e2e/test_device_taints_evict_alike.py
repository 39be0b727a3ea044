"""DeviceTaintRules: kube-scheduler and kube-controller-manager do and say what the embedded cluster does."""

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
    NODES,
    PODS,
    SERVICE_ACCOUNTS,
    SLICES,
    TAINT_RULES,
    AlreadyExists,
    Client,
    NotFound,
    PatchKind,
)
from dradriver.testing import builders
from tests.e2e import control_plane
from tests.e2e.api_servers import NODE, ApiServerBed, api_server_bed

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


class Story:
    """What happens on one cluster, in words that do not depend on time and chance."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def begin(self) -> None:
        client = self._client
        devices = [builders.device("device-0"), builders.device("device-1")]
        for resource, body, namespace in (
            (NODES, builders.node(NODE), ""),
            (SERVICE_ACCOUNTS, {"metadata": {"name": "default"}}, "default"),
            (CLASSES, builders.device_class(), ""),
            (SLICES, builders.slice_(*devices, node_name=NODE), ""),
        ):
            with suppress(AlreadyExists):
                await client.create(resource, body, namespace, into=dict)
        room = {"pods": "20", "cpu": "8", "memory": "8Gi"}
        status = {"status": {"capacity": room, "allocatable": room}}
        await client.patch(NODES, NODE, "", status, PatchKind.MERGE, into=dict, subresource="status")

    async def pod(self, name: str, *tolerations: Json) -> None:
        exactly = {"deviceClassName": builders.CLASS, "tolerations": list(tolerations)}
        spec = {"devices": {"requests": [{"name": "device", "exactly": exactly}]}}
        await self._client.create(CLAIMS, {"metadata": {"name": name}, "spec": spec}, "default", into=dict)
        await self._client.create(PODS, builders.pod(name, name=name), "default", into=dict)

    async def bound(self, name: str) -> list[str]:
        """The devices of a pod, once it has a node."""
        await self._until(PODS, name, lambda pod: bool(pod["spec"].get("nodeName")))
        claim = await self._client.get(CLAIMS, name, "default", into=dict[str, Any])
        return [each["device"] for each in claim["status"]["allocation"]["devices"]["results"]]

    async def rule(self, effect: str) -> None:
        """A new rule, in place of the last one."""
        taint = {"key": "example.com/broken", "effect": effect}
        body = {"metadata": {"name": "rule"}, "spec": {"deviceSelector": TAINTED, "taint": taint}}
        with suppress(NotFound):
            await self._client.delete(TAINT_RULES, "rule")
        await self._client.create(TAINT_RULES, body, into=dict)

    async def said(self, reason: str) -> Json:
        """What the rule says once its condition has this reason."""

        def has(rule: Json) -> bool:
            return any(c["reason"] == reason for c in rule.get("status", {}).get("conditions", []))

        rule = await self._until(TAINT_RULES, "rule", has)
        (condition,) = rule["status"]["conditions"]
        return {key: condition.get(key, "") for key in ("type", "status", "reason", "message")}

    async def evicted(self, name: str) -> Json:
        pod = await self._until(PODS, name, lambda pod: "deletionTimestamp" in pod["metadata"])
        condition = next(c for c in pod["status"]["conditions"] if c["type"] == "DisruptionTarget")
        return {key: condition[key] for key in ("status", "reason", "message")}

    async def refused(self, name: str) -> str:
        def told(pod: Json) -> bool:
            return any(c.get("message") for c in pod.get("status", {}).get("conditions", []))

        pod = await self._until(PODS, name, told)
        return str(next(c["reason"] for c in pod["status"]["conditions"] if c["type"] == "PodScheduled"))

    async def event(self, name: str, message: str) -> Json:
        while True:
            for event in (await self._client.list(EVENTS, "default", into=dict[str, Any])).items:
                if event["involvedObject"]["name"] == name and event["message"] == message:
                    said = {key: event[key] for key in ("type", "reason")}
                    return said | {"component": event["source"]["component"]}
            await asyncio.sleep(0.1)

    async def _until(self, resource: Any, name: str, done: Callable[[Json], bool]) -> Json:
        namespace = "default" if resource.namespaced else ""
        while True:
            found = await self._client.get(resource, name, namespace, into=dict[str, Any])
            if done(found):
                return found
            await asyncio.sleep(0.1)

    async def tell(self) -> Json:
        told: Json = {}
        await self.begin()
        await self.pod("first")
        told["first"] = await self.bound("first")
        await self.rule("None")
        told["without effect"] = await self.said("NoEffect")
        await self.rule("NoSchedule")
        told["new claims only"] = await self.said("OtherEffect")
        await self.pod("second")
        told["second"] = await self.bound("second")
        await self.pod("third")
        told["third"] = await self.refused("third")
        await self.rule("NoExecute")
        told["evicted"] = await self.evicted("first")
        told["event"] = await self.event("first", "Marking for deletion")
        told["completed"] = await self.said("Completed")
        return told

    async def tell_patiently(self) -> Json:
        """A pod that tolerates the taint for an hour; the rule goes before."""
        told: Json = {}
        await self.begin()
        await self.pod("patient", PATIENT)
        await self.bound("patient")
        await self.rule("NoExecute")
        told["pending"] = await self.said("PodsPendingEviction")
        await self._client.delete(TAINT_RULES, "rule")
        told["called off"] = await self.event("patient", "Cancelling deletion")
        return told

    async def tell_of_a_toleration_without_an_effect(self) -> Json:
        """It lets the claim be allocated, and does not hold the eviction off."""
        told: Json = {}
        await self.begin()
        await self.rule("NoExecute")
        await self.pod("second", {"operator": "Exists"})
        told["allocated"] = await self.bound("second")
        told["evicted"] = await self.evicted("second")
        return told


async def on_kubernetes(bed: ApiServerBed, story: str) -> Json:
    async with await Client.connect(str(bed.credentials.write_kubeconfig(bed.url, "admin"))) as client:
        for resource in (PODS, CLAIMS):
            for each in (await client.list(resource, "default", into=dict[str, Any])).items:
                await client.delete(resource, each["metadata"]["name"], "default", grace_seconds=0)
        await client.delete(TAINT_RULES, "rule")
        while (await client.list(CLAIMS, "default", into=dict)).items:
            await asyncio.sleep(0.1)
        async with asyncio.timeout(SECONDS):
            return dict(await getattr(Story(client), story)())


async def embedded(folder: Path, story: str) -> Json:
    server = ApiServer(folder / "api")
    await server.start()
    await asyncio.to_thread(server.write_kubeconfig, folder / "kubeconfig")
    try:
        async with await Client.connect(str(folder / "kubeconfig")) as client, Controllers(client):
            async with asyncio.timeout(SECONDS):
                return dict(await getattr(Story(client), story)())
    finally:
        await server.stop()


@pytest.mark.timeout(240)
@pytest.mark.parametrize("story", ["tell_patiently", "tell_of_a_toleration_without_an_effect", "tell"])
async def test_both_tell_the_same(bed: ApiServerBed, tmp_path: Path, story: str) -> None:
    assert await embedded(tmp_path, story) == await on_kubernetes(bed, story)
