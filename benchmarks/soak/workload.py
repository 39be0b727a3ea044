"""The pods of a soak. Each claims one device, runs to its end and is deleted."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any, Final

from dradriver.kube import CLASSES, PODS, TEMPLATES, Cache, Client
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim

__all__ = ["WORKLOADS", "PodRunner", "Workload"]

_DRA: Final = "resource.k8s.io/v1"
_NAMESPACE: Final = "default"


@dataclass(frozen=True, slots=True)
class Workload:
    """The claims of the pods of one driver.

    Attributes:
        entry: name by which `dradriver run` finds the driver.
        driver: name of the driver in the cluster.
        selector: CEL selector of the devices.
    """

    entry: str
    driver: str
    selector: str

    @property
    def name(self) -> str:
        """The name of the DeviceClass and of the ResourceClaimTemplate."""
        return f"soak-{self.entry}"

    @property
    def device_class(self) -> Mapping[str, Any]:
        """The DeviceClass of the devices."""
        spec = {"selectors": [{"cel": {"expression": self.selector}}]}
        return {"apiVersion": _DRA, "kind": "DeviceClass", "metadata": {"name": self.name}, "spec": spec}

    @property
    def template(self) -> Mapping[str, Any]:
        """The ResourceClaimTemplate of the pods' claims."""
        requests = [{"name": "device", "exactly": {"deviceClassName": self.name}}]
        return {
            "apiVersion": _DRA,
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": self.name, "namespace": _NAMESPACE},
            "spec": {"spec": {"devices": {"requests": requests}}},
        }

    def pod(self, name: str) -> Mapping[str, Any]:
        """Return a pod that ends at once."""
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": _NAMESPACE},
            "spec": {
                "restartPolicy": "Never",
                "containers": [
                    {
                        "name": "main",
                        "image": "busybox:1.36",
                        "command": ["true"],
                        "resources": {"claims": [{"name": "device"}]},
                    }
                ],
                "resourceClaims": [{"name": "device", "resourceClaimTemplateName": self.name}],
            },
        }


WORKLOADS: Final = (
    Workload(
        "gpu-mig",
        "gpu.nvidia.com",
        'device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].type == "mig" && '
        'device.attributes["gpu.nvidia.com"].profile.startsWith("1g.")',
    ),
    Workload(
        "fpga",
        "fpga.example.com",
        'device.driver == "fpga.example.com" && device.attributes["fpga.example.com"].type == "region"',
    ),
)


class PodRunner:
    """Creates pods, waits until they have run, deletes them, and waits until pod and claim are gone.

    Args:
        client: client of the cluster.
        pods: cache of its pods.
        claims: cache of its claims.
    """

    def __init__(self, client: Client, pods: Cache[Pod], claims: Cache[ResourceClaim]) -> None:
        self._client = client
        self._pods = pods
        self._claims = claims
        self._waiting: dict[str, asyncio.Event] = {}
        pods.subscribe(lambda _kind, old, new: self._wake(old or new))
        claims.subscribe(lambda _kind, old, new: self._wake(old or new))

    async def prepare(self) -> None:
        """Create classes and templates."""
        for workload in WORKLOADS:
            await self._client.create(CLASSES, workload.device_class, into=bytes)
            await self._client.create(TEMPLATES, workload.template, _NAMESPACE, into=bytes)

    async def run(self, count: int, side_by_side: int, after: Callable[[int], Awaitable[None]]) -> None:
        """Run pods, alternating between the drivers.

        Args:
            count: number of pods.
            side_by_side: number of pods at one time.
            after: called after each pod, with the number of pods that have come and gone.
        """
        numbered: Iterator[tuple[int, Workload]] = islice(enumerate(cycle(WORKLOADS)), count)
        done = 0

        async def work() -> None:
            nonlocal done
            for number, workload in numbered:
                await self._live_and_die(workload, f"{workload.entry}-{number}")
                done += 1
                await after(done)

        async with asyncio.TaskGroup() as group:
            for _ in range(side_by_side):
                group.create_task(work())

    async def _live_and_die(self, workload: Workload, name: str) -> None:
        changed = self._waiting[name] = asyncio.Event()
        try:
            await self._client.create(PODS, workload.pod(name), _NAMESPACE, into=bytes)
            await _until(changed, lambda: self._phase(name) in {"Succeeded", "Failed"})
            if self._phase(name) != "Succeeded":
                raise RuntimeError(f"pod {name} failed: {self._pods.items[f'{_NAMESPACE}/{name}'].status}")
            await self._client.delete(PODS, name, _NAMESPACE, grace_seconds=0)
            await _until(changed, lambda: self._is_gone(name))
        finally:
            del self._waiting[name]

    def _phase(self, name: str) -> str:
        pod = self._pods.items.get(f"{_NAMESPACE}/{name}")
        return pod.status.phase if pod else ""

    def _is_gone(self, name: str) -> bool:
        claimed = any(_pod_of(claim) == name for claim in self._claims.items.values())
        return f"{_NAMESPACE}/{name}" not in self._pods.items and not claimed

    def _wake(self, changed: Pod | ResourceClaim | None) -> None:
        if changed is None:
            return
        name = changed.metadata.name if isinstance(changed, Pod) else _pod_of(changed)
        if name in self._waiting:
            self._waiting[name].set()


def _pod_of(claim: ResourceClaim) -> str:
    owners = claim.metadata.owner_references
    return owners[0].name if owners else ""


async def _until(changed: asyncio.Event, done: Callable[[], bool]) -> None:
    while not done():
        changed.clear()
        await changed.wait()
