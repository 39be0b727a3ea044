"""The whole way to a real GPU: API server, allocator, kubelet, driver, CDI spec, runc and a kernel of a pod."""

import tempfile
from pathlib import Path

import pytest
from msgspec.structs import replace

from dradriver.cluster import EmbeddedCluster
from dradriver.kube import CLAIMS, CLASSES, PODS
from dradriver.model.core.workload import Pod
from dradriver.testing import builders
from dradriver_gpu_mig.card import Gpu
from tests.cluster.helpers import plugin_on, until
from tests.gpu.conftest import make_driver
from tests.gpu.cuda import SUM
from tests.interop.loader_view import containers

pytestmark = [
    pytest.mark.skipif(bool(containers.find_missing()), reason=containers.find_missing() or "-"),
    pytest.mark.timeout(180),
]

NAME = "gpu.nvidia.com"


async def test_a_pod_runs_a_kernel_on_the_gpu_of_its_claim(gpu: Gpu, cuda_program: Path) -> None:
    this_gpu = f"device.attributes['{NAME}'].uuid == '{gpu.uuid}'"
    request = builders.device_request(NAME, this_gpu)
    script = f"set -e; {cuda_program} add > out; grep -x 'uuid {gpu.uuid}' out; grep -x 'sum {SUM}' out"
    command = ["sh", "-c", script]
    pod = builders.pod("claim-1", command=command)
    pod = replace(pod, spec=replace(pod.spec, restart_policy="Never"))
    with tempfile.TemporaryDirectory(prefix="dra-") as folder:
        async with EmbeddedCluster(Path(folder) / "c", runtime="runc") as cluster:
            client = cluster.client()
            await client.create(CLASSES, builders.device_class(NAME), into=dict)
            async with plugin_on(cluster, "node-1", make_driver("mode: whole")):
                await client.create(CLAIMS, builders.claim(request), "default", into=dict)
                await client.create(PODS, pod, "default", into=dict)
                await until(client, lambda pods: pods["default/pod-1"].status.phase in {"Succeeded", "Failed"})
                seen = await client.get(PODS, "pod-1", "default", into=Pod)
                assert seen.status.phase == "Succeeded", seen.status
                await client.delete(PODS, "pod-1", "default", grace_seconds=0)
