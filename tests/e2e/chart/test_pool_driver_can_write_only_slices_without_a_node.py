"""A pool driver with the rights that the chart gives it, on a real API server."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

import dradriver as dra
from dradriver.kube import Client
from dradriver.publish import OwnerRef
from dradriver.runner.pools import PoolProcess
from tests.conformance.apiserver.suite import Answer, Api, Json, resource_slice
from tests.e2e.bed.api_server_clients import published
from tests.e2e.bed.bed import Bed
from tests.e2e.chart.helm import Helm, on_bed, set_values
from tests.e2e.chart.pod_tokens import DRA_API
from tests.e2e.chart.rights import write_pod_kubeconfig

NODE: Final = "pools-node"
DRIVER: Final = "fabric.example.com"
NAMESPACE: Final = "pools"
ACCOUNT: Final = "dradriver-fabric"
SLICES: Final = f"{DRA_API}/resourceslices"


class Fabric(dra.PoolDriver):
    """Cards that every node reaches; because of the taint the publisher first sends a dry run."""

    name = DRIVER
    rescan_seconds = None

    def __init__(self) -> None:
        self.cards = 2

    def discover(self) -> list[dra.Pool]:
        taint = dra.Taint(key="example.com/new", effect="NoSchedule")
        cards = tuple(dra.Device(f"card-{index}", taints=[taint]) for index in range(self.cards))
        return [dra.Pool("fabric", cards, all_nodes=True)] if cards else []


@pytest.fixture(scope="module")
def chart(real_control_plane: Bed) -> Iterator[Helm]:
    helm = on_bed(real_control_plane, NAMESPACE)
    driver = {
        "enabled": True,
        "kind": "pool",
        "driverName": DRIVER,
        "owner": f"deviceclass/{DRIVER}",
        "deviceClasses": [{"name": DRIVER}],
    }
    helm.install(
        "dradriver", *set_values({"image.repository": "registry.example.com/d", "drivers.fabric": driver})
    )
    yield helm
    helm.uninstall("dradriver")


@asynccontextmanager
async def running(chart: Helm, token: str, driver: Fabric, folder: Path) -> AsyncIterator[PoolProcess]:
    kubeconfig = write_pod_kubeconfig(chart, token, folder)
    stop = asyncio.Event()
    async with await Client.connect(str(kubeconfig)) as client:
        process = PoolProcess(driver, client, OwnerRef.parse(f"deviceclass/{DRIVER}"))
        task = asyncio.create_task(process.run(stop, 1))
        try:
            yield process
        finally:
            stop.set()
            await task


async def test_it_publishes_changes_and_withdraws(real: Api, chart: Helm, token: str, tmp_path: Path) -> None:
    driver = Fabric()
    async with running(chart, token, driver, tmp_path) as process:
        (item,) = await published(real, DRIVER, 2)
        assert item["metadata"]["ownerReferences"][0]["kind"] == "DeviceClass"
        driver.cards = 3
        driver.rediscover()
        await published(real, DRIVER, 3)
        assert not process.readiness
        driver.cards = 0
        driver.rediscover()
        await published(real, DRIVER, 0)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"nodeName": NODE}, "spec.nodeName: must not be set by a pool driver"),
        ({"allNodes": True, "driver": "gpu.example.com"}, f"spec.driver: must be {DRIVER}"),
    ],
    ids=["of a node", "of another driver"],
)
async def test_slices_of_a_node_or_of_another_driver_are_rejected(
    real: Api, token: str, spec: Json, words: str
) -> None:
    async with asyncio.timeout(60):
        # Roles and a policy take effect a moment after they are written.
        while words not in (answer := await create(real, token, spec)).json.get("message", ""):
            await asyncio.sleep(0.05)
    assert answer.status in {403, 422}


async def create(api: Api, token: str, spec: Json) -> Answer:
    body = resource_slice("unused", **({"driver": DRIVER} | spec))
    if "allNodes" in spec:
        del body["spec"]["nodeName"]
    return await api.call("POST", SLICES, body, token=token, params={"dryRun": "All"})
