"""`kubectl logs`: all lines, the last lines, and `--follow`."""

import asyncio
import shutil
from pathlib import Path

import pytest

from dradriver.cluster.apiserver import ApiServer
from dradriver.errors import NotFoundError, UsageError
from tests.conformance.kubelet.embedded import EmbeddedNode
from tests.conformance.kubelet.lab import Lab


async def collect(node: EmbeddedNode, *, follow: bool, tail: int | None) -> str:
    chunks = await node.kubelet.logs("default", "pod", "main", follow, tail)
    return b"".join([chunk async for chunk in chunks]).decode()


@pytest.fixture
def node(lab: Lab) -> EmbeddedNode:
    assert isinstance(lab.node, EmbeddedNode)
    return lab.node


async def test_all_or_the_last_lines(lab: Lab, node: EmbeddedNode) -> None:
    await lab.pod("pod", containers=[_container("echo 1; echo 2; printf 3")])
    await lab.phase("pod", "Succeeded")
    assert await collect(node, follow=False, tail=None) == "1\n2\n3"
    assert await collect(node, follow=False, tail=2) == "2\n3"
    assert await collect(node, follow=False, tail=0) == ""


async def test_following_ends_with_the_container(lab: Lab, node: EmbeddedNode, tmp_path: Path) -> None:
    go = tmp_path / "go"
    await lab.pod("pod", containers=[_container(f"echo 1; until test -e {go}; do sleep 0.05; done; echo 2")])
    await lab.phase("pod", "Running")
    following = asyncio.create_task(collect(node, follow=True, tail=None))
    go.touch()
    assert await following == "1\n2\n"


async def test_a_container_that_has_not_started_has_no_log(lab: Lab, node: EmbeddedNode) -> None:
    await lab.claim("claim", drivers=("absent.example.com",))
    await lab.pod("pod", "claim")
    await lab.event("pod", "FailedPrepareDynamicResources", "not registered")
    with pytest.raises(UsageError, match='container "main" in pod "pod" is waiting to start'):
        await collect(node, follow=False, tail=None)


async def test_an_unknown_pod_or_container_is_named(lab: Lab, node: EmbeddedNode) -> None:
    with pytest.raises(NotFoundError, match="pod default/pod is not on node node-1"):
        await collect(node, follow=False, tail=None)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
async def test_kubectl_logs_shows_them(lab: Lab, node: EmbeddedNode, api: ApiServer, tmp_path: Path) -> None:
    api.pod_logs = node.kubelet.logs
    await lab.pod("pod", containers=[_container("echo hello")])
    await lab.phase("pod", "Succeeded")
    assert await kubectl_logs(tmp_path, "-f") == (0, "hello\n", "")


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
async def test_kubectl_logs_prints_why_there_is_no_log(
    lab: Lab, node: EmbeddedNode, api: ApiServer, tmp_path: Path
) -> None:
    api.pod_logs = node.kubelet.logs
    await lab.claim("claim", drivers=("absent.example.com",))
    await lab.pod("pod", "claim")
    await lab.event("pod", "FailedPrepareDynamicResources", "not registered")
    code, _, error = await kubectl_logs(tmp_path)
    assert code == 1
    assert 'container "main" in pod "pod" is waiting to start: ContainerCreating' in error


async def kubectl_logs(folder: Path, *options: str) -> tuple[int | None, str, str]:
    process = await asyncio.create_subprocess_exec(
        *("kubectl", f"--kubeconfig={folder}/kubeconfig", f"--cache-dir={folder}/cache"),
        *("logs", *options, "pod"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    return process.returncode, output.decode(), errors.decode()


def _container(script: str) -> dict[str, object]:
    return {"name": "main", "image": "busybox", "command": ["sh", "-c", script]}
