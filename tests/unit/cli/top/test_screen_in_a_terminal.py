"""`dradriver top` in a terminal follows an API server, obeys keys and signals, and restores the terminal."""

import asyncio
import re
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from dradriver.cluster.apiserver import ApiServer
from dradriver.kube import CLAIMS, Client
from dradriver.model.resource.claim import ResourceClaim
from dradriver.testing import builders
from tests.unit.cli.top.terminal_process import TerminalProcess, add_node, open_terminal, run_in_terminal

pytestmark = pytest.mark.timeout(180)

_COLOR = re.compile(rb"\x1b\[(?:\d+;)*(?:3|4)[0-7]m")
_CURSOR_VISIBLE = b"\x1b[?25h"
_END_UPDATE = b"\x1b[?2026l"
_STOP_OUTPUT = "\x13"
"""Ctrl-S: stops the output of a terminal with flow control."""


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    """An API server with two nodes of two devices each."""
    running = ApiServer(tmp_path / "api")
    await running.start()
    await asyncio.to_thread(running.write_kubeconfig, tmp_path / "kubeconfig")
    for name in ("node-1", "node-2"):
        await add_node(tmp_path / "kubeconfig", name)
    yield running
    await running.stop()


@pytest.fixture
def kubeconfig(server: ApiServer, tmp_path: Path) -> Path:
    return tmp_path / "kubeconfig"


async def add_claim(kubeconfig: Path, name: str, *devices: str, node: str) -> None:
    held = builders.allocated(builders.claim(name=name), *devices, node_name=node)
    async with await Client.connect(str(kubeconfig)) as client:
        created = await client.create(CLAIMS, held, "default", into=ResourceClaim)
        changed = replace(held, metadata=created.metadata)
        await client.replace(CLAIMS, changed, "default", subresource="status", into=dict)


async def is_stopped(terminal: TerminalProcess) -> None:
    """Wait until the process is stopped. The kernel reports it only in this file."""
    stat = Path(f"/proc/{terminal.process.pid}/stat")
    while stat.read_text().rpartition(")")[2].split()[0] != "T":
        await asyncio.sleep(0.01)


async def test_the_screen_follows_the_cluster_keys_signals_and_the_size(kubeconfig: Path) -> None:
    """One process for all checks, because its start takes most of the time."""
    async with run_in_terminal(kubeconfig) as terminal:
        modes = terminal.first_modes
        await terminal.shows("> node-1", "  node-2", "2 nodes", "q quit")
        own_modes = terminal.modes
        assert own_modes != modes

        await add_claim(kubeconfig, "train", "node-2-a", node="node-2")
        await terminal.shows("[AA..]", "claim default/train got node-2-a on node-2")
        assert _COLOR.search(terminal.written)

        terminal.press("/train")
        await terminal.until(lambda text: "filter: train_" in text and "node-1 " not in text)
        terminal.press("\r\r")
        await terminal.shows("node node-2", "A  node-2-a  claim default/train", "Esc back")
        terminal.press("\x1b\x1b")
        await terminal.shows("> node-2", "  node-1")
        terminal.press("\x1b[A")
        await terminal.shows("> node-1", "  node-2")

        for _ in range(20):  # often, because the signal must also have an effect while the screen is written
            terminal.press(_STOP_OUTPUT + "\x1b[B")
            await terminal.shows("  node-1", "> node-2")
            terminal.press("\x1b[A")
            await terminal.shows("> node-1")

            terminal.process.send_signal(signal.SIGTSTP)
            await is_stopped(terminal)
            assert terminal.modes == modes
            frames = terminal.written.count(b"> node-1")
            terminal.process.send_signal(signal.SIGCONT)
            await terminal.until(lambda _: terminal.written.count(b"> node-1") > frames)  # noqa: B023
        while terminal.modes != own_modes:  # the frame may have been written before the process was stopped
            await asyncio.sleep(0.01)

        terminal.resize(150, 40)
        terminal.process.send_signal(signal.SIGWINCH)
        await terminal.shows("Esc all rows", "| node node-1")

        terminal.press("q")
        assert await terminal.ended() == 0
        assert terminal.modes == modes
        await terminal.until(
            lambda _: terminal.written.rfind(_CURSOR_VISIBLE) > terminal.written.rfind(_END_UPDATE)
        )


async def test_a_crash_restores_the_terminal_and_an_unknown_terminal_is_an_error_that_names_it() -> None:
    program = (
        "import os\n"
        "from dradriver.cli.top.terminal import Terminal\n"
        "from dradriver.errors import DraError\n"
        "known = os.environ['TERM']\n"
        "os.environ['TERM'] = 'abacus'\n"
        "try:\n"
        "    Terminal().__enter__()\n"
        "except DraError as error:\n"
        "    print(error)\n"
        "os.environ['TERM'] = known\n"
        "with Terminal():\n"
        "    raise RuntimeError('crash of the test')\n"
    )
    async with open_terminal("-c", program) as terminal:
        modes = terminal.first_modes
        assert await terminal.ended() == 1
        await terminal.shows("crash of the test")
        assert terminal.modes == modes
        assert b"this machine does not know the terminal type TERM='abacus'" in terminal.written
