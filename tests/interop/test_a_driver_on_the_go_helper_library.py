"""An unmodified driver on the Go helper library (`kubeletplugin`) runs on the embedded cluster."""

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.cluster.helpers import KUBECTL, Kubectl, eventually, up

GO = shutil.which("go")
SOURCE = Path(__file__).with_name("kubeletplugin")
pytestmark = [
    pytest.mark.skipif(GO is None, reason="Go is not installed"),
    pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed"),
    pytest.mark.timeout(900),
]

OBJECTS = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: peer}
spec:
  selectors:
  - cel: {expression: device.driver == "peer.example.com"}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one-peer}
spec:
  spec:
    devices:
      requests:
      - name: device
        exactly:
          deviceClassName: peer
          selectors:
          - cel: {expression: 'device.attributes["peer.example.com"].index == 3'}
---
apiVersion: v1
kind: Pod
metadata: {name: pod}
spec:
  terminationGracePeriodSeconds: 1
  resourceClaims:
  - name: device
    resourceClaimTemplateName: one-peer
  containers:
  - name: main
    image: none
    command: [sh, -c, 'echo "device=$PEER_DEVICE"; exec sleep 1000']
    resources:
      claims:
      - name: device
"""


@pytest.fixture(scope="session")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the driver's program."""
    target = tmp_path_factory.mktemp("go") / "driver"
    assert GO is not None
    environment = {**os.environ, "GOFLAGS": "-mod=mod"}
    subprocess.run([GO, "build", "-o", str(target), "."], cwd=SOURCE, check=True, env=environment)
    return target


@pytest.fixture
def data() -> Iterator[Path]:
    """Return a folder with a short path: the Go helper library does not shorten its sockets' names."""
    with tempfile.TemporaryDirectory(prefix="dra-", dir="/tmp") as directory:
        yield Path(directory) / "data"


@pytest.fixture
async def kubectl(data: Path) -> AsyncIterator[Kubectl]:
    async with up(data) as kubectl:
        yield kubectl


async def test_it_registers_publishes_and_its_claim_is_allocated_and_prepared(
    kubectl: Kubectl, binary: Path, data: Path
) -> None:
    node = data / "nodes" / "node-1"
    driver = await asyncio.create_subprocess_exec(
        binary,
        f"--kubeconfig={kubectl.kubeconfig}",
        "--node-name=node-1",
        f"--plugins-dir={node / 'plugins'}",
        f"--registry-dir={node / 'plugins_registry'}",
        f"--cdi-dir={node / 'cdi'}",
    )
    try:

        async def published() -> bool:
            slices = (await kubectl.json("get", "resourceslices"))["items"]
            return sum(len(item["spec"]["devices"]) for item in slices) == 8

        await eventually(published)
        await kubectl("apply", "-f", "-", stdin=OBJECTS)
        await kubectl("wait", "--for=condition=Ready", "pod/pod", "--timeout=60s")

        async def prints_its_device() -> bool:
            return await kubectl("logs", "pod") == "device=device-3\n"

        await eventually(prints_its_device)
        assert list((node / "cdi").glob("peer.example.com-claim_*.json"))

        await kubectl("delete", "pod", "pod", "--timeout=60s")
        assert not list((node / "cdi").iterdir())
    finally:
        driver.terminate()
        await driver.wait()
