"""The driver of the pools in its process, on an API server with and without the fields that it uses."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

import dradriver as dra
from dradriver.kube import CLAIMS, CLASSES, CONFIG_MAPS, NODES, PODS, PatchKind
from dradriver.model.core.conditions import is_true
from dradriver.model.resource.claim import ResourceClaim
from dradriver.node.usage.note import UsageNote, encode_note, note_label, note_name
from dradriver.testing import builders
from dradriver_fabric_cxl import FabricPoolsDriver
from dradriver_fabric_cxl.fabric.simulator import SimulatedFabric
from dradriver_fabric_cxl.names import ATTACHED, DRIVER, SYSTEM_UUID
from tests.drivers.fabric_cxl.fabric_suite import PACE
from tests.unit.conditions.fabric import Lab, laboratory

SYSTEMS: Final = {f"node-{n + 1}": f"00000000-0000-4000-8000-00000000000{n}" for n in range(2)}
"""Nodes that have the first two hosts of the simulated fabric."""
CLASS: Final = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": DRIVER},
    "spec": {"selectors": [{"cel": {"expression": f"device.attributes['{DRIVER}'].type == 'memory'"}}]},
}


async def note_hosts(lab: Lab) -> None:
    """The plugins of two nodes have reported their hosts."""
    label, value = note_label(DRIVER)
    for node, system in SYSTEMS.items():
        body = {"status": {"nodeInfo": {"bootID": "boot-1"}}}
        await lab.client.patch(NODES, node, "", body, PatchKind.MERGE, into=dict, subresource="status")
        note = UsageNote(node, "boot-1", report=dra.NodeReport(values={SYSTEM_UUID: system}))
        meta = {"name": note_name(DRIVER, node), "labels": {label: value}}
        config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": encode_note(note)}
        await lab.client.create(CONFIG_MAPS, config_map, "default", into=dict)


@pytest.mark.parametrize(
    ("gates", "settings", "published"),
    [
        (
            {},
            "sizes: [32Gi]",
            {"gpu-0", "pool-a-host-0-32gi-1", "pool-b-host-1-32gi-0"},
        ),
        ({"DRAPartitionableDevices": False}, "sizes: [32Gi]", {"gpu-0", "pool-a-32gi-0", "pool-b-32gi-0"}),
        (
            {"DRADeviceBindingConditions": False},
            "sizes: [32Gi]",
            {"pool-a-host-0-32gi-1", "pool-b-host-1-32gi-0"},
        ),
        ({"DRAConsumableCapacity": False}, "wholeDomains: true", {"gpu-0", "pool-a", "pool-b"}),
    ],
)
async def test_every_server_accepts_a_pool_without_what_it_drops(
    tmp_path: Path, gates: Mapping[str, bool], settings: str, published: set[str]
) -> None:
    async with laboratory(tmp_path, **gates) as lab:
        await note_hosts(lab)
        driver = FabricPoolsDriver(settings, SimulatedFabric(pace=PACE))
        async with lab.driver(driver):
            await lab.until(lambda *_: published <= set(lab.devices()))
        await driver.shutdown()


async def test_a_pod_waits_until_its_memory_is_attached_and_leaves_nothing(tmp_path: Path) -> None:
    fabric = SimulatedFabric(pace=PACE)
    driver = FabricPoolsDriver("sizes: [1Gi]", fabric)
    async with laboratory(tmp_path) as lab, lab.scheduler():
        await note_hosts(lab)
        await lab.client.create(CLASSES, CLASS, into=dict)
        async with lab.driver(driver):
            request = builders.device_request(DRIVER)
            await lab.client.create(CLAIMS, builders.claim(request, name="pod-1"), "default", into=dict)
            await lab.client.create(PODS, builders.pod("pod-1", name="pod-1"), "default", into=dict)
            await lab.waits()
            await lab.until(lambda *_: has_data(lab.claim()))
            (attached,) = await fabric.attachments()
            assert attached.identity.claim == lab.claim().metadata.uid
            assert attached.connected
            await lab.delete_pod()
            await lab.client.delete(CLAIMS, "pod-1", "default")
            await lab.until(lambda _, claims: "default/pod-1" not in claims)
            assert await fabric.attachments() == ()
    await driver.shutdown()


def has_data(claim: ResourceClaim) -> bool:
    return any(is_true(each.conditions, ATTACHED) and each.data_object for each in claim.status.devices)
