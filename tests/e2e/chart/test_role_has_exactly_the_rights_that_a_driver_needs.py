"""The role of the chart has exactly the rights that a driver's process needs on a real API server."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, cast

import grpc
import pytest

import dradriver as dra
from dradriver.kube import Client, EventRecorder
from dradriver.kube.http.transport import Transport
from dradriver.model.core.meta import ObjectReference
from dradriver.node import Plugin, PluginConfig
from dradriver.wire import dra_v1, registration_v1
from dradriver.wire.stubs import dra_v1_grpc, registration_v1_grpc
from tests.conformance.apiserver.suite import MERGE, Api, Json
from tests.e2e.bed.api_server_clients import published
from tests.e2e.bed.bed import Bed
from tests.e2e.chart.helm import Helm, on_bed, set_values
from tests.e2e.chart.pod_tokens import DRA_API, ensure_node, plain_token
from tests.e2e.chart.rights import RecordingTransport, reported_rights, role_rights

NODE: Final = "rights-node"
DRIVER: Final = "rights.example.com"
NAMESPACE: Final = "rights"
ACCOUNT: Final = "dradriver-rights"
CLAIMS: Final = f"{DRA_API}/namespaces/default/resourceclaims"
SLICES: Final = f"{DRA_API}/resourceslices"


class RightsDriver(dra.Driver):
    """Some devices; reports data of each prepared device, and a prepared claim that does not exist."""

    name = DRIVER

    def __init__(self) -> None:
        self.devices = 2

    def discover(self) -> list[dra.Device]:
        return [dra.Device(f"device-{index}") for index in range(self.devices)]

    def prepare(self, claim: dra.Claim) -> Mapping[dra.AllocatedDevice, dra.PreparedDevice]:
        return {device: dra.PreparedDevice(data={"from": "the driver"}) for device in claim.devices}

    def prepared_claims(self) -> Collection[str]:
        return [str(uuid.uuid4())]


@pytest.fixture(scope="module")
def chart(real_control_plane: Bed) -> Iterator[Helm]:
    helm = on_bed(real_control_plane, NAMESPACE)
    driver = {"enabled": True, "driverName": DRIVER}
    values = {"image.repository": "registry.example.com/d", "drivers.rights": driver}
    helm.install("dradriver", *set_values(values))
    yield helm
    helm.uninstall("dradriver")


@asynccontextmanager
async def registered(plugin: Plugin) -> AsyncIterator[dra_v1_grpc.DRAPluginStub]:
    """Register the plugin as a kubelet does; return a stub of its service."""
    await plugin.start()
    try:
        async with grpc.aio.insecure_channel(f"unix:{plugin.sockets.registrar}") as channel:
            stub = registration_v1_grpc.RegistrationStub(channel)
            await stub.GetInfo(registration_v1.InfoRequest(), timeout=30)
            status = registration_v1.RegistrationStatus(plugin_registered=True)
            await stub.NotifyRegistrationStatus(status, timeout=30)
        async with grpc.aio.insecure_channel(f"unix:{plugin.sockets.service}") as channel:
            yield dra_v1_grpc.DRAPluginStub(channel)
    finally:
        await plugin.stop(1)


async def prepare_claim(api: Api, stub: dra_v1_grpc.DRAPluginStub) -> None:
    """Prepare a claim on this node, and check that its status has the driver's data."""
    name = f"claim-{uuid.uuid4().hex[:8]}"
    request = {"name": "r", "exactly": {"deviceClassName": DRIVER}}
    made = await api.make(CLAIMS, {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}})
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [NODE]}]}
    result = {"request": "r", "driver": DRIVER, "pool": NODE, "device": "device-0"}
    allocation = {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [term]}}
    body = {"status": {"allocation": allocation}}
    assert (await api.call("PATCH", f"{CLAIMS}/{name}/status", body, content_type=MERGE)).status == 200
    claim = dra_v1.Claim(namespace="default", name=name, uid=made["metadata"]["uid"])
    answer = await stub.NodePrepareResources(dra_v1.NodePrepareResourcesRequest(claims=[claim]), timeout=60)
    assert answer.claims[claim.uid].error == ""
    async with asyncio.timeout(60):
        status: Json = {}
        while not status.get("devices"):
            status = (await api.call("GET", f"{CLAIMS}/{name}")).json["status"]
    assert status["devices"][0]["data"] == {"from": "the driver"}
    unprepare = dra_v1.NodeUnprepareResourcesRequest(claims=[claim])
    assert (await stub.NodeUnprepareResources(unprepare, timeout=60)).claims[claim.uid].error == ""
    await api.call("DELETE", f"{CLAIMS}/{name}")


async def do_all_work_of_a_driver(api: Api, recorded: RecordingTransport, folder: Path) -> None:
    """Publish, change and withdraw devices, prepare a claim, resolve a conflict, emit Events."""
    client = Client(cast(Transport, recorded))
    driver = RightsDriver()

    async def annotate(path: str) -> None:
        body = {"metadata": {"annotations": {"example.com/by": "another writer"}}}
        assert (await api.call("PATCH", path, body, content_type=MERGE)).status == 200

    config = PluginConfig(NODE, folder / "plugins", folder / "registry", folder / "cdi", collect_seconds=0.1)
    async with registered(Plugin(driver, client, config)) as stub:
        (item,) = await published(api, DRIVER, 2)
        await prepare_claim(api, stub)
        # Another writer removes a device: the driver restores it, after a conflict with a third writer.
        recorded.meddle = annotate
        item["spec"]["devices"] = item["spec"]["devices"][:1]
        assert (await api.call("PUT", f"{SLICES}/{item['metadata']['name']}", item)).status == 200
        await published(api, DRIVER, 2)
        driver.devices = 200
        driver.rediscover()
        assert len(await published(api, DRIVER, 200)) == 2
        driver.devices = 2
        driver.rediscover()
        await published(api, DRIVER, 2)
    node = ObjectReference(kind="Node", name=NODE, uid=await ensure_node(api, NODE), api_version="v1")
    recorder = EventRecorder(client, DRIVER, NODE)
    for regarding in (node, node, ObjectReference(kind="Pod", name="pod", namespace=NAMESPACE, uid="u")):
        await recorder.emit(regarding, "Warning", "Tested", "an event")
    for namespace in ("default", NAMESPACE):
        events = (await api.call("GET", f"/api/v1/namespaces/{namespace}/events")).json["items"]
        assert [each["message"] for each in events if each["source"].get("component") == DRIVER]


async def test_a_driver_works_and_uses_every_right_of_its_role(
    real: Api, recorded: RecordingTransport, tmp_path: Path
) -> None:
    await do_all_work_of_a_driver(real, recorded, tmp_path)
    synthetic = {("resource.k8s.io", "resourceclaims/driver", "associated-node:patch")}
    assert recorded.used | synthetic == await role_rights(real, ACCOUNT)


async def test_the_account_has_no_other_rights(real: Api, token: str) -> None:
    accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    await real.call("POST", accounts, {"metadata": {"name": "no-rights"}})
    no_rights = await plain_token(real, NAMESPACE, "no-rights")
    for namespace in ("default", NAMESPACE, "kube-system"):
        everyone = await reported_rights(real, no_rights, namespace)
        assert await reported_rights(real, token, namespace) - everyone == await role_rights(real, ACCOUNT)


async def test_status_of_claims_on_other_nodes_is_refused(real: Api, token: str) -> None:
    name = f"claim-{uuid.uuid4().hex[:8]}"
    request = {"name": "r", "exactly": {"deviceClassName": DRIVER}}
    await real.make(CLAIMS, {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}})
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["elsewhere"]}]}
    result = {"request": "r", "driver": DRIVER, "pool": "elsewhere", "device": "device-0"}
    allocation = {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [term]}}
    path = f"{CLAIMS}/{name}/status"
    await real.call("PATCH", path, {"status": {"allocation": allocation}}, content_type=MERGE)
    device = {"driver": DRIVER, "pool": "elsewhere", "device": "device-0", "data": {}}
    answer = await real.call("PATCH", path, {"status": {"devices": [device]}}, content_type=MERGE, token=token)
    assert answer.status == 422
    assert "cannot arbitrary-node:patch resource" in answer.json["message"]
    await real.call("DELETE", f"{CLAIMS}/{name}")
