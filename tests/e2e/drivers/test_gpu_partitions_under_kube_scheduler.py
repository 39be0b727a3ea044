"""KEP-4815's pods on two A100s as the driver publishes them: kube-scheduler and our allocator agree.

First our allocator decides, with the devices that are allocated so far; then kube-scheduler places the pod.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec
import pytest
import yaml

from dradriver.allocator import AllocationNode, InUse, Inventory, Refusal, allocate
from dradriver.kube import (
    CLAIMS,
    CLASSES,
    PODS,
    SLICES,
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
from dradriver_gpu_mig.card.nvml import NvmlGpus
from tests.drivers.gpu_mig.shim.build import build_shim
from tests.drivers.gpu_mig.shim.controls import environment
from tests.e2e.bed import control_plane
from tests.e2e.bed.api_server_bed import NODE, ApiServerBed, api_server_bed
from tests.e2e.bed.programs import COMPILER
from tests.e2e.scheduling.scheduled_cluster import create_objects

MANIFESTS: Final = Path(__file__).parents[3] / "drivers/gpu_mig/manifests"
CLASS: Final = "mig.nvidia.com"


@pytest.fixture(scope="module")
def slices(tmp_path_factory: pytest.TempPathFactory) -> list[ResourceSlice]:
    """Return the slices that the driver publishes of two A100-40 behind the shim."""
    if COMPILER is None:
        pytest.skip("no C compiler: the shim of libnvidia-ml can't be built")
    folder = tmp_path_factory.mktemp("nvml")
    library = build_shim(folder)
    os.environ |= environment(folder / "cards.state", ["a100-40", "a100-40"])
    with Harness(lambda: GpuDriver("mode: dynamic", NvmlGpus(library)), folder, node=NODE) as harness:
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
        await create_objects(
            client,
            *((CLASSES, each, "") for each in classes().values()),
            *((SLICES, each, "") for each in slices),
        )
        await until_devices_are_received(client)
        yield client


async def until_devices_are_received(client: Client) -> None:
    """Wait until kube-scheduler binds a pod with a device, and free the device.

    kube-scheduler receives classes and slices on other watches than claims and pods. It allocates no device of
    a pool before it has received all slices of the pool.
    """
    await client.create(CLAIMS, profile_claim("probe"), "default", into=dict)
    await client.create(PODS, builders.pod("probe", name="probe"), "default", into=dict)
    async with asyncio.timeout(120):
        while not (await client.get(PODS, "probe", "default", into=Pod)).spec.node_name:
            await asyncio.sleep(0.05)
    await client.delete(PODS, "probe", "default", grace_seconds=0)
    body = {"status": {"allocation": None, "reservedFor": None}}  # as the claim controller does
    await client.patch(CLAIMS, "probe", "default", body, PatchKind.MERGE, into=dict, subresource="status")


def profile_claim(name: str, profile: str = "") -> ResourceClaim:
    expression = f"device.attributes['gpu.nvidia.com'].profile == '{profile}'" if profile else "true"
    request = msgspec.structs.replace(device_request(CLASS, expression, name="mig"))
    return builders.claim(request, name=name)


def kep_claim() -> ResourceClaim:
    claim, _ = yaml.safe_load_all((MANIFESTS / "kep-4815.yaml").read_text())
    return decode(ResourceClaim, msgspec.json.encode(claim))


async def wait_for_placement(client: Client, name: str) -> list[str] | None:
    """Wait for kube-scheduler; return the devices of a pod, None if it is unschedulable."""
    async with asyncio.timeout(60):
        while True:
            pod = await client.get(PODS, name, "default", into=Pod)
            if pod.spec.node_name:
                claim = await client.get(CLAIMS, name, "default", into=ResourceClaim)
                return [result.device for result in claim.results]
            if any(each.reason == "Unschedulable" for each in pod.status.conditions):
                return None
            await asyncio.sleep(0.05)


def allocate_here(
    claim: ResourceClaim, slices: list[ResourceSlice], allocated: Mapping[str, ResourceClaim]
) -> list[str] | None:
    """Return the devices that our allocator gives, None if it refuses."""
    held = InUse.of(allocated.values())
    try:
        found = allocate([claim], Inventory.of(slices), classes(), held, AllocationNode(NODE))
    except Refusal:
        return None
    return [result.device for result in found[claim.metadata.uid].devices.results]


async def test_kube_scheduler_and_our_allocator_place_the_pods_of_the_kep_alike(
    client: Client, slices: list[ResourceSlice]
) -> None:
    wanted = [
        kep_claim(),
        profile_claim("any"),
        *(profile_claim(f"three-slices-{number}", "3g.20gb") for number in range(3)),
        profile_claim("one-with-engines", "1g.5gb+me"),
        profile_claim("two-slices", "2g.10gb"),
        *(profile_claim(f"any-{number}") for number in range(4)),
        profile_claim("all-of-it", "7g.40gb"),
    ]
    placements: dict[str, tuple[list[str] | None, list[str] | None]] = {}
    allocated: dict[str, ResourceClaim] = {}
    for claim in wanted:
        name = claim.metadata.name
        await client.create(CLAIMS, claim, "default", into=dict)
        created = await client.get(CLAIMS, name, "default", into=ResourceClaim)
        expected = allocate_here(created, slices, allocated)
        await client.create(PODS, builders.pod(name, name=name), "default", into=dict)
        placements[name] = expected, await wait_for_placement(client, name)
        allocated[name] = await client.get(CLAIMS, name, "default", into=ResourceClaim)
    print("\n".join(f"{name}: {found}" for name, (_, found) in placements.items()))
    ours, theirs = ({name: both[side] for name, both in placements.items()} for side in (0, 1))
    assert ours == theirs
    short = {name: [each.partition("-mig-")[2] for each in found or []] for name, found in theirs.items()}
    assert short["mig-devices"] == ["1g-5gb-0", "1g-5gb-1", "2g-10gb-2", "3g-20gb-4"]
    assert short["any"] == ["1g-5gb-0"]
    assert short["all-of-it"] == []
