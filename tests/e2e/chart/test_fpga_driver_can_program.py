"""The FPGA driver with the rights that the chart gives it, on a real API server."""

import asyncio
import base64
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, cast

import pytest

from dradriver.kube import Client
from dradriver.kube.http.transport import Transport
from dradriver.node import PluginConfig
from dradriver.runner.binding_node import BindingPlugin
from dradriver_fpga.card import ManagerState
from dradriver_fpga.offer import DRIVER, FAILED, PROGRAMMED
from tests.conformance.apiserver.suite import MERGE, Api, Json
from tests.drivers.fpga.nodes import REGION_1, Node, opaque_config
from tests.e2e.bed.api_server_clients import published
from tests.e2e.bed.bed import Bed
from tests.e2e.chart.helm import Helm, on_bed, set_values
from tests.e2e.chart.pod_tokens import DRA_API
from tests.e2e.chart.rights import RecordingTransport, role_rights
from tests.unit.node.plugin_world import notify, prepare

NODE: Final = "fpga-node"
NAMESPACE: Final = "fpga"
ACCOUNT: Final = "dradriver-fpga"
CLAIMS: Final = f"{DRA_API}/namespaces/default/resourceclaims"


@pytest.fixture(scope="module")
def chart(real_control_plane: Bed) -> Iterator[Helm]:
    helm = on_bed(real_control_plane, NAMESPACE)
    fpga = {"enabled": True, "readConfigMaps": ["default"]}
    values = {"image.repository": "registry.example.com/d", "drivers.fpga": fpga}
    helm.install("dradriver", *set_values(values))
    yield helm
    helm.uninstall("dradriver")


async def create_claim(api: Api, region: int, bitstream: Json, node: str = NODE) -> Json:
    """Create a claim that is allocated a region, as a scheduler would."""
    name = f"claim-{uuid.uuid4().hex[:8]}"
    config = opaque_config(bitstream)
    request = {"name": "r", "exactly": {"deviceClassName": "fpga-region.example.com"}}
    spec = {"devices": {"requests": [request], "config": config}}
    await api.make(CLAIMS, {"metadata": {"name": name}, "spec": spec})
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    result = {
        "request": "r",
        "driver": DRIVER,
        "pool": node,
        "device": f"pci-0000-3b-00-0-region-{region}",
        "bindingConditions": [PROGRAMMED],
        "bindingFailureConditions": [FAILED],
    }
    allocation = {
        "devices": {"results": [result], "config": [{"source": "FromClaim", **each} for each in config]},
        "nodeSelector": {"nodeSelectorTerms": [term]},
        "allocationTimestamp": "2026-01-01T00:00:00Z",
    }
    body = {"status": {"allocation": allocation}}
    answer = await api.call("PATCH", f"{CLAIMS}/{name}/status", body, content_type=MERGE)
    assert answer.status == 200, answer.raw
    return answer.json


async def wait_for_conditions(api: Api, claim: Json, done: Callable[[dict[str, str]], bool]) -> None:
    """Wait until the claim has the wanted conditions."""
    async with asyncio.timeout(60):
        while True:
            now = (await api.call("GET", f"{CLAIMS}/{claim['metadata']['name']}")).json
            devices = now.get("status", {}).get("devices", [])
            if done({c["type"]: c["status"] for each in devices for c in each.get("conditions", [])}):
                return
            await asyncio.sleep(0.02)


async def test_the_driver_works_with_its_role(real: Api, recorded: RecordingTransport, tmp_path: Path) -> None:
    (tmp_path / "n").mkdir()
    node = Node(tmp_path / "n", name=NODE)
    image = node.images.fitting("pac")
    data = {"m.gbs": base64.b64encode(image.path.read_bytes()).decode()}
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "fpga-m"}, "binaryData": data}
    await real.make("/api/v1/namespaces/default/configmaps", config_map)
    node.controls.fail_next(REGION_1, ManagerState.WRITE_ERROR)
    folder = tmp_path / "n"
    config = PluginConfig(
        NODE,
        plugins_dir=folder / "plugins",
        registry_dir=folder / "registry",
        cdi_dir=folder / "cdi",
        boot_id="boot-1",
    )
    plugin = BindingPlugin(node.driver(), Client(cast(Transport, recorded)), config)
    await plugin.start()
    try:
        await notify(plugin)
        await published(real, DRIVER, 5)
        where = {"configMap": {"name": "fpga-m", "key": "m.gbs"}, "sha256": image.sha256}
        good, bad = await create_claim(real, 0, where), await create_claim(real, 1, where)
        await wait_for_conditions(real, good, lambda conditions: conditions.get(PROGRAMMED) == "True")
        await wait_for_conditions(real, bad, lambda conditions: conditions.get(FAILED) == "True")
        elsewhere = await create_claim(real, 0, where, node="another-node")
        answer = (await prepare(plugin, _ref(good)))[good["metadata"]["uid"]]
        assert not answer.error
        assert (
            not (await real.call("GET", f"{CLAIMS}/{elsewhere['metadata']['name']}"))
            .json["status"]
            .get("devices")
        )
    finally:
        await plugin.stop(1)
    assert not recorded.used - await role_rights(real, ACCOUNT, "default")
    assert {
        ("resource.k8s.io", "resourceclaims", "watch"),
        ("resource.k8s.io", "resourceclaims/status", "patch"),
        ("", "configmaps", "get"),
    } <= recorded.used


def _ref(claim: Json) -> Any:
    from dradriver.model.core.meta import ObjectMeta
    from dradriver.model.resource.claim import ResourceClaim

    head = claim["metadata"]
    return ResourceClaim(metadata=ObjectMeta(name=head["name"], namespace=head["namespace"], uid=head["uid"]))
