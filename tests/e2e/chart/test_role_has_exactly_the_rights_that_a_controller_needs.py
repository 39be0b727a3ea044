"""A controller works on a real API server with the role and the policies of the chart, and uses every right."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, cast

import pytest

from dradriver.cluster.apiserver import ApiServer
from dradriver.kube import (
    CLAIMS,
    CLASSES,
    CONTROLLER_ALLOCATIONS,
    NODES,
    PODS,
    SCHEDULING_CONTEXTS,
    Client,
    PatchKind,
)
from dradriver.kube.http.transport import Transport
from dradriver.model.classic.allocation_records import ControllerAllocation, RecordedAllocation
from dradriver.model.classic.names import LEASE_ANNOTATION
from dradriver.model.core.meta import ObjectMeta
from dradriver.model.resource.claim import ResourceClaim
from dradriver.runner.controllers import ControllerProcess
from tests.conformance.apiserver.suite import Api
from tests.e2e.bed.bed import Bed
from tests.e2e.chart.helm import Helm, on_bed, set_values
from tests.e2e.chart.pod_tokens import ensure_node, plain_token
from tests.e2e.chart.rights import RecordingTransport, recording, role_rights
from tests.unit.classic.shelf import CONTROLLER, NODES_OF_TEST, PLUGIN, Shelf, ShelfDriver, ShelfLab, class_of

NAMESPACE: Final = "shelf"
ACCOUNT: Final = "dradriver-shelf"


@pytest.fixture(scope="module")
def chart(real_control_plane: Bed) -> Iterator[Helm]:
    helm = on_bed(real_control_plane, NAMESPACE)
    driver = {"enabled": True, "kind": "controller", "driverName": CONTROLLER, "kubeletPlugins": [PLUGIN]}
    values = {"image.repository": "registry.example.com/d", "classic.enabled": True, "drivers.shelf": driver}
    helm.install("dradriver", *set_values(values))
    yield helm
    helm.uninstall("dradriver")
    helm.delete_definitions()


@pytest.fixture
async def lab(real: Api, chart: Helm) -> AsyncIterator[ShelfLab]:
    assert chart.kubeconfig is not None
    for name in NODES_OF_TEST:
        await ensure_node(real, name)
    account = {"metadata": {"name": "default"}}
    await real.call("POST", "/api/v1/namespaces/default/serviceaccounts", account)
    async with await Client.connect(str(chart.kubeconfig)) as admin:
        await admin.create(CLASSES, class_of(), into=dict)
        # No fault of the API server is injected, so the laboratory has no embedded one.
        async with ShelfLab(str(chart.kubeconfig), admin, cast(ApiServer, None)) as lab:
            yield lab
        await admin.delete(CLASSES, class_of()["metadata"]["name"])
        for name in NODES_OF_TEST:
            await admin.delete(NODES, name)


@asynccontextmanager
async def running(driver: ShelfDriver, recorded: RecordingTransport) -> AsyncIterator[ControllerProcess]:
    """Run the process of the controller with the token of its account."""
    process = ControllerProcess(driver, Client(cast(Transport, recorded)), f"{NAMESPACE}/{CONTROLLER}")
    stop = asyncio.Event()
    task = asyncio.create_task(process.run(stop))
    yield process
    stop.set()
    await task


async def record_of_an_ended_process(lab: ShelfLab, name: str) -> None:
    """Create a claim with a record that names a Lease which does not exist."""
    claim = await lab.create_claim(name)
    spec = RecordedAllocation(claim_name=name, claim_uid=claim.metadata.uid, controller_name=CONTROLLER)
    annotations = {LEASE_ANNOTATION: f"elsewhere/{CONTROLLER}"}
    metadata = ObjectMeta(name=claim.metadata.uid, namespace="default", annotations=annotations)
    record = ControllerAllocation(metadata=metadata, spec=spec)
    await lab.client.create(CONTROLLER_ALLOCATIONS, record, "default", into=dict)


async def report_a_device(lab: ShelfLab, claim: ResourceClaim) -> None:
    """Write the status of the device of a claim, as its kubelet plugin does."""
    (first,) = claim.results
    entry = {"driver": first.driver, "pool": first.pool, "device": first.device, "data": {"ready": True}}
    body = {"status": {"devices": [entry]}}
    name = claim.metadata.name
    await lab.client.patch(CLAIMS, name, "default", body, PatchKind.MERGE, into=dict, subresource="status")


async def do_all_work_of_a_controller(lab: ShelfLab, shelf: Shelf) -> None:
    """Negotiate, fail, allocate, deallocate, allocate immediately, and take over a record."""
    shelf.free["node-1"] = 0
    await lab.create_claim()
    pod = await lab.create_pod("claim-1")
    await lab.negotiate(pod)
    assert await lab.answer() == [["node-1"]]
    await lab.negotiate(pod, "node-2")
    claim = await lab.allocated()
    assert [consumer.uid for consumer in claim.status.reserved_for] == [pod.metadata.uid]
    await report_a_device(lab, claim)
    await lab.client.delete(SCHEDULING_CONTEXTS, pod.metadata.name, "default")
    await lab.client.delete(PODS, pod.metadata.name, "default")
    await lab.release()
    # Clearing the allocation removes the status of the device, but needs no `resourceclaims/driver`.
    assert (await lab.idle()).status.devices == []
    await lab.create_claim("immediate", immediate=True)
    await lab.allocated("immediate")
    await lab.client.delete(CLAIMS, "immediate", "default")
    await lab.gone("immediate")
    await record_of_an_ended_process(lab, "left")
    await lab.until(lambda: not lab.records.items)


async def test_a_controller_works_and_uses_every_right_of_its_role(
    real: Api, lab: ShelfLab, chart: Helm, tmp_path: Path
) -> None:
    token = await plain_token(real, NAMESPACE, ACCOUNT)
    shelf = Shelf()
    async with recording(chart, token, tmp_path) as recorded, running(ShelfDriver(shelf), recorded):
        await do_all_work_of_a_controller(lab, shelf)
        shelf.broken["allocate"] = RuntimeError("the shelf is locked")
        await lab.create_claim("refused", immediate=True)
        assert "the shelf is locked" in await lab.event("AllocationFailed")
        # The next attempt finds its record, and counts the event once more.
        while ("", "events", "patch") not in recorded.used:
            await asyncio.sleep(0.05)
        for name in ("refused", "left", "claim-1"):
            await lab.client.delete(CLAIMS, name, "default")
            await lab.gone(name)
    # The API server itself checks these rights, and the policies of the chart.
    synthetic = {
        ("resource.k8s.io", "resourceclaims/binding", "patch"),
        ("classic.dradriver.dev", "controllers", "negotiate"),
    }
    assert recorded.used | synthetic == await role_rights(real, ACCOUNT)
