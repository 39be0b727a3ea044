"""Special claims (KEP-5004) that kube-scheduler deletes without deallocation, also while their pod runs."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dradriver.conditions.attachment_diff import read_record
from dradriver.driver import AttachError, Attachment
from dradriver.kube import CLAIMS, CLASSES, PODS, Client, PatchKind
from dradriver.model.resource.claim import CLAIM_FINALIZER, ResourceClaim
from dradriver.testing import builders
from tests.unit.conditions.fabric import FabricDriver, Hardware, Lab, laboratory

RESOURCE = "example.com/gpu"


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    async with laboratory(tmp_path) as made:
        body = {"spec": {"extendedResourceName": RESOURCE}}
        await made.client.patch(CLASSES, builders.CLASS, "", body, PatchKind.MERGE, into=dict)
        yield made


async def make_pod(lab: Lab) -> None:
    container = {"name": "main", "image": "busybox", "resources": {"limits": {RESOURCE: "1"}}}
    body = {"metadata": {"name": "pod-1"}, "spec": {"containers": [container]}}
    await lab.client.create(PODS, body, "default", into=dict)


async def make_pod_and_wait(lab: Lab) -> None:
    """Return when the pod is bound."""
    await make_pod(lab)
    await lab.until(lambda pods, _: any(pod.spec.node_name for pod in pods.values()))


async def abandon(lab: Lab, claim: ResourceClaim) -> None:
    """Do the same as kube-scheduler's Unreserve: remove the finalizer and delete, without deallocation."""
    meta = claim.metadata
    kept = [each for each in meta.finalizers if each != CLAIM_FINALIZER]
    body = {"metadata": {"finalizers": kept}}
    await lab.client.patch(CLAIMS, meta.name, meta.namespace, body, PatchKind.MERGE, into=dict)
    await lab.client.delete(CLAIMS, meta.name, meta.namespace)


async def test_a_running_pod_keeps_its_devices_until_it_ends(
    lab: Lab, hardware: Hardware, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kube-scheduler abandons the claim if the answer to Bind is lost."""
    pods_read = asyncio.Event()
    get = Client.get

    async def seen(self: Client, resource: Any, *args: Any, **kwargs: Any) -> Any:
        item = await get(self, resource, *args, **kwargs)
        if resource is PODS:
            pods_read.set()
        return item

    async with lab.driver(FabricDriver(hardware)):
        async with lab.scheduler():
            await make_pod_and_wait(lab)
            (claim,) = (await lab.client.list(CLAIMS, into=ResourceClaim)).items
        monkeypatch.setattr(Client, "get", seen)
        await abandon(lab, claim)
        await pods_read.wait()
        assert hardware.attached == {"gpu-0": (claim.metadata.uid, "node-1")}
        monkeypatch.undo()
        async with lab.scheduler():
            await lab.delete_pod()
            await lab.until(lambda _, claims: not claims)
    assert not hardware.attached


async def test_the_claim_of_a_pod_without_a_node_is_detached(lab: Lab, hardware: Hardware) -> None:
    hardware.open.clear()
    async with lab.driver(FabricDriver(hardware)):
        async with lab.scheduler():
            await make_pod(lab)
            await lab.until(lambda _, claims: any(read_record(c, builders.DRIVER) for c in claims.values()))
        (claim,) = lab.seen.claims.items.values()
        await abandon(lab, claim)
        await lab.until(lambda _, claims: not claims)
    assert hardware.log == [("detach", "gpu-0")]


async def test_a_claim_that_waits_for_detach_does_not_delay_its_pod(lab: Lab, hardware: Hardware) -> None:
    class DetachFails(FabricDriver):
        async def detach(self, attachment: Attachment) -> None:
            if attachment.device == "gpu-0":
                raise AttachError("stuck")
            await super().detach(attachment)

    hardware.bad.add("gpu-0")
    async with lab.driver(DetachFails(hardware)), lab.scheduler():
        await make_pod_and_wait(lab)
    held = {r.device for c in lab.seen.claims.items.values() for r in c.results}
    assert held == {"gpu-1"} == set(hardware.attached)
