"""`dradriver top` in a pseudo-terminal, whose screen an emulator draws."""

import asyncio
import fcntl
import os
import pty
import struct
import sys
import termios
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pyte

from dradriver.kube import NODES, SLICES, Client
from dradriver.testing import builders

__all__ = ["ROOT", "TerminalProcess", "add_node", "open_terminal", "run_in_terminal"]

ROOT = Path(__file__).parents[4]


class TerminalProcess:
    """A process in a pseudo-terminal.

    Attributes:
        process: the process.
        written: all bytes that the process has written.
        first_modes: modes of the terminal before the process was started.
    """

    def __init__(self, process: asyncio.subprocess.Process, side: "_TerminalSide") -> None:
        self.process = process
        self.first_modes = side.first_modes
        self._side = side

    @property
    def written(self) -> bytes:
        return bytes(self._side.written)

    @property
    def text(self) -> str:
        """The screen, without blanks at the ends of lines."""
        return "\n".join(line.rstrip() for line in self._side.screen.display)

    @property
    def modes(self) -> list[Any]:
        """Modes of the terminal, such as echo, without the characters that belong to them."""
        return self._side.modes

    def press(self, keys: str) -> None:
        os.write(self._side.master, keys.encode())

    def resize(self, width: int, height: int) -> None:
        self._side.resize(width, height)

    async def until(self, is_reached: Callable[[str], bool]) -> str:
        """Wait until the text of the screen fulfills a condition, and return it."""
        while not is_reached(self.text):
            self._side.changed.clear()
            await self._side.changed.wait()
        return self.text

    async def shows(self, *texts: str) -> str:
        """Wait until the screen has all these texts, and return it."""
        return await self.until(lambda text: all(each in text for each in texts))

    async def ended(self) -> int:
        """Wait until the process has ended, and return its exit code."""
        return await self.process.wait()


class _TerminalSide:
    """The emulator's side of a pseudo-terminal."""

    def __init__(self, master: int, width: int, height: int) -> None:
        self.master = master
        self.screen = pyte.Screen(width, height)
        self.written = bytearray()
        self.changed = asyncio.Event()
        self._stream = pyte.ByteStream(self.screen)
        self.resize(width, height)
        self.first_modes = self.modes

    @property
    def modes(self) -> list[Any]:
        return termios.tcgetattr(self.master)[:4]

    def resize(self, width: int, height: int) -> None:
        self.screen.resize(height, width)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def read(self) -> None:
        data = os.read(self.master, 65536)
        self.written += data
        self._stream.feed(data)
        self.changed.set()


@asynccontextmanager
async def open_terminal(
    *command: str, width: int = 80, height: int = 24, environment: Mapping[str, str] | None = None
) -> AsyncIterator[TerminalProcess]:
    """Run a command of Python in a pseudo-terminal: `-m module`, or `-c program`."""
    master, slave = pty.openpty()
    side = _TerminalSide(master, width, height)
    loop = asyncio.get_running_loop()
    # The slave stays open here, so that the terminal exists after the process has ended.
    loop.add_reader(master, side.read)
    unset = {"NO_COLOR", "LINES", "COLUMNS"}
    inherited = {name: value for name, value in os.environ.items() if name not in unset}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *command,
        cwd=ROOT,
        # The type `linux` is the one that the emulator knows completely.
        env={**inherited, "TERM": "linux", "PYTHONPATH": os.pathsep.join(sys.path), **(environment or {})},
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    try:
        yield TerminalProcess(process, side)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        loop.remove_reader(master)
        os.close(slave)
        os.close(master)


def run_in_terminal(
    kubeconfig: Path,
    *arguments: str,
    width: int = 80,
    height: int = 24,
    environment: Mapping[str, str] | None = None,
) -> AbstractAsyncContextManager[TerminalProcess]:
    """Run `dradriver top` with these arguments in a pseudo-terminal; see `open_terminal`."""
    options = (f"--kubeconfig={kubeconfig}", *arguments)
    return open_terminal(
        "-m", "dradriver.cli", "top", *options, width=width, height=height, environment=environment
    )


async def add_node(kubeconfig: Path, name: str) -> None:
    """Create a node with two devices."""
    async with await Client.connect(str(kubeconfig)) as client:
        await client.create(NODES, builders.node(name), into=dict)
        devices = [builders.device(f"{name}-a"), builders.device(f"{name}-b")]
        await client.create(SLICES, builders.slice_(*devices, node_name=name), into=dict)
