"""The emulator as a process of its own, and a client for it."""

import asyncio
import base64
import json
import os
import signal
import ssl
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

import dradriver_fabric_cxl
from dradriver_fabric_cxl.emulator.resources.paths import CONNECTIONS, DOMAINS, ENDPOINTS, link
from tests.unit.admission.certificates import make_pair

USER, PASSWORD = "admin", "correct horse"
AUTHORIZATION = {"Authorization": "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()}
CHUNKS = f"{DOMAINS}/domain-1/MemoryChunks"


@dataclass
class Answer:
    """The answer to a request: status, headers and JSON object ({} if it has none)."""

    status: int
    headers: Mapping[str, str]
    body: dict[str, Any]

    @property
    def message(self) -> str:
        """Name of the error in the Base registry."""
        return str(self.body["error"]["code"]).rpartition(".")[2]


@dataclass
class Client:
    """Sends requests, with basic authentication unless the headers have another."""

    session: aiohttp.ClientSession
    url: str

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        *,
        login: bool = True,
    ) -> Answer:
        sent = (AUTHORIZATION if login else {}) | dict(headers or {})
        url = self.url + path
        async with self.session.request(method, url, json=body, headers=sent) as response:
            content = await response.read()
            return Answer(response.status, response.headers, json.loads(content) if content else {})

    async def get(self, path: str) -> dict[str, Any]:
        answer = await self.send("GET", path)
        assert answer.status == 200, answer
        return answer.body

    async def members(self, path: str) -> list[str]:
        return [member["@odata.id"] for member in (await self.get(path))["Members"]]

    async def fail(self, **fault: Any) -> None:
        """Add a failure on demand."""
        answer = await self.send("POST", "/emulator/faults", fault, login=False)
        assert answer.status == 204, answer

    async def finish(self, answer: Answer) -> Answer:
        """Follow a task monitor to its end."""
        assert answer.status == 202, answer
        while answer.status == 202:
            await asyncio.sleep(0.01)
            answer = await self.send("GET", answer.headers["Location"])
        return answer

    async def make_chunk(self, name: str = "chunk", mebibytes: int = 256) -> str:
        """Create a chunk, and return its URI."""
        answer = await self.finish(await self.send("POST", CHUNKS, chunk(name, mebibytes)))
        assert answer.status == 201, answer
        return answer.headers["Location"]

    async def connect(self, chunk: str, host: str = "host-1") -> str:
        """Connect a chunk to a host, and return the connection's URI."""
        answer = await self.finish(await self.send("POST", CONNECTIONS, connection(chunk, host)))
        assert answer.status == 201, answer
        return answer.headers["Location"]


def chunk(name: str = "chunk", mebibytes: int = 256) -> dict[str, Any]:
    """Return a request for a chunk."""
    return {"Name": name, "Description": f"of {name}", "MemoryChunkSizeMiB": mebibytes}


def connection(chunk: str, host: str = "host-1", name: str = "connection") -> dict[str, Any]:
    """Return a request for a connection."""
    return {
        "Name": name,
        "ConnectionType": "Memory",
        "MemoryChunkInfo": [{"AccessCapabilities": ["Read", "Write"], "MemoryChunk": link(chunk)}],
        "Links": {"InitiatorEndpoints": [link(f"{ENDPOINTS}/{host}")]},
    }


@asynccontextmanager
async def open_client(url: str, certificate: Path) -> AsyncIterator[Client]:
    """Yield a client that trusts the emulator's certificate."""
    context = ssl.create_default_context(cafile=certificate)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
        yield Client(session, url)


@dataclass
class EmulatorProcess:
    """A folder with the files of an emulator, and its running process."""

    folder: Path
    options: list[str] = field(default_factory=list)
    hook: str = ""
    process: Process | None = None

    @property
    def calls(self) -> list[dict[str, Any]]:
        """What the hook was called with."""
        file = self.folder / "calls"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Client]:
        """Run the program, and end it with SIGTERM unless it has ended."""
        certificate, key = self._write_files()
        command = [sys.executable, "-m", "dradriver_fabric_cxl.emulator", "--port", "0"]
        command += ["--state", str(self.folder / "state.json"), "--cert", str(certificate), "--key", str(key)]
        command += ["--user", USER, "--password-file", str(self.folder / "password"), *self.options]
        if self.hook:
            command += ["--hook", str(self.folder / "hook")]
        packages = Path(dradriver_fabric_cxl.__path__[0]).parent
        environment = os.environ | {"PYTHONPATH": str(packages)}
        self.process = await asyncio.create_subprocess_exec(
            *command, stdout=PIPE, env=environment, start_new_session=True
        )
        assert self.process.stdout is not None
        try:
            url = json.loads(await self.process.stdout.readline())["url"]
            async with open_client(url, certificate) as client:
                yield client
        finally:
            if self.process.returncode is None:
                self.process.terminate()
            await self.process.communicate()

    async def kill(self) -> None:
        """End the process and its hooks with SIGKILL."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        await self.process.wait()

    def _write_files(self) -> tuple[Path, Path]:
        (self.folder / "password").write_text(PASSWORD)
        if self.hook:
            script = self.folder / "hook"
            script.write_text(f'#!/bin/sh\ncall=$(cat)\necho "$call" >> {self.folder}/calls\n{self.hook}\n')
            script.chmod(0o755)
        return make_pair("emulator").write(self.folder)
