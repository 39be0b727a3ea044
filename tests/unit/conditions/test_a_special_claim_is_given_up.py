"""What kube-scheduler does to a special claim (KEP-5004), also while its pod runs, and what becomes of it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dradriver.conditions.attachment_diff import recorded
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
    """Returns when the pod is bound."""
    await make_pod(lab)
    await lab.until(lambda pods, _: any(pod.spec.node_name for pod in pods.values()))


async def give_up(lab: Lab, claim: ResourceClaim) -> None:
    """What kube-scheduler's Unreserve does: the finalizer off, then a delete; no deallocation."""
    meta = claim.metadata
    kept = [each for each in meta.finalizers if each != CLAIM_FINALIZER]
    body = {"metadata": {"finalizers": kept}}
    await lab.client.patch(CLAIMS, meta.name, meta.namespace, body, PatchKind.MERGE, into=dict)
    await lab.client.delete(CLAIMS, meta.name, meta.namespace)


async def test_a_pod_that_runs_keeps_its_devices_until_it_ends(
    lab: Lab, hardware: Hardware, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kube-scheduler gives the claim up after a Bind whose answer was lost."""
    looked = asyncio.Event()
    get = Client.get

    async def seen(self: Client, resource: Any, *args: Any, **kwargs: Any) -> Any:
        found = await get(self, resource, *args, **kwargs)
        if resource is PODS:
            looked.set()
        return found

    async with lab.driver(FabricDriver(hardware)):
        async with lab.scheduler():
            await make_pod_and_wait(lab)
            (claim,) = (await lab.client.list(CLAIMS, into=ResourceClaim)).items
        monkeypatch.setattr(Client, "get", seen)
        await give_up(lab, claim)
        await looked.wait()
        assert hardware.attached == {"gpu-0": (claim.metadata.uid, "node-1")}
        monkeypatch.undo()
        async with lab.scheduler():
            await lab.delete_pod()
            await lab.until(lambda _, claims: not claims)
    assert not hardware.attached


async def test_a_pod_without_a_node_holds_nothing(lab: Lab, hardware: Hardware) -> None:
    hardware.open.clear()
    async with lab.driver(FabricDriver(hardware)):
        async with lab.scheduler():
            await make_pod(lab)
            await lab.until(lambda _, claims: any(recorded(c, builders.DRIVER) for c in claims.values()))
        (claim,) = lab.seen.claims.items.values()
        await give_up(lab, claim)
        await lab.until(lambda _, claims: not claims)
    assert hardware.log == [("detach", "gpu-0")]


async def test_a_claim_that_only_waits_to_be_detached_keeps_no_pod_from_another(
    lab: Lab, hardware: Hardware
) -> None:
    class Sticky(FabricDriver):
        async def detach(self, attachment: Attachment) -> None:
            if attachment.device == "gpu-0":
                raise AttachError("it does not come off")
            await super().detach(attachment)

    hardware.bad.add("gpu-0")
    async with lab.driver(Sticky(hardware)), lab.scheduler():
        await make_pod_and_wait(lab)
    held = {r.device for c in lab.seen.claims.items.values() for r in c.results}
    assert held == {"gpu-1"} == set(hardware.attached)
