"""A control plane with kube-scheduler and controllers; nobody runs its nodes: pods are bound, never started."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Final

from dradriver.kube import (
    CLAIMS,
    CLASSES,
    NODES,
    PODS,
    SERVICE_ACCOUNTS,
    SLICES,
    AlreadyExists,
    Client,
    NotFound,
    PatchKind,
)
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import EXTENDED_CLAIM_ANNOTATION, ResourceClaim
from tests.conformance.generated_pods import CLASSES as GENERATED_CLASSES
from tests.conformance.generated_pods import PLUGIN
from tests.e2e import control_plane
from tests.e2e.api_servers import ApiServerBed, api_server_bed

Json = dict[str, Any]
_ROOM: Final = {"pods": "1000", "cpu": "100", "memory": "100Gi", "ephemeral-storage": "100Gi"}
_PER_SLICE: Final = 128


@contextmanager
def scheduling_bed(
    emulated_version: str = "", gates: Mapping[str, bool] | None = None
) -> Iterator[ApiServerBed]:
    """The bed."""
    with api_server_bed() as made:
        serve(made, emulated_version, gates)
        yield made


def serve(bed: ApiServerBed, emulated_version: str = "", gates: Mapping[str, bool] | None = None) -> None:
    """Starts all of it, or anew over the same state, as another version or with other gates. Blocking."""
    versioned = [f"--emulated-version={emulated_version}"] if emulated_version else []
    if gates:
        versioned.append("--feature-gates=" + ",".join(f"{k}={str(v).lower()}" for k, v in gates.items()))
    for name in ("kube-scheduler", "kube-controller-manager"):
        bed.end(name)
    bed.serve(None, gates, emulated_version=emulated_version)
    control_plane.start_scheduler(bed, versioned)
    control_plane.start_controller_manager(bed, versioned)


class Scheduled:
    """A client of such a control plane."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def node(self, name: str, **amounts: str) -> None:
        """A node with room for pods, and these resources of device plugins (`__` stands for a slash)."""
        with suppress(AlreadyExists):
            await self.client.create(NODES, {"metadata": {"name": name}}, into=dict)
        room = {**_ROOM, **{key.replace("__", "/"): value for key, value in amounts.items()}}
        status = {"status": {"capacity": room, "allocatable": room}}
        await self.client.patch(NODES, name, "", status, PatchKind.MERGE, into=dict, subresource="status")

    async def devices(self, node: str, driver: str, count: int) -> None:
        """That many devices of a driver on a node."""
        slices = -(-count // _PER_SLICE)
        for number in range(slices):
            first, end = number * _PER_SLICE, min((number + 1) * _PER_SLICE, count)
            spec = {
                "driver": driver,
                "nodeName": node,
                "pool": {"name": f"{node}-{driver}", "generation": 1, "resourceSliceCount": slices},
                "devices": [{"name": f"device-{index}"} for index in range(first, end)],
            }
            body = {"metadata": {"name": f"{node}-{driver}-{number}"}, "spec": spec}
            await self.client.create(SLICES, body, into=dict)

    async def device_class(self, name: str, driver: str, resource: str | None = None) -> None:
        """A class of all devices of a driver."""
        spec: Json = {"selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}]}
        body = {"metadata": {"name": name}, "spec": {**spec, "extendedResourceName": resource}}
        await self.client.create(CLASSES, body, into=dict)

    async def ready(self) -> None:
        """Pods can be created."""
        with suppress(AlreadyExists):
            await self.client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default"}}, "default", into=dict)

    async def bound(self, *names: str, seconds: float = 240) -> list[Pod]:
        """Waits until these pods have nodes."""
        async with asyncio.timeout(seconds):
            while True:
                pods = {pod.metadata.name: pod for pod in (await self.client.list(PODS, into=Pod)).items}
                if all(name in pods and pods[name].spec.node_name for name in names):
                    return [pods[name] for name in names]
                await asyncio.sleep(0.2)

    async def pod(self, name: str, resource: str, count: int = 1) -> None:
        """Creates a pod with a limit."""
        container = {"name": "main", "image": "busybox", "resources": {"limits": {resource: str(count)}}}
        body = {"metadata": {"name": name}, "spec": {"containers": [container]}}
        await self.client.create(PODS, body, "default", into=dict)

    async def special_claim(self, pod: Pod) -> ResourceClaim | None:
        """The claim that the pod's status names, if it names one."""
        status = pod.status.extended_resource_claim_status
        if status is None:
            return None
        return await self.client.get(CLAIMS, status.resource_claim_name, "default", into=ResourceClaim)

    async def special_claims(self) -> list[ResourceClaim]:
        items = (await self.client.list(CLAIMS, into=ResourceClaim)).items
        return [claim for claim in items if EXTENDED_CLAIM_ANNOTATION in claim.metadata.annotations]

    async def refusal(self, name: str, words: str, seconds: float = 60) -> str:
        """Waits until the pod's condition has these words."""
        async with asyncio.timeout(seconds):
            while True:
                pod = await self.client.get(PODS, name, "default", into=Pod)
                told = " ".join(condition.message for condition in pod.status.conditions)
                if words in told:
                    return told
                await asyncio.sleep(0.2)

    async def delete(self, *names: str) -> None:
        """Deletes pods, and waits until their special claims are gone too."""
        for name in names:
            with suppress(NotFound):
                await self.client.delete(PODS, name, "default", grace_seconds=0)
        async with asyncio.timeout(120):
            while any(
                c.metadata.controller and c.metadata.controller.name in names
                for c in await self.special_claims()
            ):
                await asyncio.sleep(0.2)


@asynccontextmanager
async def scheduled(bed: ApiServerBed) -> AsyncIterator[Scheduled]:
    """The client of a bed."""
    async with await Client.connect(bed.kubeconfig()) as client:
        made = Scheduled(client)
        await made.ready()
        yield made


async def answers(plane: Scheduled, pods: Iterable[Json]) -> list[Json]:
    """What kube-scheduler makes of pods that were generated."""
    listed = list(pods)
    await plane.node("generated", **{PLUGIN.replace("/", "__"): "1000"})
    for name, resource in GENERATED_CLASSES.items():
        await plane.device_class(name, name, resource)
        await plane.devices("generated", name, 8 * len(listed))
    for pod in listed:
        await plane.client.create(PODS, pod, "default", into=dict)
    bound = await plane.bound(*(pod["metadata"]["name"] for pod in listed))
    return [await _answer(plane, pod) for pod in bound]


async def _answer(plane: Scheduled, pod: Pod) -> Json:
    meta = pod.metadata
    raw = await plane.client.get(PODS, meta.name, "default", into=dict[str, Any])
    status = raw["status"]["extendedResourceClaimStatus"]
    claim = await plane.client.get(CLAIMS, status["resourceClaimName"], "default", into=dict[str, Any])
    (owner,) = claim["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"], owner["controller"]) == (
        "Pod",
        meta.name,
        meta.uid,
        True,
    )
    return {
        "generateName": claim["metadata"]["generateName"],
        "annotations": claim["metadata"]["annotations"],
        "requests": claim["spec"]["devices"]["requests"],
        "mappings": status["requestMappings"],
    }
