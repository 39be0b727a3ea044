"""The two pods of `shared-gpu.yaml` have shares of one GPU, and each of them its own MPS daemon.

kube-scheduler divides the memory, and a real kubelet and containerd mount the folders of the daemons. GPU and
daemons are simulated. The manifest is for a GPU with 16 GiB. No simulated model has this size, so the GPU is
an A30, and the tests that need a full GPU give its other 8 GiB to a claim without MPS.
"""

import asyncio
import copy
import os
import shutil
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
import yaml

from dradriver.kube import CLAIMS, CLASSES, PODS, SLICES, TEMPLATES, Client, Resource
from dradriver_gpu_mig.mps import SimulatedMpsHost
from tests.e2e.bed.cluster import Cluster
from tests.e2e.node.site import Json, Site

pytestmark = pytest.mark.timeout(600)

DRIVER: Final = "gpu.nvidia.com"
SETTINGS: Final = "{mode: whole, consumableShares: memory, mps: {}, simulator: {models: [a30], mig: false}}"
MANIFESTS: Final = Path(__file__).parents[3] / "drivers/gpu_mig/manifests"
NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
FIRST, SECOND, THIRD = "shared-gpu-1", "shared-gpu-2", "shared-gpu-3"
PLACES: Final = {"pipe": "/tmp/nvidia-mps", "shm": "/dev/shm"}
"""The folders of a daemon, and their places in the containers of its claim."""


@dataclass
class SharedGpu:
    """The running driver, and the objects of the manifest.

    Attributes:
        site: the namespace and the node.
        cluster: the cluster of the node.
        template: the template of the claims, without namespace.
        spec: the spec of the pods.
    """

    site: Site
    cluster: Cluster
    template: Json
    spec: Json

    @property
    def data(self) -> Path:
        """Return the folder of the driver's own files."""
        return self.site.node.plugins / DRIVER / "driver"

    def daemon(self, claim: Json) -> Path:
        """Return the folder of the MPS daemon of a claim."""
        return self.data / "mps" / str(claim["metadata"]["uid"])

    def remains(self) -> list[Path]:
        """Return the records of devices, the folders and lock files of daemons, and the CDI specs.

        The lock file of a device is not removed, and there is one for each device.
        """
        records = (self.data / "devices").glob("*.json")
        return [*records, *(self.data / "mps").iterdir(), *self.site.node.cdi.glob("*.json")]

    async def run(self, *names: str) -> list[Json]:
        """Create pods of the manifest, wait until they run, and return their claims."""
        for name in names:
            await self.site.create_pod_with_spec(name, self.spec)
        for name in names:
            await self.site.wait_for_phase(name, "Running")
        return [await self.claim(name) for name in names]

    async def run_beside(self, memory: str) -> None:
        """Run a pod whose claim has a share of the GPU's memory, and no MPS."""
        template, spec = copy.deepcopy(self.template), copy.deepcopy(self.spec)
        template["metadata"]["name"] = spec["resourceClaims"][0]["resourceClaimTemplateName"] = "without-mps"
        devices = template["spec"]["spec"]["devices"]
        devices["requests"][0]["exactly"]["capacity"]["requests"]["memory"] = memory
        del devices["config"]
        await self.site.client.create(TEMPLATES, template, self.site.namespace, into=bytes)
        await self.site.create_pod_with_spec("without-mps", spec)
        await self.site.wait_for_phase("without-mps", "Running")

    async def claim(self, pod: str) -> Json:
        """Return the claim that was made for a pod."""
        found = await self.site.get_pod(pod)
        assert found is not None
        (status,) = found["status"]["resourceClaimStatuses"]
        return await self.site.client.get(CLAIMS, status["resourceClaimName"], self.site.namespace, into=Json)

    async def wait_for_unschedulable(self, name: str) -> str:
        """Wait until kube-scheduler reports that a pod has no node; return its message."""

        async def message() -> str:
            pod = await self.site.get_pod(name)
            conditions = pod["status"].get("conditions", []) if pod else []
            return next((str(each["message"]) for each in conditions if each["reason"] == "Unschedulable"), "")

        return await self.site.until(f"pod {name} unschedulable", message)

    async def read_log(self, pod: str) -> list[str]:
        """Wait for the log of a pod: the environment variable and a line for each mount."""

        async def complete() -> list[str]:
            lines = (await self.site.logs(pod, "show")).splitlines()
            return lines if len(lines) > len(PLACES) else []

        return await self.site.until(f"log of pod {pod}", complete)

    async def execute(self, pod: str, *command: str) -> str:
        """Run a command in the container of a pod, and return its output."""
        options = ("exec", "-n", self.site.namespace, pod, "--", *command)
        return await asyncio.to_thread(self.cluster.kubectl, *options)

    async def mounted_folders(self, pod: str) -> dict[str, Path]:
        """Return the mount points of a container, each with the folder that is mounted there.

        The path of a folder starts at the root of its file system.
        """
        lines = (await self.execute(pod, "cat", "/proc/self/mountinfo")).splitlines()
        return {fields[4]: Path(fields[3]) for fields in map(str.split, lines)}

    async def delete(self, *pods: str) -> None:
        """Delete pods, and wait until they are gone."""
        for pod in pods:
            await self.site.delete_pod(pod)
        for pod in pods:
            await self.site.wait_for_deletion(pod)

    async def delete_all(self) -> None:
        """Delete all pods, and wait until they are gone."""
        pods = (await self.site.client.list(PODS, self.site.namespace, into=Json)).items
        await self.delete(*(pod["metadata"]["name"] for pod in pods))


@pytest.fixture
async def gpu(real_cluster: Cluster, tmp_path: Path) -> AsyncIterator[SharedGpu]:
    """Run the driver with a namespace, the driver's classes and the template of the manifest."""
    template, pod, other = yaml.safe_load_all((MANIFESTS / "shared-gpu.yaml").read_text())
    assert [each["metadata"]["name"] for each in (pod, other)] == [FIRST, SECOND]
    assert pod["spec"] == other["spec"]
    pod["spec"]["containers"][0] |= {"image": "busybox", "imagePullPolicy": "Never"}
    template["metadata"] = {"name": template["metadata"]["name"]}
    classes = list(yaml.safe_load_all((MANIFESTS / "classes.yaml").read_text()))
    namespace = f"shared-gpu-{uuid.uuid4().hex[:8]}"
    async with await Client.connect(str(real_cluster.kubeconfig())) as client:
        site = Site(client, real_cluster.node(), tmp_path, real_cluster.kubeconfig(), namespace)
        made = SharedGpu(site, real_cluster, template, pod["spec"])
        await client.create(NAMESPACES, {"metadata": {"name": namespace}}, into=bytes)
        for body in classes:
            await client.create(CLASSES, body, into=bytes)
        await client.create(TEMPLATES, template, namespace, into=bytes)
        async with run_driver(site):
            yield made
            await made.delete_all()
        for body in classes:
            await client.delete(CLASSES, body["metadata"]["name"])
        await client.delete(NAMESPACES, namespace)


@asynccontextmanager
async def run_driver(site: Site) -> AsyncIterator[None]:
    """Run the driver beside the kubelet; remove its slices and folders afterwards."""
    command = [
        sys.executable, "-m", "dradriver.cli", "run", "dradriver_gpu_mig:GpuDriver", "--simulate=always",
        "--log-level=debug", f"--node-name={site.node.name}", f"--kubeconfig={site.kubeconfig}",
        f"--plugins-dir={site.node.plugins}", f"--registry-dir={site.node.registry}",
        f"--cdi-dir={site.node.cdi}",
    ]  # fmt: skip
    with (site.folder / "gpu-driver.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *command, env={**os.environ, "GPU_MIG_SETTINGS": SETTINGS}, stdout=log, stderr=log
        )

    async def published() -> list[Json]:
        return (await site.client.list(SLICES, fields=f"spec.driver={DRIVER}", into=Json)).items

    try:
        (found,) = await site.until("one slice", published)
        (device,) = found["spec"]["devices"]
        assert device["allowMultipleAllocations"]
        assert device["capacity"]["memory"]["value"] == "24Gi"
        yield
    finally:
        process.terminate()
        await process.wait()
        shutil.rmtree(site.node.plugins / DRIVER, ignore_errors=True)
        for item in await published():
            await site.client.delete(SLICES, item["metadata"]["name"])


def share_of(claim: Json) -> tuple[tuple[str, str], str, str]:
    """Return pool and name of the device of a claim, the ID of its share, and the memory of the share."""
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    return (result["pool"], result["device"]), result["shareID"], result["consumedCapacity"]["memory"]


async def test_two_pods_run_on_one_gpu_with_a_share_and_an_mps_daemon_each(gpu: SharedGpu) -> None:
    claims = await gpu.run(FIRST, SECOND)
    devices, shares, memory = zip(*map(share_of, claims), strict=True)
    print(claims[0]["status"]["allocation"])
    assert len(set(devices)) == 1
    assert len(set(shares)) == 2
    assert memory == ("8Gi", "8Gi")

    host = SimulatedMpsHost(gpu.data / "mps")
    first, second = (host.read(claim["metadata"]["uid"]) for claim in claims)
    assert first.answering
    assert first.active_thread_percentage == 50
    assert list(first.memory_limits.values()) == [8192]
    assert second == first


async def test_a_third_pod_is_unschedulable_until_one_of_the_two_pods_ends(gpu: SharedGpu) -> None:
    await gpu.run_beside("8Gi")
    first, second = await gpu.run(FIRST, SECOND)
    await gpu.site.create_pod_with_spec(THIRD, gpu.spec)
    print(await gpu.wait_for_unschedulable(THIRD))
    waiting = await gpu.site.get_pod(THIRD)
    assert waiting is not None
    assert waiting["status"]["phase"] == "Pending"
    assert "nodeName" not in waiting["spec"]

    await gpu.delete(FIRST)
    await gpu.site.wait_for_phase(THIRD, "Running")
    third = await gpu.claim(THIRD)
    device, share, memory = share_of(third)
    assert (device, memory) == (share_of(second)[0], "8Gi")
    assert share not in {share_of(first)[1], share_of(second)[1]}
    assert gpu.daemon(third).is_dir()
    assert not gpu.daemon(first).exists()


async def test_a_pod_sees_only_the_folders_of_its_own_mps_daemon(gpu: SharedGpu) -> None:
    claims = dict(zip((FIRST, SECOND), await gpu.run(FIRST, SECOND), strict=True))
    for pod, claim in claims.items():
        lines = await gpu.read_log(pod)
        print("\n".join(lines))
        assert f"CUDA_MPS_PIPE_DIRECTORY={PLACES['pipe']}" in lines
        found = await gpu.mounted_folders(pod)
        for name, place in PLACES.items():
            assert any(f" on {place} " in line for line in lines)
            assert found[place].parts[-3:] == ("mps", claim["metadata"]["uid"], name)
        (other,) = claims.keys() - {pod}
        assert not any(claims[other]["metadata"]["uid"] in path.parts for path in found.values())

    for name, place in PLACES.items():
        (gpu.daemon(claims[FIRST]) / name / "written-on-the-node").write_text("for the first pod")
        assert await gpu.execute(FIRST, "cat", f"{place}/written-on-the-node") == "for the first pod"
        assert await gpu.execute(SECOND, "ls", "-A", place) == ""


async def test_nothing_is_left_of_shares_and_mps_daemons_after_the_pods(gpu: SharedGpu) -> None:
    await gpu.run_beside("8Gi")
    for claim in await gpu.run(FIRST, SECOND):
        assert gpu.daemon(claim).is_dir()
    print("\n".join(map(str, gpu.remains())))
    assert len(list((gpu.data / "devices").glob("*.json"))) == 1
    await gpu.delete_all()

    async def nothing_is_left() -> bool:
        return gpu.remains() == []

    await gpu.site.until("end of all claims", nothing_is_left)
