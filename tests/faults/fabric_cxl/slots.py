"""The hosts' slots behind the emulator: its hook plugs memory into simulated nodes, and each change is judged.

The hook sends its call over a Unix socket to this process, and waits for the answer. So every connection and
every disconnection is judged at the moment at which the hardware changes.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any

from dradriver_fabric_cxl.fabric.tags import AttachmentIdentity, parse_identity
from dradriver_fabric_cxl.memory.simulator import MemoryFileStore, SimulatedMemory
from tests.faults.fabric_cxl.uses import Uses

_HOOK = """import socket, sys
with socket.socket(socket.AF_UNIX) as door:
    door.connect({path!r})
    door.sendall(sys.stdin.buffer.read())
    door.shutdown(socket.SHUT_WR)
    sys.exit(0 if door.recv(1) else 1)
"""


@dataclass
class Slots:
    """The slots of all hosts.

    Attributes:
        folder: folder of the hook and its socket.
        manager: the emulator's state file.
        memory: file with the simulated memory of a node, by the manager's ID of its host.
        uses: knows who uses what.
        violations: what must not happen, and has happened.
        connections: number of connections made.
        connected: (host, serial) by the chunk's URI.
    """

    folder: Path
    manager: Path
    memory: Mapping[str, Path]
    uses: Uses
    violations: list[str] = field(default_factory=list)
    connections: int = 0
    connected: dict[str, tuple[str, int]] = field(default_factory=dict)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def hook(self) -> Path:
        """The emulator's hook program."""
        return self.folder / "hook"

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[None]:
        """Answer the hook."""
        path = str(self.folder / "slots.sock")
        program = self.folder / "hook.py"
        program.write_text(_HOOK.format(path=path))
        # A shell starts it, because the path of an interpreter in a first line must not have spaces.
        self.hook.write_text(f"#!/bin/sh\nexec {quote(sys.executable)} -IS {quote(str(program))}\n")
        self.hook.chmod(0o755)
        server = await asyncio.start_unix_server(self._answer, path)
        try:
            yield
        finally:
            server.close()
            async with self._turn:  # the calls that have begun end first
                pass

    def list_plugged(self) -> list[str]:
        """Return the host of each plugged memory."""
        return [
            host for host, path in self.memory.items() for _ in SimulatedMemory(MemoryFileStore(path)).devices()
        ]

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            # A hook that was killed before it has sent its whole call changes nothing.
            if (call := await reader.read()).endswith(b"}"):
                async with self._turn:
                    await self._change(json.loads(call))
                writer.write(b"1")
            writer.close()
            await writer.wait_closed()
        except ConnectionError:
            pass  # the hook was killed

    async def _change(self, call: dict[str, Any]) -> None:
        chunk, host, serial = call["device"], call["host"], call["serial"]
        memory = SimulatedMemory(MemoryFileStore(self.memory[host]))
        if call["operation"] == "connect":
            where = self.connected.get(chunk, (host, serial))
            if where != (host, serial):
                self.violations.append(f"{chunk} is connected to {host}, and already to {where[0]}")
            if chunk not in self.connected:
                self.connections += 1
            self.connected[chunk] = (host, serial)
            await asyncio.to_thread(memory.plug, serial, call["bytes"])
        elif chunk in self.connected:
            # The same call comes again after a kill of the emulator; only the first one changes anything.
            if problem := await self._judge_pull(chunk, host, serial):
                self.violations.append(problem)
            del self.connected[chunk]
            await asyncio.to_thread(memory.unplug, serial)

    async def _judge_pull(self, chunk: str, host: str, serial: int) -> str:
        identity = await asyncio.to_thread(self._find_identity, chunk)
        if identity is None:
            return f"{chunk} is disconnected, and is of no claim"
        with MemoryFileStore(self.memory[host]).change() as state:
            if any(each.target == serial for each in state.regions):
                return f"{identity} is disconnected from {host}, which has a region of it"
        return await self.uses.judge_pull(identity)

    def _find_identity(self, chunk: str) -> AttachmentIdentity | None:
        body = json.loads(self.manager.read_bytes())["resources"][chunk]
        return parse_identity(body["Name"], body.get("Description"))
