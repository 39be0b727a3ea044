"""kill -9 of the process with the kubelet stand-in, then another one over the same folder."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dradriver.cluster.runtime.processes import find_processes
from tests.conformance.kubelet.embedded import EmbeddedNode
from tests.conformance.kubelet.lab import Lab

SCRIPT = """
import asyncio, sys
from pathlib import Path
from dradriver.cluster.kubelet import Kubelet, Timings
from dradriver.cluster.runtime import choose_runtime
from dradriver.kube import Client

async def main(kubeconfig, directory, runtime):
    async with await Client.connect(kubeconfig) as client:
        chosen = await choose_runtime(runtime)
        await Kubelet(client, "node-1", Path(directory), chosen, timings=Timings(retry=0.2)).start()
        await asyncio.Event().wait()

asyncio.run(main(*sys.argv[1:]))
"""


@asynccontextmanager
async def kubelet_process(kubeconfig: Path, directory: Path, runtime: str) -> AsyncIterator[int]:
    """A kubelet in a separate process, which is killed at the end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SCRIPT, str(kubeconfig), str(directory), runtime
    )
    try:
        yield process.pid
    finally:
        os.kill(process.pid, signal.SIGKILL)
        await process.wait()


@pytest.mark.parametrize("lab", ["process", "podman", "runc"], indirect=True)
async def test_containers_end_and_claims_are_unprepared(lab: Lab, tmp_path: Path) -> None:
    node = lab.node
    assert isinstance(node, EmbeddedNode)
    await node.stop()
    mark = f"DRADRIVER_TEST={tmp_path.name}"
    name, _, value = mark.partition("=")
    container = {
        "name": "main",
        "image": "busybox",
        "command": ["sh", "-c", "sleep infinity & wait"],
        "env": [{"name": name, "value": value}],
        "resources": {"claims": [{"name": "claim"}]},
    }
    async with lab.driver() as driver:
        async with kubelet_process(tmp_path / "node.kubeconfig", node.cdi.parent, node.runtime.name):
            assert (await driver.registered()).plugin_registered
            await lab.claim("claim")
            await lab.pod("pod", "claim", containers=[container])
            await lab.phase("pod", "Running")
        await lab.delete_pod("pod")
        assert await asyncio.to_thread(find_processes, mark)
        await node.start()
        await lab.gone("pod")
        assert driver.unprepares == [["claim"]]
        assert not await asyncio.to_thread(find_processes, mark)
