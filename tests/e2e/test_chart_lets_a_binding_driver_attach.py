"""A binding driver with the rights that the chart gives it, on a real API server."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, cast

import pytest

import dradriver as dra
from dradriver.kube import Client
from dradriver.kube.http.transport import Transport
from dradriver.runner.binding import BindingProcess
from tests.conformance.apiserver_suite import MERGE, Api, Json
from tests.e2e.bed import Bed
from tests.e2e.helm import Helm, on_bed, set_values
from tests.e2e.pod_tokens import DRA_API, pod_token
from tests.e2e.rights import Recorded, recording, role
from tests.e2e.servers import published

NODE: Final = "binding-node"
DRIVER: Final = "binding.example.com"
NAMESPACE: Final = "binding"
ACCOUNT: Final = "dradriver-binding"
CLAIMS: Final = f"{DRA_API}/namespaces/default/resourceclaims"
ATTACHED: Final = f"{DRIVER}/attached"
FAILED: Final = f"{DRIVER}/attach-failed"


class Switch(dra.BindingDriver):
    """Two devices; the second one is broken, the first one comes off at the third try."""

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


@pytest.fixture
async def token(chart: Helm, real: Api) -> str:
    return await pod_token(real, NAMESPACE, ACCOUNT, NODE)


@pytest.fixture
async def recorded(chart: Helm, token: str, tmp_path: Path) -> AsyncIterator[Recorded]:
    """Requests as the pod of the driver makes them."""
    async with recording(chart, token, tmp_path) as made:
        yield made


async def a_claim(api: Api, device: str = "", driver: str = DRIVER) -> str:
    """A claim that is allocated a device, as a scheduler would; its path."""
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


async def until(api: Api, path: str, done: Callable[[Json], bool]) -> Json:
    """The claim once it is as wanted."""
    async with asyncio.timeout(20):
        while True:
            claim = (await api.call("GET", path)).json
            if done(claim):
                return claim
            await asyncio.sleep(0.02)


def conditions(claim: Json) -> dict[str, str]:
    devices = claim.get("status", {}).get("devices", [])
    return {c["type"]: c["status"] for device in devices for c in device["conditions"]}


async def test_all_that_a_binding_driver_does_works_and_uses_the_whole_role(
    real: Api, recorded: Recorded
) -> None:
    driver, stop = Switch(), asyncio.Event()
    process = BindingProcess(driver, Client(cast(Transport, recorded)))
    running = asyncio.create_task(process.run(stop, 1))
    try:
        await published(real, DRIVER, 2)
        good, bad = await a_claim(real, "good"), await a_claim(real, "bad")
        claim = await until(real, good, lambda claim: conditions(claim).get(ATTACHED) == "True")
        assert claim["metadata"]["finalizers"] == [f"{DRIVER}/detach"]
        await until(real, bad, lambda claim: conditions(claim).get(FAILED) == "True")
        body: Json = {"status": {"allocation": None}}
        for path in (good, bad):
            assert (await real.call("PATCH", f"{path}/status", body, content_type=MERGE)).status == 200
            await until(real, path, lambda claim: not claim["metadata"].get("finalizers"))
        assert not driver.attached
        await given_up(real)
        assert not driver.attached
        process._want([])
        await published(real, DRIVER, 0)
    finally:
        stop.set()
        await running
    unseen = {
        ("resource.k8s.io", "resourceclaims/driver", "arbitrary-node:patch"),  # asked for by the API server
        ("resource.k8s.io", "resourceslices", "get"),  # after a conflict with another writer
    }
    assert recorded.used | unseen == await role(real, ACCOUNT)


async def given_up(api: Api) -> None:
    """A claim that kube-scheduler would delete without deallocating it (KEP-5004); its pod is gone."""
    path = await a_claim(api, "good")
    consumer = {"resource": "pods", "name": "gone", "uid": str(uuid.uuid4())}
    body: Json = {"status": {"reservedFor": [consumer]}}
    assert (await api.call("PATCH", f"{path}/status", body, content_type=MERGE)).status == 200
    await until(api, path, lambda claim: conditions(claim).get(ATTACHED) == "True")
    await api.call("DELETE", path)
    await until(api, path, lambda claim: claim.get("code") == 404)


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
async def test_what_is_not_its_own_in_the_metadata_of_claims_stays(
    real: Api, token: str, metadata: Json
) -> None:
    path = await a_claim(real)
    kept: Json = {"metadata": {"annotations": {"example.com/kept": "yes"}}}
    assert (await real.call("PATCH", path, kept, content_type=MERGE)).status == 200
    body: Json = {"metadata": metadata}
    async with asyncio.timeout(20):
        # A policy is in force a moment after it was written.
        options = {"content_type": MERGE, "token": token, "params": {"dryRun": "All"}}
        while (answer := await real.call("PATCH", path, body, **options)).status == 200:
            await asyncio.sleep(0.05)
    assert answer.status in {403, 422}, answer.raw
    words = f"the binding driver {DRIVER} may change only its own annotation and finalizer of claims"
    assert words in answer.json["message"]
    own: Json = {
        "metadata": {"annotations": {f"{DRIVER}/attachments": "[]"}, "finalizers": [f"{DRIVER}/detach"]}
    }
    assert (await real.call("PATCH", path, own, **options)).status == 200


async def test_devices_of_other_drivers_are_not_its_to_speak_of(real: Api, token: str) -> None:
    path = await a_claim(real, "good", driver="gpu.example.com")
    told = {"driver": "gpu.example.com", "pool": "switch", "device": "good", "conditions": []}
    body: Json = {"status": {"devices": [told]}}
    answer = await real.call("PATCH", f"{path}/status", body, content_type=MERGE, token=token)
    assert answer.status in {403, 422}, answer.raw
    assert "arbitrary-node:patch" in answer.json["message"]
