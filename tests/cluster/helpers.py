"""Helpers for tests of a whole cluster: a `dradriver up` process, kubectl, and drivers on nodes."""

import asyncio
import json
import os
import shutil
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

from dradriver.cluster import EmbeddedCluster
from dradriver.driver import Driver, NodeBindingDriver
from dradriver.kube import PODS, Cache, Client
from dradriver.model.core.workload import Pod
from dradriver.node import Plugin, PluginConfig
from dradriver.runner.binding_node import BindingPlugin

KUBECTL = shutil.which("kubectl")


class Kubectl:
    """kubectl with one kubeconfig."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig

    async def __call__(self, *arguments: str, stdin: str = "") -> str:
        """Run kubectl and return its stdout. A failure is an AssertionError with its stderr."""
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
        """Run kubectl with `-o json` and return the decoded output."""
        return json.loads(await self(*arguments, "-o", "json"))


@asynccontextmanager
async def plugin_on(cluster: EmbeddedCluster, node: str, driver: Driver) -> AsyncIterator[Plugin]:
    """Run a driver on a node of a cluster in this process."""
    folder = cluster.node_dir(node)
    config = PluginConfig(
        node, plugins_dir=folder / "plugins", registry_dir=folder / "plugins_registry", cdi_dir=folder / "cdi"
    )
    async with await Client.connect(str(cluster.node_kubeconfig(node))) as session:
        plugin = (
            BindingPlugin(driver, session, config)
            if isinstance(driver, NodeBindingDriver)
            else Plugin(driver, session, config)
        )
        await plugin.start()
        try:
            yield plugin
        finally:
            await plugin.stop()


@asynccontextmanager
async def up(data: Path, *arguments: str) -> AsyncIterator[Kubectl]:
    """Run `dradriver up` over a folder, and yield kubectl once the cluster answers."""
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
        await eventually(lambda: ready(kubectl, process), log, seconds=90)
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
    """Wait until an async predicate is true."""
    deadline = time.monotonic() + seconds
    while not await holds():
        assert time.monotonic() < deadline, log.read_text()[-4000:] if log else "not in time"
        await asyncio.sleep(0.1)


async def until(client: Client, done: Callable[[Mapping[str, Pod]], bool]) -> None:
    """Wait until the pods are as wanted, or until the test's time limit."""
    async with Cache(client, PODS, Pod) as pods, aclosing(pods.changes()) as changes:
        await pods.wait_synced()
        while not done(pods.items):
            await anext(changes)


def running(name: str) -> Callable[[Mapping[str, Pod]], bool]:
    """Return a function that checks whether a pod runs."""
    return lambda pods: (pod := pods.get(f"default/{name}")) is not None and pod.status.phase == "Running"
