"""`dradriver up` and plain kubectl: two pods of one template each see a device, and nothing remains."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dradriver.node import node_status
from tests.cluster.helpers import KUBECTL, Kubectl, eventually, up

pytestmark = [pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed"), pytest.mark.timeout(180)]

CLAIM = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: loop}
spec:
  selectors:
  - cel: {expression: device.driver == "loop.example.com"}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one-loop}
spec:
  spec:
    devices:
      requests:
      - name: loop
        exactly: {deviceClassName: loop}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  terminationGracePeriodSeconds: 1
  resourceClaims:
  - name: loop
    resourceClaimTemplateName: one-loop
  containers:
  - name: main
    image: none
    command: [sh, -c, 'echo "device=$LOOP_DEVICE"; ls -l "$LOOP_DEVICE"; exec sleep 1000']
    resources:
      claims:
      - name: loop
"""


@pytest.fixture
async def kubectl(tmp_path: Path) -> AsyncIterator[Kubectl]:
    async with up(tmp_path / "data", "--driver", "loop") as kubectl:
        yield kubectl


async def test_two_pods_see_their_own_device_and_deleting_them_leaves_nothing(
    kubectl: Kubectl, tmp_path: Path
) -> None:
    pods = ("one", "two")
    await kubectl("apply", "-f", "-", stdin=CLAIM + "---".join(["", *(POD.format(name=name) for name in pods)]))
    await kubectl("wait", "--for=condition=Ready", "pod/one", "pod/two", "--timeout=60s")

    seen = []
    for pod in pods:
        claim = (await kubectl.json("get", "pod", pod))["status"]["resourceClaimStatuses"][0][
            "resourceClaimName"
        ]
        allocation = (await kubectl.json("get", "resourceclaim", claim))["status"]["allocation"]
        (result,) = allocation["devices"]["results"]
        seen.append(result["device"])

        async def prints_its_device(pod: str = pod, device: str = result["device"]) -> bool:
            return f"device=/dev/{device.replace('-', '')}" in await kubectl("logs", pod)

        await eventually(prints_its_device)
    assert len(set(seen)) == 2

    await kubectl("delete", "pod", *pods, "--timeout=60s")
    node = tmp_path / "data" / "nodes" / "node-1"

    async def nothing_is_left() -> bool:
        claims = (await kubectl.json("get", "resourceclaims"))["items"]
        return not claims and not list((node / "cdi").iterdir())

    await eventually(nothing_is_left)
    assert node_status(node / "plugins" / "loop.example.com").claims == []
