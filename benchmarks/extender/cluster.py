"""A real control plane with nodes that have no kubelet, and its schedulers."""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Final

from benchmarks.waiting import each
from dradriver.allocator import AllocationNode
from dradriver.kube import CLASSES, NODES, SERVICE_ACCOUNTS, SLICES, Client, PatchKind
from dradriver.kube.errors import AlreadyExists
from dradriver.model.resource.deviceclass import DeviceClass
from tests.e2e.bed import control_plane
from tests.e2e.bed.bed import Bed
from tests.e2e.bed.kube_scheduler import start_extender, start_kube_scheduler, write_config

__all__ = ["NAMESPACE", "build", "control_plane_only", "extender", "plugin", "pod"]

NAMESPACE: Final = "default"
_ROOM: Final = {"pods": "1000", "cpu": "1000", "memory": "1000Gi"}


async def build(
    client: Client, nodes: Iterable[AllocationNode], classes: Iterable[DeviceClass], slices: Iterable[object]
) -> None:
    """Create nodes, classes and slices, and the service account that pods need."""
    status = {"status": {"capacity": _ROOM, "allocatable": _ROOM}}

    async def create_node(node: AllocationNode) -> None:
        body = {"metadata": {"name": node.name, "labels": node.labels}}
        await client.create(NODES, body, into=bytes)
        await client.patch(NODES, node.name, "", status, PatchKind.MERGE, into=bytes, subresource="status")

    with suppress(AlreadyExists):  # kube-controller-manager and the embedded API server create it, too
        await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default"}}, NAMESPACE, into=bytes)
    await each(classes, lambda body: client.create(CLASSES, body, into=bytes))
    await each(nodes, create_node)
    await each(slices, lambda body: client.create(SLICES, body, into=bytes))


def pod(name: str, profile: str, claim: str | None = None) -> Mapping[str, object]:
    """Return a pod with one claim, or without claims."""
    uses = [] if claim is None else [{"name": "devices"}]
    container = {"name": "main", "image": "busybox", "resources": {"claims": uses}}
    claims = [] if claim is None else [{"name": "devices", "resourceClaimName": claim}]
    return {
        "metadata": {"name": name},
        "spec": {"schedulerName": profile, "containers": [container], "resourceClaims": claims},
    }


@contextmanager
def plugin(bed: Bed, _order: str) -> Iterator[str]:
    """Run kube-scheduler with its own plugin; return the name of its profile."""
    control_plane.start_scheduler(bed, ())
    try:
        yield "default-scheduler"
    finally:
        bed.end("kube-scheduler")


@contextmanager
def extender(bed: Bed, order: str, *options: str) -> Iterator[str]:
    """Run kube-scheduler with the extender; return the name of its profile."""
    url = start_extender(bed, f"--order={order}", "--no-leader-elect", *options)
    start_kube_scheduler(bed, write_config(bed, url, f"--order={order}"), "extended-scheduler")
    try:
        yield "dradriver"
    finally:
        bed.end("extended-scheduler")
        bed.end("dradriver-scheduler")


@asynccontextmanager
async def control_plane_only(gates: Mapping[str, bool]) -> AsyncIterator[tuple[Bed, Client]]:
    """Start kube-apiserver and etcd with all gates of dynamic resource allocation, and connect."""
    with Bed() as bed:
        control_plane.start(bed, {**control_plane.ALL_GATES, **gates})
        async with await Client.connect(str(bed.credentials.write_kubeconfig(bed.url, "admin"))) as client:
            yield bed, client
