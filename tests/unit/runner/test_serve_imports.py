"""`dradriver run` on a node imports nothing of the control plane, the embedded cluster or the tables."""

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE

from dradriver.cluster import EmbeddedCluster
from tests.unit.runner.test_serve import wait_published

NEVER = {
    "aiohttp.web",
    "cryptography",
    "dradriver.admission",
    "dradriver.allocator",
    "dradriver.cel",
    "dradriver.cluster",
    "dradriver.conditions",
    "dradriver.control",
    "dradriver.testing",
    "kubernetes",
    "pytest",
    "re2",
    "rich",
}
"""Packages that a driver without binding conditions never needs; `re2` comes with CEL."""
COMMANDS = {
    "dradriver.cli.demonstration",
    "dradriver.cli.explanation",
    "dradriver.cli.get",
    "dradriver.cli.manifests",
    "dradriver.cli.new",
    "dradriver.cli.node",
    "dradriver.cli.selector",
    "dradriver.cli.simulation",
    "dradriver.cli.up",
    "dradriver.cli.validation",
    "dradriver.cli.webhook",
    "dradriver.cli.withdraw",
}


RUN = """
import atexit, sys
from dradriver.cli import main
atexit.register(lambda: print(*sys.modules))
main(prog_name="dradriver")
"""
"""The command, which prints the loaded modules at its end."""


async def test_a_driver_on_a_node_loads_neither_the_control_plane_nor_other_commands(
    cluster: EmbeddedCluster,
) -> None:
    node = cluster.node_dir("node-1")
    command = [
        *(sys.executable, "-c", RUN, "run", "loop", "--node-name=node-1"),
        f"--kubeconfig={cluster.node_kubeconfig('node-1')}",
        f"--plugins-dir={node / 'plugins'}",
        f"--registry-dir={node / 'plugins_registry'}",
        f"--cdi-dir={node / 'cdi'}",
    ]
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE)
    try:
        await wait_published(cluster)
        process.send_signal(signal.SIGTERM)
        printed, log = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, log.decode()
    loaded = set(printed.decode().split())
    assert {"dradriver.node.plugin", "dradriver.kube.http.transport", "dradriver.cli.run"} <= loaded
    assert loaded & (NEVER | COMMANDS) == set()
