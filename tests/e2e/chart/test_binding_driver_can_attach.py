"""A binding driver with the rights that the chart gives it, on a real API server."""

import asyncio
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Final, cast

import pytest

import dradriver as dra
from dradriver.kube import Client
from dradriver.kube.http.transport import Transport
from dradriver.runner.binding import BindingProcess
from tests.conformance.apiserver.suite import MERGE, Api, Json
from tests.e2e.bed.api_server_clients import published
from tests.e2e.bed.bed import Bed
from tests.e2e.chart.helm import Helm, on_bed, set_values
from tests.e2e.chart.pod_tokens import DRA_API
from tests.e2e.chart.rights import RecordingTransport, role_rights

NODE: Final = "binding-node"
DRIVER: Final = "binding.example.com"
NAMESPACE: Final = "binding"
ACCOUNT: Final = "dradriver-binding"
CLAIMS: Final = f"{DRA_API}/namespaces/default/resourceclaims"
ATTACHED: Final = f"{DRIVER}/attached"
FAILED: Final = f"{DRIVER}/attach-failed"


class Switch(dra.BindingDriver):
    """Two devices: attaching the second one fails, and detaching the first one works at the third attempt."""

    name = DRIVER
    rescan_seconds = None

    def __init__(self) -> None:
        self.attached: set[str] = set()
        self.sticks = 2

    def discover(self) -> Sequence[dra.Pool]:
        devices = tuple(
            dra.Device(
                name, binds_to_node=True, binding_conditions=[ATTACHED], binding_failure_conditions=[FAILED]
            )
            for name in ("good", "bad")
        )
        return [dra.Pool("switch", devices, all_nodes=True)]

    async def attach(self, claim: dra.BindingClaim, device: dra.AllocatedDevice) -> None:
        if device.name == "bad":
            raise dra.AttachError("no link", reason="NoLink")
        self.attached.add(device.name)

    async def detach(self, attachment: dra.Attachment) -> None:
        if attachment.device == "good" and self.sticks:
            self.sticks -= 1
            raise RuntimeError("it does not come off")
        self.attached.discard(attachment.device)


@pytest.fixture(scope="module")
def chart(real_control_plane: Bed) -> Iterator[Helm]:
    helm = on_bed(real_control_plane, NAMESPACE)
    driver = {"enabled": True, "kind": "pool", "driverName": DRIVER, "bindingDriver": True}
    helm.install(
        "dradriver", *set_values({"image.repository": "registry.example.com/d", "drivers.binding": driver})
    )
    yield helm
    helm.uninstall("dradriver")


async def create_claim(api: Api, device: str = "", driver: str = DRIVER) -> str:
    """Create a claim that is allocated a device, as a scheduler would; return its path."""
    name = f"claim-{uuid.uuid4().hex[:8]}"
    request = {"name": "r", "exactly": {"deviceClassName": DRIVER}}
    await api.make(CLAIMS, {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}})
    if device:
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [NODE]}]}
        result = {
            "request": "r",
            "driver": driver,
            "pool": "switch",
            "device": device,
            "bindingConditions": [ATTACHED],
            "bindingFailureConditions": [FAILED],
        }
        allocation = {
            "devices": {"results": [result]},
            "nodeSelector": {"nodeSelectorTerms": [term]},
            "allocationTimestamp": "2026-01-01T00:00:00Z",
        }
        body = {"status": {"allocation": allocation}}
        answer = await api.call("PATCH", f"{CLAIMS}/{name}/status", body, content_type=MERGE)
        assert answer.status == 200, answer.raw
    return f"{CLAIMS}/{name}"


async def wait_for_claim(api: Api, path: str, done: Callable[[Json], bool]) -> Json:
    """Wait until the claim satisfies a condition; return it."""
    async with asyncio.timeout(60):
        while True:
            claim = (await api.call("GET", path)).json
            if done(claim):
                return claim
            await asyncio.sleep(0.02)


def conditions(claim: Json) -> dict[str, str]:
    devices = claim.get("status", {}).get("devices", [])
    return {c["type"]: c["status"] for device in devices for c in device["conditions"]}


async def test_a_binding_driver_works_and_uses_every_right_of_its_role(
    real: Api, recorded: RecordingTransport
) -> None:
    driver, stop = Switch(), asyncio.Event()
    process = BindingProcess(driver, Client(cast(Transport, recorded)))
    running = asyncio.create_task(process.run(stop, 1))
    try:
        await published(real, DRIVER, 2)
        good, bad = await create_claim(real, "good"), await create_claim(real, "bad")
        claim = await wait_for_claim(real, good, lambda claim: conditions(claim).get(ATTACHED) == "True")
        assert claim["metadata"]["finalizers"] == [f"{DRIVER}/detach"]
        await wait_for_claim(real, bad, lambda claim: conditions(claim).get(FAILED) == "True")
        body: Json = {"status": {"allocation": None}}
        for path in (good, bad):
            assert (await real.call("PATCH", f"{path}/status", body, content_type=MERGE)).status == 200
            await wait_for_claim(real, path, lambda claim: not claim["metadata"].get("finalizers"))
        assert not driver.attached
        await delete_allocated_claim(real)
        assert not driver.attached
        process._want([])
        await published(real, DRIVER, 0)
    finally:
        stop.set()
        await running
    unseen = {
        # checked by the API server
        ("resource.k8s.io", "resourceclaims/driver", "arbitrary-node:patch"),
        ("resource.k8s.io", "resourceslices", "get"),  # after a conflict with another writer
    }
    assert recorded.used | unseen == await role_rights(real, ACCOUNT)


async def delete_allocated_claim(api: Api) -> None:
    """Delete a claim that is still allocated, as kube-scheduler may do (KEP-5004), after its pod."""
    path = await create_claim(api, "good")
    consumer = {"resource": "pods", "name": "gone", "uid": str(uuid.uuid4())}
    body: Json = {"status": {"reservedFor": [consumer]}}
    assert (await api.call("PATCH", f"{path}/status", body, content_type=MERGE)).status == 200
    await wait_for_claim(api, path, lambda claim: conditions(claim).get(ATTACHED) == "True")
    await api.call("DELETE", path)
    await wait_for_claim(api, path, lambda claim: claim.get("code") == 404)


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {"team": "red"}},
        {"annotations": {"example.com/note": "changed"}},
        {"annotations": {"example.com/kept": None}},
        {"finalizers": ["example.com/other"]},
    ],
    ids=["label", "new annotation", "annotation gone", "finalizer"],
)
async def test_other_metadata_of_claims_cannot_be_changed(real: Api, token: str, metadata: Json) -> None:
    path = await create_claim(real)
    kept: Json = {"metadata": {"annotations": {"example.com/kept": "yes"}}}
    assert (await real.call("PATCH", path, kept, content_type=MERGE)).status == 200
    body: Json = {"metadata": metadata}
    async with asyncio.timeout(60):
        # A policy takes effect a moment after it is written.
        options = {"content_type": MERGE, "token": token, "params": {"dryRun": "All"}}
        while (answer := await real.call("PATCH", path, body, **options)).status == 200:
            await asyncio.sleep(0.05)
    assert answer.status in {403, 422}, answer.raw
    words = f"the binding driver {DRIVER} can change only its own annotation and finalizer"
    assert words in answer.json["message"]
    own: Json = {
        "metadata": {"annotations": {f"{DRIVER}/attachments": "[]"}, "finalizers": [f"{DRIVER}/detach"]}
    }
    assert (await real.call("PATCH", path, own, **options)).status == 200


async def test_status_of_devices_of_other_drivers_cannot_be_written(real: Api, token: str) -> None:
    path = await create_claim(real, "good", driver="gpu.example.com")
    device = {"driver": "gpu.example.com", "pool": "switch", "device": "good", "conditions": []}
    body: Json = {"status": {"devices": [device]}}
    answer = await real.call("PATCH", f"{path}/status", body, content_type=MERGE, token=token)
    assert answer.status in {403, 422}, answer.raw
    assert "arbitrary-node:patch" in answer.json["message"]
