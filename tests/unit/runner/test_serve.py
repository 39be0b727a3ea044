"""A driver's process against an embedded cluster: it publishes, serves metrics and stops."""

import asyncio
import os
import re
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from dradriver.cluster import EmbeddedCluster
from dradriver.kube import SLICES
from dradriver.model.resource.slices import ResourceSlice
from tests.ports import reserve_port


@asynccontextmanager
async def loop_driver(cluster: EmbeddedCluster, *options: str, **variables: str) -> AsyncIterator[Process]:
    """Run `python -m dradriver_loop` on the cluster's node."""
    node = cluster.node_dir("node-1")
    settings = {
        "DRADRIVER_KUBECONFIG": str(cluster.node_kubeconfig("node-1")),
        "NODE_NAME": "node-1",
        "DRADRIVER_PLUGINS_DIR": str(node / "plugins"),
        "DRADRIVER_REGISTRY_DIR": str(node / "plugins_registry"),
        "DRADRIVER_CDI_DIR": str(node / "cdi"),
    }
    environment = {**os.environ, **settings, **variables}
    command = (sys.executable, "-m", "dradriver_loop", *options)
    process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=PIPE, stderr=PIPE)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def wait_published(cluster: EmbeddedCluster) -> None:
    client = cluster.client()
    listing = await client.list(SLICES, into=ResourceSlice)
    if not listing.items:
        await anext(client.watch(SLICES, into=ResourceSlice, resource_version=listing.resource_version))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_stops_the_process_and_slices_stay(
    cluster: EmbeddedCluster, number: signal.Signals
) -> None:
    async with loop_driver(cluster) as process:
        await wait_published(cluster)
        process.send_signal(number)
        _, output = await process.communicate()
    assert process.returncode == 0, output.decode()
    assert f"{number.name}: stopping" in output.decode()
    assert (await cluster.client().list(SLICES, into=ResourceSlice)).items


async def test_a_driver_may_start_programs_and_stderr_has_only_its_log(cluster: EmbeddedCluster) -> None:
    """Each kind of fork works beside grpcio's threads."""
    script = (
        "import asyncio, os, subprocess\n"
        "import dradriver as dra\n"
        "class Programs(dra.Driver):\n"
        "    name = 'programs.example.com'\n"
        "    async def discover(self):\n"
        "        for _ in range(10):\n"
        "            program = await asyncio.create_subprocess_exec('true')\n"
        "            assert await program.wait() == 0\n"
        "            subprocess.run(['true'], check=True)\n"
        "            subprocess.run(['true'], check=True, preexec_fn=os.getpid)\n"
        "        return [dra.Device('device-0')]\n"
        "    def prepare(self, claim): return {}\n"
        "dra.run(Programs)\n"
    )
    node = cluster.node_dir("node-1")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", script, "--kubeconfig", str(cluster.node_kubeconfig("node-1"))),
        *("--node-name=node-1", f"--plugins-dir={node}/plugins", f"--registry-dir={node}/plugins_registry"),
        stderr=PIPE,
    )
    try:
        await wait_published(cluster)
    finally:
        process.terminate()
        _, output = await process.communicate()
    assert process.returncode == 0
    lines = output.decode().splitlines()
    assert [line for line in lines if not re.match(r"\d{4}-\d\d-\d\d .* INFO ", line)] == []


async def test_metrics_are_served_on_the_configured_port(cluster: EmbeddedCluster) -> None:
    port = reserve_port()
    async with loop_driver(cluster, "--metrics-port", str(port)):
        await wait_published(cluster)
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{port}/metrics") as answer,
        ):
            text = await answer.text()
    assert 'dradriver_node_registered{driver="loop.example.com"} 1.0' in text


async def test_a_used_port_is_one_error_line(cluster: EmbeddedCluster) -> None:
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        async with loop_driver(cluster, "--metrics-port", port) as process:
            _, output = await process.communicate()
    assert process.returncode == 2
    assert f"Error: --metrics-port {port}: Address already in use" in output.decode()
    assert "Traceback" not in output.decode()


async def test_a_failed_discover_is_logged_and_retried(cluster: EmbeddedCluster) -> None:
    script = (
        "import dradriver as dra\n"
        "class Broken(dra.Driver):\n"
        "    name = 'broken.example.com'\n"
        "    def discover(self): raise OSError('no such card')\n"
        "    def prepare(self, claim): return {}\n"
        "dra.run(Broken)\n"
    )
    node = cluster.node_dir("node-1")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", script, "--kubeconfig", str(cluster.node_kubeconfig("node-1"))),
        *("--node-name=node-1", f"--plugins-dir={node}/plugins", f"--registry-dir={node}/plugins_registry"),
        stderr=PIPE,
    )
    assert process.stderr is not None
    output = ""
    while "discover" not in output:
        output = (await process.stderr.readline()).decode()
        assert output, "the process ended"
    process.terminate()
    await process.communicate()
    assert "discover() raised OSError: no such card" in output
    assert process.returncode == 0


async def test_an_invalid_device_is_rejected_with_the_authors_line(
    cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    program = tmp_path / "leds.py"
    program.write_text(
        "import dradriver as dra\n"
        "class Leds(dra.Driver):\n"
        "    name = 'led.example.com'\n"
        "    def discover(self): return [dra.Device('LED 0')]\n"
        "    def prepare(self, claim): return {}\n"
        "dra.run(Leds)\n"
    )
    node = cluster.node_dir("node-1")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(program), "--kubeconfig", str(cluster.node_kubeconfig("node-1"))),
        *("--node-name=node-1", f"--plugins-dir={node}/plugins", f"--registry-dir={node}/plugins_registry"),
        stderr=PIPE,
    )
    assert process.stderr is not None
    output = ""
    while "refused" not in output:
        output = (await process.stderr.readline()).decode()
        assert output, "the process ended"
    process.terminate()
    await process.communicate()
    assert "pool node-1: refused: devices[LED 0].name: 'LED 0' is not a DNS label" in output
    assert output.endswith(f"({program}:4)\n")


async def test_a_method_that_never_returns_does_not_block_the_end(cluster: EmbeddedCluster) -> None:
    script = (
        "import threading, dradriver as dra\n"
        "class Stuck(dra.Driver):\n"
        "    name = 'stuck.example.com'\n"
        "    def discover(self):\n"
        "        print('here', flush=True)\n"
        "        threading.Event().wait()\n"
        "    def prepare(self, claim): return {}\n"
        "dra.run(Stuck)\n"
    )
    node = cluster.node_dir("node-1")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", script, "--kubeconfig", str(cluster.node_kubeconfig("node-1"))),
        *("--node-name=node-1", f"--plugins-dir={node}/plugins", f"--registry-dir={node}/plugins_registry"),
        stdout=PIPE,
        stderr=PIPE,
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"here\n"
    process.terminate()
    try:
        _, output = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0
    assert "has not returned" in output.decode()
