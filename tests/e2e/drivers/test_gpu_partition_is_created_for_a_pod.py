"""A pod on a real kubelet gets a MIG device, which the driver creates for it and destroys after it.

The card is the shim of libnvidia-ml behind pynvml; the driver runs as in production, with the node's files
below a folder.
"""

import asyncio
import os
import shutil
import sys
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
import yaml

from dradriver.kube import CLAIMS, CLASSES, SLICES, TEMPLATES, Client, Resource
from dradriver_gpu_mig.card.nvml import NvmlGpus
from tests.drivers.gpu_mig.shim.build import build_shim
from tests.drivers.gpu_mig.shim.controls import environment
from tests.drivers.gpu_mig.shim.node import CAPS_MAJOR, GPU_MAJOR, UVM_MAJOR, NodeFiles, capability_minor
from tests.e2e.bed.cluster import Cluster
from tests.e2e.bed.programs import COMPILER
from tests.e2e.node.site import Json, Site

DRIVER: Final = "gpu.nvidia.com"
MANIFESTS: Final = Path(__file__).parents[3] / "drivers/gpu_mig/manifests"
NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
SHOW: Final = (
    "for n in $(find /dev -name 'nvidia*' ! -type d); do stat -c '%n %t:%T' $n; done; sleep infinity & wait"
)


@pytest.fixture
def cards(tmp_path: Path) -> tuple[Path, Mapping[str, str]]:
    """Return the shim's library, and the environment of programs that use its cards."""
    if COMPILER is None:
        pytest.skip("no C compiler: the shim of libnvidia-ml can't be built")
    return build_shim(tmp_path / "shim"), environment(tmp_path / "cards.state", ["a100-40", "a100-40"])


@pytest.fixture
async def site(real_cluster: Cluster, tmp_path: Path) -> AsyncIterator[Site]:
    """Create a namespace and the driver's classes on the shared cluster."""
    async with await Client.connect(str(real_cluster.kubeconfig())) as client:
        namespace = f"gpu-{uuid.uuid4().hex[:8]}"
        site = Site(client, real_cluster.node(), tmp_path, real_cluster.kubeconfig(), namespace)
        classes = list(yaml.safe_load_all((MANIFESTS / "classes.yaml").read_text()))
        await client.create(NAMESPACES, {"metadata": {"name": namespace}}, into=bytes)
        for body in classes:
            await client.create(CLASSES, body, into=bytes)
        yield site
        for body in classes:
            await client.delete(CLASSES, body["metadata"]["name"])
        await client.delete(NAMESPACES, namespace)


@asynccontextmanager
async def driver(site: Site, node: NodeFiles, library: Path, shim: Mapping[str, str]) -> AsyncIterator[None]:
    """Run the driver beside the kubelet; remove its slices and folders afterwards."""
    root = str(node.root)
    host = {
        "driverRoot": root, "driverRootOnHost": root, "dev": f"{root}/dev", "proc": f"{root}/proc",
        "sysfs": f"{root}/sys", "library": str(library),
    }  # fmt: skip
    settings = yaml.safe_dump({"mode": "dynamic", "host": host})
    command = [
        sys.executable, "-m", "dradriver.cli", "run", "dradriver_gpu_mig:GpuDriver", "--log-level=debug",
        f"--node-name={site.node.name}", f"--kubeconfig={site.kubeconfig}",
        f"--plugins-dir={site.node.plugins}", f"--registry-dir={site.node.registry}",
        f"--cdi-dir={site.node.cdi}",
    ]  # fmt: skip
    with (site.folder / "gpu-driver.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *command, env={**os.environ, **shim, "GPU_MIG_SETTINGS": settings}, stdout=log, stderr=log
        )
    try:
        await site.until("GPUs published", lambda: _published(site.client))
        yield
    finally:
        process.terminate()
        await process.wait()
        shutil.rmtree(site.node.plugins / DRIVER, ignore_errors=True)
        for item in (await site.client.list(SLICES, fields=f"spec.driver={DRIVER}", into=Json)).items:
            await site.client.delete(SLICES, item["metadata"]["name"])


async def _published(client: Client) -> bool:
    slices = (await client.list(SLICES, fields=f"spec.driver={DRIVER}", into=Json)).items
    return bool(slices) and len(slices) == slices[0]["spec"]["pool"]["resourceSliceCount"]


def instances(library: Path, shim: Mapping[str, str]) -> list[tuple[str, int, int, int]]:
    """Return profile and placement of each GPU instance, its ID, and its number of compute instances."""
    os.environ |= shim
    hardware = NvmlGpus(library)
    hardware.open()
    try:
        return [
            (profile.name, each.placement.start, each.id, len(hardware.mig_devices(gpu.uuid, each)))
            for gpu in hardware.gpus()
            for each in hardware.gpu_instances(gpu.uuid)
            for profile in hardware.profiles(gpu.uuid)
            if profile.id == each.profile_id
        ]
    finally:
        hardware.close()


async def wait_for_device_nodes(site: Site, nodes: int) -> dict[str, str]:
    """Wait for at least this many device nodes in the container; return their numbers by path."""

    async def has_enough() -> list[str]:
        lines = (await site.logs("pod")).splitlines()
        return lines if len(lines) >= nodes else []

    lines = await site.until("device nodes in the log", has_enough)
    print("\n".join(sorted(lines)))
    return dict(line.split() for line in lines)


def make_control_nodes() -> dict[str, str]:
    """Return the device nodes of every container with a device of NVIDIA's."""
    return {
        "/dev/nvidiactl": f"{GPU_MAJOR:x}:ff",
        "/dev/nvidia-uvm": f"{UVM_MAJOR:x}:0",
        "/dev/nvidia-uvm-tools": f"{UVM_MAJOR:x}:1",
    }


def partition_nodes(gpu_instance: int) -> dict[str, str]:
    """Return a container's device nodes for a partition of the first GPU, numbered as by the shim."""
    minors = (capability_minor(0, gpu_instance), capability_minor(0, gpu_instance, 0))
    caps = {f"/dev/nvidia-caps/nvidia-cap{minor}": f"{CAPS_MAJOR:x}:{minor:x}" for minor in minors}
    return {"/dev/nvidia0": f"{GPU_MAJOR:x}:0", **caps}


def _pod(name: str) -> Json:
    container = {
        "name": "main", "image": "busybox", "imagePullPolicy": "Never", "command": ["sh", "-c", SHOW],
        "resources": {"claims": [{"name": "mig"}]},
    }  # fmt: skip
    return {
        "containers": [container],
        "resourceClaims": [{"name": "mig", "resourceClaimTemplateName": name}],
    }


def _template(name: str) -> Json:
    expression = f"device.attributes['{DRIVER}'].profile == '3g.20gb'"
    selectors = [{"cel": {"expression": expression}}]
    exactly = {"deviceClassName": "mig.nvidia.com", "selectors": selectors}
    return {
        "metadata": {"name": name},
        "spec": {"spec": {"devices": {"requests": [{"name": "mig", "exactly": exactly}]}}},
    }


async def test_a_pod_gets_exactly_its_partition_which_is_destroyed_after_the_pod(
    site: Site, cards: tuple[Path, Mapping[str, str]], tmp_path: Path
) -> None:
    library, shim = cards
    (tmp_path / "node").mkdir()
    node = NodeFiles(tmp_path / "node", gpus=2)
    async with driver(site, node, library, shim):
        assert await asyncio.to_thread(instances, library, shim) == []
        await site.client.create(TEMPLATES, _template("three-slices"), site.namespace, into=bytes)
        await site.create_pod_with_spec("pod", _pod("three-slices"))
        await site.wait_for_phase("pod", "Running")

        ((profile, start, made, compute),) = await asyncio.to_thread(instances, library, shim)
        assert (profile, start, compute) == ("3g.20gb", 0, 1)

        wanted = make_control_nodes() | partition_nodes(made)
        assert await wait_for_device_nodes(site, len(wanted)) == wanted

        await site.delete_pod("pod")
        await site.wait_for_deletion("pod")
        assert await asyncio.to_thread(instances, library, shim) == []
        assert [path.name for path in site.node.cdi.glob("*.json")] == []


async def test_the_claim_of_kep_4815_gives_one_container_four_partitions(
    site: Site, cards: tuple[Path, Mapping[str, str]], tmp_path: Path
) -> None:
    library, shim = cards
    (tmp_path / "node").mkdir()
    claim, pod = yaml.safe_load_all((MANIFESTS / "kep-4815.yaml").read_text())
    for body in (claim, pod):
        body["metadata"] = {"name": body["metadata"]["name"]}
    (container,) = pod["spec"]["containers"]
    container |= {"name": "main", "image": "busybox", "imagePullPolicy": "Never", "command": ["sh", "-c", SHOW]}
    async with driver(site, NodeFiles(tmp_path / "node", gpus=2), library, shim):
        await site.client.create(CLAIMS, claim, site.namespace, into=bytes)
        await site.create_pod_with_spec("pod", pod["spec"])
        await site.wait_for_phase("pod", "Running")
        made = await asyncio.to_thread(instances, library, shim)
        assert sorted((profile, start, compute) for profile, start, _, compute in made) == [
            ("1g.5gb", 0, 1), ("1g.5gb", 1, 1), ("2g.10gb", 2, 1), ("3g.20gb", 4, 1),
        ]  # fmt: skip
        wanted = make_control_nodes()
        for _, _, number, _ in made:
            wanted |= partition_nodes(number)
        assert await wait_for_device_nodes(site, len(wanted)) == wanted
        await site.delete_pod("pod")
        await site.wait_for_deletion("pod")
        await site.delete_claim(claim["metadata"]["name"])
        assert await asyncio.to_thread(instances, library, shim) == []
