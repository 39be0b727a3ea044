"""KEP-5007: kube-scheduler waits while a driver of this SDK attaches devices and sets the conditions."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Final

import pytest

import dradriver as dra
from dradriver.kube import CLAIMS, CLASSES, PODS, Client, PatchKind
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.runner.binding import BindingProcess
from dradriver.testing import builders
from tests.e2e.bed import control_plane
from tests.e2e.bed.api_server_bed import NODE, ApiServerBed, api_server_bed
from tests.e2e.scheduling.scheduled_cluster import create_objects

NAME: Final = builders.DRIVER


class Fabric(dra.BindingDriver):
    name = NAME
    rescan_seconds = None

    def __init__(self, bad: str = "") -> None:
        self.bad = bad
        self.attached: dict[str, str] = {}

    def discover(self) -> Sequence[dra.Pool]:
        gpus = tuple(
            dra.Device(
                name,
                binds_to_node=True,
                binding_conditions=[f"{NAME}/attached"],
                binding_failure_conditions=[f"{NAME}/attach-failed"],
            )
            for name in ("gpu-0", "gpu-1")
        )
        return [dra.Pool("fabric", devices=gpus, all_nodes=True)]

    async def attach(self, claim: dra.BindingClaim, device: dra.AllocatedDevice) -> None:
        if device.name == self.bad:
            raise dra.AttachError("no link", reason="NoLink")
        self.attached[device.name] = claim.node

    async def detach(self, attachment: dra.Attachment) -> None:
        self.attached.pop(attachment.device, None)


@pytest.fixture(scope="module")
def bed() -> Iterator[ApiServerBed]:
    with api_server_bed() as made:
        made.serve(None, {})
        control_plane.start_scheduler(made, [])
        yield made


@pytest.fixture
async def client(bed: ApiServerBed) -> AsyncIterator[Client]:
    async with await Client.connect(str(bed.credentials.write_kubeconfig(bed.url, "admin"))) as client:
        await create_objects(client, (CLASSES, builders.device_class(), ""))
        yield client


async def bound(client: Client, driver: Fabric, name: str) -> ResourceClaim:
    """Create a pod; return its claim after kube-scheduler has bound the pod."""
    process = asyncio.create_task(BindingProcess(driver, client).run(stop := asyncio.Event()))
    try:
        await client.create(CLAIMS, builders.claim(name=name), "default", into=dict)
        await client.create(PODS, builders.pod(name, name=name), "default", into=dict)
        async with asyncio.timeout(120):
            while not (await client.get(PODS, name, "default", into=Pod)).spec.node_name:
                await asyncio.sleep(0.1)
        return await client.get(CLAIMS, name, "default", into=ResourceClaim)
    finally:
        stop.set()
        await process


async def test_a_pod_is_bound_once_the_driver_has_attached_its_device(client: Client) -> None:
    driver = Fabric()
    claim = await bound(client, driver, "good")
    (result,) = claim.results
    assert result.binding_conditions == [f"{NAME}/attached"]
    assert driver.attached == {result.device: NODE}
    assert claim.allocation is not None
    assert claim.allocation.node_selector == dra.NodeSelector.for_node(NODE)
    await client.delete(PODS, "good", "default", grace_seconds=0)
    body = {"status": {"allocation": None, "reservedFor": None}}  # as the claim controller does
    await client.patch(CLAIMS, "good", "default", body, PatchKind.MERGE, into=dict, subresource="status")


async def test_the_second_attempt_takes_the_good_device(client: Client) -> None:
    driver = Fabric(bad="gpu-0")
    claim = await bound(client, driver, "second")
    assert [result.device for result in claim.results] == ["gpu-1"]
    assert driver.attached == {"gpu-1": NODE}
