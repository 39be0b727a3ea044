"""AFUs of shells that exclude each other: kube-scheduler never places both on one card, in either order."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dradriver.kube import CLAIMS, CLASSES, PODS, Client, PatchKind
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim
from tests.drivers.fpga.nodes import CLASS, INTERFACES, Node, kind, pod
from tests.e2e.bed import control_plane
from tests.e2e.bed.api_server_bed import NODE, ApiServerBed, api_server_bed
from tests.e2e.scheduling.scheduled_cluster import create_objects


@dataclass(frozen=True)
class RealCluster:
    kubeconfig: str
    client: Client


@pytest.fixture(scope="module")
def bed() -> Iterator[ApiServerBed]:
    with api_server_bed() as made:
        gates = {"DRADeviceCompatibilityGroups": True}
        made.serve(None, gates)
        versioned = [f"--feature-gates={','.join(f'{name}={str(on).lower()}' for name, on in gates.items())}"]
        control_plane.start_scheduler(made, versioned)
        yield made


@pytest.fixture
async def cluster(bed: ApiServerBed) -> AsyncIterator[RealCluster]:
    kubeconfig = str(bed.credentials.write_kubeconfig(bed.url, "admin"))
    async with await Client.connect(kubeconfig) as client:
        await create_objects(client, (CLASSES, CLASS, ""))
        yield RealCluster(kubeconfig, client)


async def until(client: Client, name: str, holds: Callable[[Pod], bool]) -> Pod:
    async with asyncio.timeout(120):
        while not holds(found := await client.get(PODS, name, "default", into=Pod)):
            await asyncio.sleep(0.1)
        return found


async def end_pod(client: Client, name: str) -> None:
    """Do the work of kubelet and claim controller at the end of a pod."""
    await client.delete(PODS, name, "default", grace_seconds=0)
    body = {"status": {"allocation": None, "reservedFor": None, "devices": None}}
    await client.patch(CLAIMS, name, "default", body, PatchKind.MERGE, into=dict, subresource="status")


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["A first", "B first"])
async def test_two_pods_never_share_a_card(
    cluster: RealCluster, tmp_path: Path, order: tuple[int, int]
) -> None:
    (tmp_path / "n").mkdir()
    node = Node(tmp_path / "n", name=NODE)
    node.with_shells()
    names = [f"shell-{order[0]}-first", f"shell-{order[1]}-second"]
    async with node.running(cluster):
        for name, shell in zip(names, order, strict=True):
            image = node.images.fitting("pac", shell=shell)
            selectors = kind("region", interfaceID=INTERFACES[shell])
            await pod(cluster, name, node.reference(image), selectors)
            if name == names[0]:
                await until(cluster.client, name, lambda pod: bool(pod.spec.node_name))
        await until(
            cluster.client,
            names[1],
            lambda pod: any(each.reason == "Unschedulable" for each in pod.status.conditions),
        )
        assert {region.interface_id for region in node.controls.cards()[0].regions} == {INTERFACES[order[0]]}
        await end_pod(cluster.client, names[0])
        await until(cluster.client, names[1], lambda pod: bool(pod.spec.node_name))
        assert {region.interface_id for region in node.controls.cards()[0].regions} == {INTERFACES[order[1]]}
        claim = await cluster.client.get(CLAIMS, names[1], "default", into=ResourceClaim)
        assert claim.results[0].binding_conditions == ["fpga.example.com/programmed"]
        await end_pod(cluster.client, names[1])
