"""kube-scheduler and controllers with nodes that have no kubelet: pods are bound and never start."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Final

from dradriver.kube import (
    CLAIMS,
    CLASSES,
    EVENTS,
    NODES,
    PODS,
    SERVICE_ACCOUNTS,
    SLICES,
    AlreadyExists,
    Client,
    NotFound,
    PatchKind,
    Resource,
)
from dradriver.model.core.workload import Pod
from dradriver.model.encoding.codec import rfc3339
from dradriver.model.resource.claim import EXTENDED_CLAIM_ANNOTATION, ResourceClaim
from dradriver.testing import builders
from tests.conformance.scheduler.generated_pods import CLASSES as GENERATED_CLASSES
from tests.conformance.scheduler.generated_pods import PLUGIN
from tests.e2e.bed import control_plane
from tests.e2e.bed.api_server_bed import NODE, ApiServerBed, api_server_bed

Json = dict[str, Any]
_ROOM: Final = {"pods": "1000", "cpu": "100", "memory": "100Gi", "ephemeral-storage": "100Gi"}
_PER_SLICE: Final = 128


@contextmanager
def scheduling_bed(
    emulated_version: str = "", gates: Mapping[str, bool] | None = None
) -> Iterator[ApiServerBed]:
    """Start a bed with kube-scheduler and kube-controller-manager."""
    with api_server_bed() as made:
        start_control_plane(made, emulated_version, gates)
        yield made


def start_control_plane(
    bed: ApiServerBed, emulated_version: str = "", gates: Mapping[str, bool] | None = None
) -> None:
    """Start or restart the control plane with the same state, as a version and with gates. Blocking."""
    versioned = [f"--emulated-version={emulated_version}"] if emulated_version else []
    if gates:
        versioned.append("--feature-gates=" + ",".join(f"{k}={str(v).lower()}" for k, v in gates.items()))
    for name in ("kube-scheduler", "kube-controller-manager"):
        bed.end(name)
    bed.serve(None, gates, emulated_version=emulated_version)
    control_plane.start_scheduler(bed, versioned)
    control_plane.start_controller_manager(bed, versioned)


async def create_objects(client: Client, *objects: tuple[Resource, object, str]) -> None:
    """Create a node with room for pods, the account that pods need, and more objects; keep existing ones.

    Args:
        client: the administrator.
        objects: kind, body and namespace of each further object.
    """
    for resource, body, namespace in (
        (NODES, builders.node(NODE), ""),
        (SERVICE_ACCOUNTS, {"metadata": {"name": "default"}}, "default"),
        *objects,
    ):
        with suppress(AlreadyExists):
            await client.create(resource, body, namespace, into=dict)
    room = {"pods": "110", "cpu": "8", "memory": "8Gi"}
    status = {"status": {"capacity": room, "allocatable": room}}
    await client.patch(NODES, NODE, "", status, PatchKind.MERGE, into=dict, subresource="status")


class ScheduledCluster:
    """Create objects on such a control plane, and wait for their state."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def node(self, name: str, **amounts: str) -> None:
        """Create or change a node with resources of device plugins (`__` stands for a slash)."""
        with suppress(AlreadyExists):
            await self.client.create(NODES, {"metadata": {"name": name}}, into=dict)
        room = {**_ROOM, **{key.replace("__", "/"): value for key, value in amounts.items()}}
        status = {"status": {"capacity": room, "allocatable": room}}
        await self.client.patch(NODES, name, "", status, PatchKind.MERGE, into=dict, subresource="status")

    async def label_change(self, name: str, change: str) -> dict[str, str]:
        """Label a node after a change; return the label as a node selector.

        Only a scheduler that has received the change can bind a pod with this selector: watches keep the order
        of an object's versions, and the watch of nodes is not ordered with the watch of pods.
        """
        labels = {"change": change}
        await self.client.patch(NODES, name, "", {"metadata": {"labels": labels}}, PatchKind.MERGE, into=dict)
        return labels

    async def devices(self, node: str, driver: str, count: int) -> None:
        """Create the slices of a number of devices of a driver on a node."""
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
        """Create a class of all devices of a driver."""
        spec: Json = {"selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}]}
        body = {"metadata": {"name": name}, "spec": {**spec, "extendedResourceName": resource}}
        await self.client.create(CLASSES, body, into=dict)

    async def ready(self) -> None:
        """Create the service account that pods need."""
        with suppress(AlreadyExists):
            await self.client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default"}}, "default", into=dict)

    async def bound(self, *names: str, seconds: float = 240) -> list[Pod]:
        """Wait until these pods have nodes; return the pods."""
        async with asyncio.timeout(seconds):
            while True:
                pods = {pod.metadata.name: pod for pod in (await self.client.list(PODS, into=Pod)).items}
                if all(name in pods and pods[name].spec.node_name for name in names):
                    return [pods[name] for name in names]
                await asyncio.sleep(0.2)

    async def pod(
        self, name: str, resource: str, count: int = 1, node_selector: Mapping[str, str] | None = None
    ) -> None:
        """Create a pod with a limit."""
        container = {"name": "main", "image": "busybox", "resources": {"limits": {resource: str(count)}}}
        spec = {"containers": [container], "nodeSelector": dict(node_selector or {})}
        body = {"metadata": {"name": name}, "spec": spec}
        await self.client.create(PODS, body, "default", into=dict)

    async def claim(self, name: str) -> ResourceClaim:
        """Return a claim."""
        return await self.client.get(CLAIMS, name, "default", into=ResourceClaim)

    async def set_condition(self, claim: ResourceClaim, kind: str) -> None:
        """Set a condition of the claim's only device."""
        (result,) = claim.results
        now = rfc3339(datetime.now(UTC))
        condition = {"type": kind, "status": "True", "reason": "Test", "message": "", "lastTransitionTime": now}
        entry = {
            "driver": result.driver,
            "pool": result.pool,
            "device": result.device,
            "conditions": [condition],
        }
        body = {"status": {"devices": [entry]}}
        name = claim.metadata.name
        await self.client.patch(CLAIMS, name, "default", body, PatchKind.MERGE, into=dict, subresource="status")

    async def special_claim(self, pod: Pod) -> ResourceClaim | None:
        """Return the claim that the pod's status names, None if it names none."""
        status = pod.status.extended_resource_claim_status
        if status is None:
            return None
        return await self.client.get(CLAIMS, status.resource_claim_name, "default", into=ResourceClaim)

    async def special_claims(self) -> list[ResourceClaim]:
        items = (await self.client.list(CLAIMS, into=ResourceClaim)).items
        return [claim for claim in items if EXTENDED_CLAIM_ANNOTATION in claim.metadata.annotations]

    async def refusal(self, name: str, words: str, seconds: float = 60) -> str:
        """Wait until the pod's condition contains these words; return its message."""
        async with asyncio.timeout(seconds):
            while True:
                pod = await self.client.get(PODS, name, "default", into=Pod)
                message = " ".join(condition.message for condition in pod.status.conditions)
                if words in message:
                    return message
                await asyncio.sleep(0.2)

    async def until_events(self, reason: str, *names: str) -> list[Json]:
        """Wait until each of these objects has such an event; return the objects of all such events."""
        async with asyncio.timeout(60):
            while True:
                events = (await self.client.list(EVENTS, "default", into=dict)).items
                found = [event["involvedObject"] for event in events if event["reason"] == reason]
                if set(names) <= {each["name"] for each in found}:
                    return found
                await asyncio.sleep(0.1)

    async def delete(self, *names: str) -> None:
        """Delete pods and wait until their special claims are gone too."""
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
async def connect(bed: ApiServerBed) -> AsyncIterator[ScheduledCluster]:
    """Connect to the control plane of a bed."""
    async with await Client.connect(bed.kubeconfig()) as client:
        made = ScheduledCluster(client)
        await made.ready()
        yield made


async def record_special_claims(plane: ScheduledCluster, pods: Iterable[Json]) -> list[Json]:
    """Return what kube-scheduler creates for generated pods."""
    listed = list(pods)
    await plane.node("generated", **{PLUGIN.replace("/", "__"): "1000"})
    for name, resource in GENERATED_CLASSES.items():
        await plane.device_class(name, name, resource)
        await plane.devices("generated", name, 8 * len(listed))
    for pod in listed:
        await plane.client.create(PODS, pod, "default", into=dict)
    bound = await plane.bound(*(pod["metadata"]["name"] for pod in listed))
    return [await _answer(plane, pod) for pod in bound]


async def _answer(plane: ScheduledCluster, pod: Pod) -> Json:
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
