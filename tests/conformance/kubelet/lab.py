"""The environment of the kubelet suite: an API server, one node with its kubelet, and objects to create."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from dradriver.kube import CLAIMS, EVENTS, PODS, SLICES, Client, NotFound, PatchKind
from tests.conformance.kubelet.fake_driver import FakeDriver

T = TypeVar("T")

DRIVER = "driver.example.com"


class Node(Protocol):
    """A kubelet under test."""

    name: str
    registry: Path
    plugins: Path
    cdi: Path

    async def start(self) -> None:
        """Start the kubelet with the same state."""

    async def stop(self) -> None:
        """Stop the kubelet; drivers keep running."""


@dataclass
class Lab:
    """One node and functions to create objects on it.

    Attributes:
        client: the API server, as an administrator.
        node: the kubelet under test.
        patience: time limit of each wait in seconds, including the kubelet's own waits.
        namespace: the namespace of pods and claims.
        release: removes all pods while the driver can still unprepare their claims; for a kubelet that
            runs longer than the test.
    """

    client: Client
    node: Node
    patience: float
    namespace: str = "default"
    release: Callable[[], Awaitable[None]] | None = None

    @asynccontextmanager
    async def driver(self, name: str = DRIVER, **more: Any) -> AsyncIterator[FakeDriver]:
        """Start a driver; it may not be registered yet."""
        data = self.node.plugins / name
        async with FakeDriver(name, self.node.registry, data, self.node.cdi, **more) as driver:
            try:
                yield driver
            finally:
                if self.release is not None:
                    driver.clear_failures()
                    await self.release()

    @asynccontextmanager
    async def registered(self, name: str = DRIVER, **more: Any) -> AsyncIterator[FakeDriver]:
        """Start a driver and wait until the kubelet has accepted it."""
        async with self.driver(name, **more) as driver:
            status = await driver.registered()
            assert status.plugin_registered, status.error
            yield driver

    async def until(self, what: str, check: Callable[[], Awaitable[T]]) -> T:
        """Wait for the first true result of a check and return it; fail after `patience`."""
        deadline = time.monotonic() + self.patience
        while True:
            result = await check()
            if result:
                return result
            assert time.monotonic() < deadline, f"{what} did not happen within {self.patience} s"
            await asyncio.sleep(0.03)

    async def claim(
        self, name: str, *, drivers: tuple[str, ...] = (DRIVER,), requests: tuple[str, ...] = ("r0",)
    ) -> None:
        """Create a claim with an allocation: one device of each driver for each request."""
        spec = {"devices": {"requests": [{"name": r, "exactly": {"deviceClassName": "any"}} for r in requests]}}
        await self.client.create(CLAIMS, {"metadata": {"name": name}, "spec": spec}, self.namespace, into=bytes)
        results = [
            {"request": r, "driver": d, "pool": "pool", "device": f"device-{r}"}
            for d in drivers
            for r in requests
        ]
        body = {"status": {"allocation": {"devices": {"results": results}}}}
        await self.client.patch(
            CLAIMS, name, self.namespace, body, PatchKind.MERGE, into=bytes, subresource="status"
        )

    async def pod(self, name: str, *claims: str, reserve: bool = True, **spec: Any) -> None:
        """Create a pod on the node with these claims; its container prints its environment and waits."""
        script = "env; trap 'exit 0' TERM; sleep infinity & wait"
        container = {
            "name": "main",
            "image": "busybox",
            "imagePullPolicy": "IfNotPresent",
            "command": ["sh", "-c", script],
            "resources": {"claims": [{"name": claim} for claim in claims]},
        }
        body = {
            "metadata": {"name": name},
            "spec": {
                # The test binds it itself.
                "schedulerName": "none",
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "containers": [container],
                "resourceClaims": [{"name": claim, "resourceClaimName": claim} for claim in claims],
                **spec,
            },
        }
        made = await self.client.create(PODS, body, self.namespace, into=dict[str, Any])
        if reserve:
            for claim in claims:
                await self.reserve(claim, name, made["metadata"]["uid"])
        # Bound after the reservation: the kubelet must not see it earlier.
        binding = {
            "metadata": {"name": name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": self.node.name},
        }
        await self.client.create(PODS, binding, self.namespace, into=bytes, subresource="binding", name=name)

    async def reserve(self, claim: str, pod: str, uid: str) -> None:
        """Add a pod to a claim's reservedFor."""
        held = await self.client.get(CLAIMS, claim, self.namespace, into=dict[str, Any])
        users = [*held["status"].get("reservedFor", []), {"resource": "pods", "name": pod, "uid": uid}]
        body = {"status": {"reservedFor": users}}
        await self.client.patch(
            CLAIMS, claim, self.namespace, body, PatchKind.MERGE, into=bytes, subresource="status"
        )

    async def get_pod(self, name: str) -> dict[str, Any] | None:
        """Return the pod, None after its deletion."""
        try:
            return await self.client.get(PODS, name, self.namespace, into=dict[str, Any])
        except NotFound:
            return None

    async def phase(self, name: str, phase: str) -> dict[str, Any]:
        """Wait until the pod has this phase; return it."""

        async def check() -> dict[str, Any] | None:
            pod = await self.get_pod(name)
            return pod if pod and pod.get("status", {}).get("phase") == phase else None

        found = await self.until(f"pod {name} {phase}", check)
        assert found is not None
        return found

    async def delete_pod(self, name: str) -> None:
        """Request the deletion of a pod."""
        await self.client.delete(PODS, name, self.namespace)

    async def gone(self, name: str) -> None:
        """Wait until the pod's object is deleted."""

        async def check() -> bool:
            return await self.get_pod(name) is None

        await self.until(f"removal of pod {name}", check)

    async def event(self, pod: str, reason: str, part: str) -> str:
        """Return the message of an event of the pod that contains `part`."""

        async def check() -> str:
            events = (await self.client.list(EVENTS, self.namespace, into=dict[str, Any])).items
            return next(
                (
                    e["message"]
                    for e in events
                    if e["involvedObject"].get("name") == pod and e["reason"] == reason and part in e["message"]
                ),
                "",
            )

        return await self.until(f"event {reason} {part!r} of pod {pod}", check)

    async def publish(self, name: str, driver: str = DRIVER) -> None:
        """Create a ResourceSlice of the node."""
        spec = {
            "nodeName": self.node.name,
            "driver": driver,
            "pool": {"name": self.node.name, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "device-0"}],
        }
        metadata = {"name": f"{self.node.name}.{name}"}
        await self.client.create(SLICES, {"metadata": metadata, "spec": spec}, into=bytes)

    async def slices(self) -> set[str]:
        """Return the names of the node's ResourceSlices, in the form of `publish`."""
        listed = await self.client.list(SLICES, into=dict[str, Any])
        prefix = f"{self.node.name}."
        every = (item["metadata"]["name"] for item in listed.items)
        return {name.removeprefix(prefix) for name in every if name.startswith(prefix)}
