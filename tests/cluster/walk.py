"""What the tests of a whole cluster share: a `dradriver up` process, and kubectl against it."""

import asyncio
import json
import os
import shutil
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from dradriver.cluster import EmbeddedCluster
from dradriver.driver import Driver
from dradriver.kube import Client
from dradriver.node import Plugin, PluginConfig

KUBECTL = shutil.which("kubectl")


class Kubectl:
    """kubectl with one kubeconfig."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig

    async def __call__(self, *arguments: str, stdin: str = "") -> str:
        """Runs kubectl and returns what it printed; a failure is an assertion with its words."""
        assert KUBECTL is not None
        process = await asyncio.create_subprocess_exec(
            KUBECTL,
            *arguments,
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig)},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate(stdin.encode())
        assert process.returncode == 0, f"kubectl {' '.join(arguments)}: {err.decode()}"
        return out.decode()

    async def json(self, *arguments: str) -> Any:
        """The objects that kubectl printed."""
        return json.loads(await self(*arguments, "-o", "json"))


@asynccontextmanager
async def plugin_on(cluster: EmbeddedCluster, node: str, driver: Driver) -> AsyncIterator[Plugin]:
    """A driver at work on a node of a cluster in this process."""
    folder = cluster.node_dir(node)
    config = PluginConfig(
        node,
        plugins_dir=folder / "plugins",
        registry_dir=folder / "plugins_registry",
        cdi_dir=folder / "cdi",
    )
    async with await Client.connect(str(cluster.node_kubeconfig(node))) as session:
        plugin = Plugin(driver, session, config)
        await plugin.start()
        try:
            yield plugin
        finally:
            await plugin.stop()


@asynccontextmanager
async def up(data: Path, *arguments: str) -> AsyncIterator[Kubectl]:
    """`dradriver up` over a folder; yields kubectl once the cluster answers."""
    log = data.parent / f"{data.name}.log"
    with log.open("ab") as stream:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "dradriver.cli",
            "up",
            "--data",
            str(data),
            *arguments,
            stdout=stream,
            stderr=stream,
        )
    kubectl = Kubectl(data / "kubeconfig")
    try:
        await eventually(lambda: ready(kubectl, process), log)
        yield kubectl
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def ready(kubectl: Kubectl, process: asyncio.subprocess.Process) -> bool:
    assert process.returncode is None, "dradriver up ended"
    if not kubectl.kubeconfig.exists():
        return False
    try:
        nodes = await kubectl.json("get", "nodes")
    except AssertionError:
        return False
    return bool(nodes["items"])


async def eventually(holds: Callable[[], Any], log: Path | None = None, seconds: float = 30) -> None:
    """Waits until an async predicate is true."""
    deadline = time.monotonic() + seconds
    while not await holds():
        assert time.monotonic() < deadline, log.read_text()[-4000:] if log else "not in time"
        await asyncio.sleep(0.1)
