"""KEP-4815's pods on two A100s as the driver publishes them: kube-scheduler and our allocator agree.

Our allocator is asked first, with what was allocated so far; then kube-scheduler places the pod.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
import pytest
import yaml

from dradriver.allocator import AllocationNode, InUse, Inventory, Refusal, allocate
from dradriver.kube import (
    CLAIMS,
    CLASSES,
    NODES,
    PODS,
    SERVICE_ACCOUNTS,
    SLICES,
    AlreadyExists,
    Client,
    PatchKind,
)
from dradriver.model.core.workload import Pod
from dradriver.model.encoding.codec import decode
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.deviceclass import DeviceClass
from dradriver.model.resource.slices import ResourceSlice
from dradriver.testing import Harness, builders, device_request
from dradriver_gpu_mig import GpuDriver
from dradriver_gpu_mig.card.nvml import NvmlHardware
from tests.drivers.gpu_mig.shim.build import build_shim
from tests.drivers.gpu_mig.shim.hand import environment
from tests.e2e import control_plane
from tests.e2e.api_servers import NODE, ApiServerBed, api_server_bed
from tests.e2e.programs import COMPILER

MANIFESTS: Final = Path(__file__).parents[2] / "drivers/gpu_mig/manifests"
CLASS: Final = "mig.nvidia.com"


@pytest.fixture(scope="module")
def slices(tmp_path_factory: pytest.TempPathFactory) -> list[ResourceSlice]:
    """What the driver publishes of two A100-40 behind the shim."""
    if COMPILER is None:
        pytest.skip("no C compiler: the shim of libnvidia-ml can't be built")
    folder = tmp_path_factory.mktemp("nvml")
    library = build_shim(folder)
    os.environ |= environment(folder / "cards.state", ["a100-40", "a100-40"])
    with Harness(lambda: GpuDriver("mode: dynamic", NvmlHardware(library)), folder, node=NODE) as harness:
        return harness.slices()


@pytest.fixture(scope="module")
def bed() -> Iterator[ApiServerBed]:
    with api_server_bed() as made:
        made.serve(None, {})
        control_plane.start_scheduler(made, [])
        yield made


def classes() -> dict[str, DeviceClass]:
    documents = yaml.safe_load_all((MANIFESTS / "classes.yaml").read_text())
    found = [decode(DeviceClass, msgspec.json.encode(each)) for each in documents]
    return {each.metadata.name: each for each in found}


@pytest.fixture
async def client(bed: ApiServerBed, slices: list[ResourceSlice]) -> AsyncIterator[Client]:
    async with await Client.connect(str(bed.credentials.write_kubeconfig(bed.url, "admin"))) as client:
        for resource, body, namespace in (
            (NODES, builders.node(NODE), ""),
            (SERVICE_ACCOUNTS, {"metadata": {"name": "default"}}, "default"),
            *((CLASSES, each, "") for each in classes().values()),
            *((SLICES, each, "") for each in slices),
        ):
            with suppress(AlreadyExists):
                await client.create(resource, body, namespace, into=dict)
        room = {"pods": "110", "cpu": "8", "memory": "8Gi"}
        status = {"status": {"capacity": room, "allocatable": room}}
        await client.patch(NODES, NODE, "", status, PatchKind.MERGE, into=dict, subresource="status")
        yield client


def asking(name: str, profile: str = "") -> ResourceClaim:
    expression = f"device.attributes['gpu.nvidia.com'].profile == '{profile}'" if profile else "true"
    request = msgspec.structs.replace(device_request(CLASS, expression, name="mig"))
    return builders.claim(request, name=name)


def of_the_kep() -> ResourceClaim:
    claim, _ = yaml.safe_load_all((MANIFESTS / "kep-4815.yaml").read_text())
    return decode(ResourceClaim, msgspec.json.encode(claim))


async def placed(client: Client, name: str) -> list[str] | None:
    """The devices that kube-scheduler gave a pod; None when it says that there are none."""
    async with asyncio.timeout(60):
        while True:
            pod = await client.get(PODS, name, "default", into=Pod)
            if pod.spec.node_name:
                claim = await client.get(CLAIMS, name, "default", into=ResourceClaim)
                return [result.device for result in claim.results]
            if any(each.reason == "Unschedulable" for each in pod.status.conditions):
                return None
            await asyncio.sleep(0.05)


def ours(
    claim: ResourceClaim, slices: list[ResourceSlice], allocated: Mapping[str, ResourceClaim]
) -> list[str] | None:
    """The devices that our allocator gives."""
    held = InUse.of(allocated.values())
    try:
        found = allocate([claim], Inventory.of(slices), classes(), held, AllocationNode(NODE))
    except Refusal:
        return None
    return [result.device for result in found[claim.metadata.uid].devices.results]


async def test_kube_scheduler_and_our_allocator_place_the_keps_pods_alike(
    client: Client, slices: list[ResourceSlice]
) -> None:
    wanted = [
        of_the_kep(),
        asking("any"),
        *(asking(f"three-slices-{number}", "3g.20gb") for number in range(3)),
        asking("one-with-engines", "1g.5gb+me"),
        asking("two-slices", "2g.10gb"),
        *(asking(f"any-{number}") for number in range(4)),
        asking("all-of-it", "7g.40gb"),
    ]
    told: dict[str, tuple[list[str] | None, list[str] | None]] = {}
    allocated: dict[str, ResourceClaim] = {}
    for claim in wanted:
        name = claim.metadata.name
        await client.create(CLAIMS, claim, "default", into=dict)
        created = await client.get(CLAIMS, name, "default", into=ResourceClaim)
        expected = ours(created, slices, allocated)
        await client.create(PODS, builders.pod(name, name=name), "default", into=dict)
        told[name] = expected, await placed(client, name)
        allocated[name] = await client.get(CLAIMS, name, "default", into=ResourceClaim)
    print("\n".join(f"{name}: {found}" for name, (_, found) in told.items()))
    assert {name: mine for name, (mine, _) in told.items()} == {name: its for name, (_, its) in told.items()}
    short = {name: [each.partition("-mig-")[2] for each in found or []] for name, (_, found) in told.items()}
    assert short["mig-devices"] == ["1g-5gb-0", "1g-5gb-1", "2g-10gb-2", "3g-20gb-4"]
    assert short["any"] == ["1g-5gb-0"]
    assert short["all-of-it"] == []
