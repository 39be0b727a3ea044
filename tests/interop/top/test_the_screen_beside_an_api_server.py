"""`dradriver top` beside an API server in its own process: outages, and signals that end the screen."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from tests.unit.cli.top.terminal_process import ROOT, add_node, run_in_terminal

pytestmark = pytest.mark.interop

_COLOR = re.compile(rb"\x1b\[(?:\d+;)*(?:3|4)[0-7]m")


@asynccontextmanager
async def api_server(folder: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run an API server in its own process, on the port of its last run."""
    module = ("-m", "benchmarks.server", str(folder), "node-1")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, *module, cwd=ROOT, env=environment, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
        yield process
    finally:
        process.kill()
        await process.wait()


async def test_the_picture_is_stale_while_the_api_server_is_away(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "admin.kubeconfig"
    async with AsyncExitStack() as stack:
        async with api_server(tmp_path):
            await add_node(kubeconfig, "node-1")
            top = run_in_terminal(kubeconfig, environment={"NO_COLOR": "1"})
            terminal = await stack.enter_async_context(top)
            modes = terminal.modes
            await terminal.shows("> node-1")
        shown = await terminal.shows("! NOT CURRENT since")
        assert "> node-1" in shown
        async with api_server(tmp_path):
            await add_node(kubeconfig, "node-2")
            await terminal.until(lambda text: "NOT CURRENT" not in text and "node-2" in text)
            terminal.process.send_signal(signal.SIGTERM)
            assert await terminal.ended() == 128 + signal.SIGTERM
            assert terminal.modes == modes
            assert not _COLOR.search(terminal.written)


async def test_an_interrupt_quits_without_an_error(tmp_path: Path) -> None:
    async with api_server(tmp_path), run_in_terminal(tmp_path / "admin.kubeconfig") as terminal:
        modes = terminal.modes
        await terminal.shows("No devices.")
        terminal.process.send_signal(signal.SIGINT)
        assert await terminal.ended() == 0
        assert terminal.modes == modes
