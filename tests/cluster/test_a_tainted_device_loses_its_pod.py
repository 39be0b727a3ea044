"""KEP-5055 in a whole cluster: a driver taints a device, its pod ends, the next one gets another device."""

import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

import dradriver as dra
from dradriver.cluster import EmbeddedCluster
from dradriver.kube import CLASSES, PODS, TEMPLATES, Client
from dradriver.testing import builders
from tests.cluster.helpers import plugin_on, running, until
from tests.unit.control.world import template


class Cards(dra.Driver):
    """A driver of two cards that can fail."""

    name = builders.DRIVER
    rescan_seconds = None

    def __init__(self) -> None:
        self.broken: set[str] = set()
        self.prepared: dict[str, str] = {}

    def discover(self) -> Sequence[dra.Device]:
        taint = dra.Taint(key="driver.example.com/broken", effect="NoExecute")
        return [
            dra.Device(name, taints=[taint] if name in self.broken else []) for name in ("card-0", "card-1")
        ]

    def prepare(self, claim: dra.Claim) -> Mapping[dra.AllocatedDevice, dra.PreparedDevice]:
        self.prepared[claim.uid] = claim.devices[0].name
        return {device: dra.PreparedDevice() for device in claim.devices}

    def unprepare(self, claim: dra.Claim) -> None:
        self.prepared.pop(claim.uid, None)


@pytest.fixture
def driver() -> Cards:
    return Cards()


@pytest.fixture
async def client(driver: Cards) -> AsyncIterator[Client]:
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="dra"))
        cluster = await stack.enter_async_context(EmbeddedCluster(Path(folder) / "c", runtime="process"))
        await stack.enter_async_context(plugin_on(cluster, "node-1", driver))
        await cluster.client().create(CLASSES, builders.device_class(), into=dict)
        await cluster.client().create(TEMPLATES, template(), "default", into=dict)
        yield cluster.client()


async def test_its_pod_ends_and_the_next_one_gets_another_device(client: Client, driver: Cards) -> None:
    await client.create(PODS, builders.pod(name="first", templates=["template"]), "default", into=dict)
    await until(client, running("first"))
    assert list(driver.prepared.values()) == ["card-0"]
    driver.broken.add("card-0")
    driver.rediscover()
    await until(client, lambda pods: "default/first" not in pods)
    assert not driver.prepared
    await client.create(PODS, builders.pod(name="second", templates=["template"]), "default", into=dict)
    await until(client, running("second"))
    assert list(driver.prepared.values()) == ["card-1"]
