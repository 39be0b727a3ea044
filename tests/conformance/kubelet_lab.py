"""What the kubelet suite needs of a cluster: an API server, one node with its kubelet, and objects to make."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from dradriver.kube import CLAIMS, EVENTS, PODS, SLICES, Client, NotFound, PatchKind
from tests.conformance.fake_driver import FakeDriver

T = TypeVar("T")

DRIVER = "driver.example.com"


class Node(Protocol):
    """A kubelet under test."""

    name: str
    registry: Path
    plugins: Path
    cdi: Path

    async def start(self) -> None:
        """Starts the kubelet over the same state."""

    async def stop(self) -> None:
        """Ends the kubelet; drivers go on."""


@dataclass
class Lab:
    """One node and the means to make objects on it.

    Attributes:
        client: the API server, as an administrator.
        node: the kubelet under test.
        patience: seconds that anything may take, the kubelet's own waits included.
        call_seconds: the limit of one call to a driver.
        cleanup_seconds: how long a driver may be away before its slices go.
        namespace: where pods and claims are made.
        release: removes all pods, before the driver goes that has to unprepare their claims; for a kubelet
            that outlives the test.
    """

    client: Client
    node: Node
    patience: float
    call_seconds: float
    cleanup_seconds: float
    namespace: str = "default"
    release: Callable[[], Awaitable[None]] | None = None

    @asynccontextmanager
    async def driver(self, name: str = DRIVER, **more: Any) -> AsyncIterator[FakeDriver]:
        """A driver that serves; not necessarily registered yet."""
        data = self.node.plugins / name
        async with FakeDriver(name, self.node.registry, data, self.node.cdi, **more) as driver:
            try:
                yield driver
            finally:
                if self.release is not None:
                    driver.relent()
                    await self.release()

    @asynccontextmanager
    async def registered(self, name: str = DRIVER, **more: Any) -> AsyncIterator[FakeDriver]:
        """A driver that the kubelet accepted."""
        async with self.driver(name, **more) as driver:
            status = await driver.registered()
            assert status.plugin_registered, status.error
            yield driver

    async def until(self, what: str, check: Callable[[], Awaitable[T]]) -> T:
        """The first true result of the check; fails when patience ends."""
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
        """A claim with an allocation: one device of each driver for each request."""
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
        """A pod bound to the node with these claims; its container prints its environment and waits."""
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
        """Adds a pod to a claim's reservedFor."""
        held = await self.client.get(CLAIMS, claim, self.namespace, into=dict[str, Any])
        users = [*held["status"].get("reservedFor", []), {"resource": "pods", "name": pod, "uid": uid}]
        body = {"status": {"reservedFor": users}}
        await self.client.patch(
            CLAIMS, claim, self.namespace, body, PatchKind.MERGE, into=bytes, subresource="status"
        )

    async def get_pod(self, name: str) -> dict[str, Any] | None:
        """The pod, None when it is gone."""
        try:
            return await self.client.get(PODS, name, self.namespace, into=dict[str, Any])
        except NotFound:
            return None

    async def phase(self, name: str, phase: str) -> dict[str, Any]:
        """The pod once it has this phase."""

        async def check() -> dict[str, Any] | None:
            pod = await self.get_pod(name)
            return pod if pod and pod.get("status", {}).get("phase") == phase else None

        found = await self.until(f"pod {name} {phase}", check)
        assert found is not None
        return found

    async def delete_pod(self, name: str) -> None:
        """Asks for the pod's deletion."""
        await self.client.delete(PODS, name, self.namespace)

    async def gone(self, name: str) -> None:
        """Returns when the pod's object is gone."""

        async def check() -> bool:
            return await self.get_pod(name) is None

        await self.until(f"removal of pod {name}", check)

    async def event(self, pod: str, reason: str, part: str) -> str:
        """The message of an event of the pod that contains `part`."""

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
        """A ResourceSlice of the node."""
        spec = {
            "nodeName": self.node.name,
            "driver": driver,
            "pool": {"name": self.node.name, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "device-0"}],
        }
        metadata = {"name": f"{self.node.name}.{name}"}
        await self.client.create(SLICES, {"metadata": metadata, "spec": spec}, into=bytes)

    async def slices(self) -> set[str]:
        """The names of the node's ResourceSlices, as `publish` knows them."""
        listed = await self.client.list(SLICES, into=dict[str, Any])
        prefix = f"{self.node.name}."
        every = (item["metadata"]["name"] for item in listed.items)
        return {name.removeprefix(prefix) for name in every if name.startswith(prefix)}
