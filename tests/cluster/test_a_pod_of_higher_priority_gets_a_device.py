"""Preemption in a whole cluster: a pod ends, its driver unprepares the device, and the other pod gets it."""

import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from msgspec.structs import replace

import dradriver as dra
from dradriver.cluster import EmbeddedCluster
from dradriver.kube import CLASSES, PODS, TEMPLATES, Client
from dradriver.model.core.workload import Pod
from dradriver.testing import builders
from tests.cluster.helpers import plugin_on, running, until
from tests.unit.control.world import template


class Card(dra.Driver):
    """A driver of one card, which records the pods that have the card."""

    name = builders.DRIVER
    rescan_seconds = None

    def __init__(self) -> None:
        self.calls: list[str] = []

    def discover(self) -> Sequence[dra.Device]:
        return [dra.Device("card")]

    def prepare(self, claim: dra.Claim) -> Mapping[dra.AllocatedDevice, dra.PreparedDevice]:
        self.calls.append("prepare")
        return {device: dra.PreparedDevice() for device in claim.devices}

    def unprepare(self, claim: dra.Claim) -> None:
        self.calls.append("unprepare")


@pytest.fixture
def driver() -> Card:
    return Card()


@pytest.fixture
async def client(driver: Card) -> AsyncIterator[Client]:
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="dra"))
        cluster = await stack.enter_async_context(EmbeddedCluster(Path(folder) / "c", runtime="process"))
        await stack.enter_async_context(plugin_on(cluster, "node-1", driver))
        await cluster.client().create(CLASSES, builders.device_class(), into=dict)
        await cluster.client().create(TEMPLATES, template(), "default", into=dict)
        yield cluster.client()


async def create(client: Client, name: str, priority: int) -> None:
    pod = builders.pod(name=name, templates=["template"])
    spec = replace(pod.spec, priority=priority, termination_grace_period_seconds=0)
    await client.create(PODS, replace(pod, spec=spec), "default", into=dict)


async def test_it_gets_the_device_of_a_pod_of_lower_priority(client: Client, driver: Card) -> None:
    await create(client, "low", 1)
    await until(client, running("low"))
    await create(client, "high", 2)
    await until(client, running("high"))
    pods = {pod.metadata.name: pod for pod in (await client.list(PODS, "default", into=Pod)).items}
    assert set(pods) == {"high"}
    assert driver.calls == ["prepare", "unprepare", "prepare"]
