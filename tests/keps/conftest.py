"""A control plane without kubelets: API server, controllers, scheduler; tests create nodes and slices.

Tests use public interfaces only: they apply objects and read the state of pods. API server and scheduler have
separate feature gates, so that every row of a skew table can be tested.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from dradriver.allocator import Features
from dradriver.cluster.apiserver import ApiServer
from dradriver.control.controllers import Controllers
from dradriver.control.settings import SchedulerSettings
from dradriver.kube import CLAIMS, CLASSES, NODES, PODS, SLICES, TEMPLATES, Client, PatchKind
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim
from tests.caches import until_current

RESOURCES = {each.kind: each for each in (CLAIMS, CLASSES, NODES, PODS, SLICES, TEMPLATES)}


class ControlPlane:
    """One cluster, in a folder that survives restarts with other gates."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = AsyncExitStack()
        self._client: Client | None = None
        self._controllers: Controllers | None = None

    @property
    def client(self) -> Client:
        assert self._client is not None, "not started"
        return self._client

    async def start(
        self,
        gates: Mapping[str, bool] | None = None,
        *,
        scheduler: Mapping[str, bool] | None = None,
        **settings: Any,
    ) -> None:
        """Start or restart it; by default the scheduler has the gates of the server.

        Settings are those of `SchedulerSettings`.
        """
        await self.stop()
        server = ApiServer(self._folder / "api", feature_gates=gates)
        self._stack.push_async_callback(server.stop)
        await server.start()
        kubeconfig = self._folder / "kubeconfig"
        await asyncio.to_thread(server.write_kubeconfig, kubeconfig)
        self._client = await self._stack.enter_async_context(await Client.connect(str(kubeconfig)))
        features = Features.of_gates(scheduler if scheduler is not None else gates or {})
        controllers = Controllers(self._client, SchedulerSettings(features=features, **settings))
        self._controllers = await self._stack.enter_async_context(controllers)

    async def stop(self) -> None:
        await self._stack.aclose()

    @property
    def controllers(self) -> Controllers:
        assert self._controllers is not None, "not started"
        return self._controllers

    async def until(self, done: Callable[[Mapping[str, Pod], Mapping[str, ResourceClaim]], bool]) -> None:
        """Wait until pods and claims, by `namespace/name`, satisfy a condition."""
        await self._until(done)

    async def apply(self, text: str) -> list[dict[str, Any]]:
        """Apply YAML documents server-side; return the objects as they were stored.

        The scheduler knows each object before the next one is applied. Otherwise it could decide about a pod
        without an object that it does not know yet.
        """
        stored = []
        for body in yaml.safe_load_all(text):
            resource = RESOURCES[body["kind"]]
            name, namespace = body["metadata"]["name"], "default" if resource.namespaced else ""
            stored.append(
                await self.client.patch(
                    resource,
                    name,
                    namespace,
                    body,
                    PatchKind.APPLY,
                    into=dict[str, Any],
                    field_manager="test",
                    force=True,
                )
            )
            await self.until_known()
        return stored

    async def until_known(self) -> None:
        """Wait until the scheduler knows all objects except pods as they are now."""
        caches = self.controllers.caches
        await until_current(self.client, caches.nodes, caches.classes, caches.slices, caches.claims)

    async def pod(self, name: str, *requests: Mapping[str, Any], constraint: str = "") -> None:
        """Create a pod with one claim of the same name, with these requests."""
        devices: dict[str, Any] = {"requests": list(requests)}
        if constraint:
            devices["constraints"] = [{"requests": [], "matchAttribute": constraint}]
        claim = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": name},
            "spec": {"devices": devices},
        }
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {
                "containers": [
                    {"name": "main", "image": "busybox", "resources": {"claims": [{"name": "claim"}]}}
                ],
                "resourceClaims": [{"name": "claim", "resourceClaimName": name}],
            },
        }
        await self.apply(yaml.safe_dump_all([claim, pod]))

    async def delete_pod(self, name: str) -> None:
        """Delete a pod and wait until its claim is free."""
        await self.client.delete(PODS, name, "default", grace_seconds=0)
        await self._until(lambda _, claims: claims[f"default/{name}"].allocation is None)

    async def devices(self, name: str) -> list[str]:
        """Wait until the pod has a node; return the devices of its claim."""
        ref = f"default/{name}"
        await self._until(lambda pods, _: ref in pods and bool(pods[ref].spec.node_name))
        claim = await self.client.get(CLAIMS, name, "default", into=ResourceClaim)
        return [result.device for result in claim.results]

    async def refusal(self, name: str) -> str:
        """Wait until the pod is reported as unschedulable; return the message."""
        found = ""

        def refused(pods: Mapping[str, Pod], _: Mapping[str, ResourceClaim]) -> bool:
            nonlocal found
            pod = pods.get(f"default/{name}")
            assert pod is None or not pod.spec.node_name, f"{name} was scheduled"
            conditions = pod.status.conditions if pod else []
            found = next((c.message for c in conditions if c.reason == "Unschedulable"), "")
            return bool(found)

        await self._until(refused)
        return found

    async def _until(self, done: Callable[[Mapping[str, Pod], Mapping[str, ResourceClaim]], bool]) -> None:
        assert self._controllers is not None
        caches = self._controllers.caches
        changed = asyncio.Event()
        stop = [cache.subscribe(lambda *_: changed.set()) for cache in (caches.pods, caches.claims)]
        try:
            while not done(caches.pods.items, caches.claims.items):
                changed.clear()
                await changed.wait()
        finally:
            for each in stop:
                each()


def request(device_class: str, expression: str = "", name: str = "gpu", count: int = 1) -> dict[str, Any]:
    """Return a request for devices of a class for which a CEL expression is true."""
    exactly: dict[str, Any] = {"deviceClassName": device_class, "count": count}
    if expression:
        exactly["selectors"] = [{"cel": {"expression": expression}}]
    return {"name": name, "exactly": exactly}


@pytest.fixture
async def plane(tmp_path: Path) -> AsyncIterator[ControlPlane]:
    made = ControlPlane(tmp_path)
    yield made
    await made.stop()
