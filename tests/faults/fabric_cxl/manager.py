"""The emulated manager, as the test sees it: what it has, and its failures on demand."""

import asyncio
import json
import random
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from dradriver_fabric_cxl.emulator.resources.paths import CONNECTIONS, last_part
from dradriver_fabric_cxl.fabric.tags import AttachmentIdentity, parse_identity
from tests.drivers.fabric_cxl.emulator_process import PASSWORD, USER, ManagerFiles
from tests.ports import reserve_port

_WORK: Final = ".*/(MemoryChunks|Connections)(/[^/]+)?"
"""Paths of everything that is made and removed."""


@dataclass(frozen=True)
class Chunk:
    """Memory on the manager.

    Attributes:
        identity: the allocation that it was made for.
        hosts: IDs of the hosts that enabled connections give it to.
    """

    identity: AttachmentIdentity | None
    hosts: tuple[str, ...]


@dataclass
class Manager:
    """The emulator's files, port and doors."""

    files: ManagerFiles
    port: int = field(default_factory=reserve_port)

    @property
    def state(self) -> Path:
        """The file with all that it has."""
        return self.files.folder / "state.json"

    @property
    def url(self) -> str:
        """Its address."""
        return f"https://127.0.0.1:{self.port}"

    def arguments(self, hook: Path, answers: str) -> list[str]:
        """Return the arguments of its program, for a small fabric of quick work.

        Args:
            hook: the program that changes the hardware.
            answers: how it answers requests for work.
        """
        files = self.files
        (password := files.folder / "administrator").write_text(PASSWORD)
        return [
            *("--port", str(self.port), "--state", str(self.state), "--hook", str(hook)),
            *("--cert", str(files.certificate), "--key", str(files.key)),
            *("--user", USER, "--password-file", str(password), "--answers", answers),
            *("--domain-mib", "3072", "3072", "--latency", "0.02", "--retry-after", "0", "--no-accelerator"),
        ]

    def settings(self) -> dict[str, str]:
        """Return how the driver of the pools reaches it."""
        return {
            "url": self.url,
            "caFile": str(self.files.certificate),
            "userFile": str(self.files.user),
            "passwordFile": str(self.files.password),
        }

    def read_chunks(self) -> list[Chunk]:
        """Return its memory. Its file is complete at each moment, also while it does not run."""
        resources = json.loads(self.state.read_bytes())["resources"] if self.state.exists() else {}
        hosts: dict[str, list[str]] = {}
        for path, body in resources.items():
            if path.startswith(f"{CONNECTIONS}/") and body["Status"]["State"] == "Enabled":
                chunk = body["MemoryChunkInfo"][0]["MemoryChunk"]["@odata.id"]
                host = last_part(body["Links"]["InitiatorEndpoints"][0]["@odata.id"])
                hosts.setdefault(chunk, []).append(host)
        return [
            Chunk(parse_identity(body["Name"], body.get("Description")), tuple(hosts.get(path, ())))
            for path, body in resources.items()
            if "/MemoryChunks/" in path
        ]

    async def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> bool:
        """Use a door of the emulator; return whether it was there. A canceled call ends before this returns."""
        call = asyncio.ensure_future(asyncio.to_thread(self._ask, method, path, body))
        try:
            return await asyncio.shield(call)
        except asyncio.CancelledError:
            await asyncio.wait({call})
            raise

    def _ask(self, method: str, path: str, body: dict[str, Any] | None) -> bool:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/emulator/{path}", data, method=method)
        context = ssl.create_default_context(cafile=self.files.certificate)
        try:
            with urllib.request.urlopen(request, context=context):
                return True
        except urllib.error.HTTPError:
            raise
        except OSError:
            return False


def pick_failure(chance: random.Random) -> dict[str, Any]:
    """Return a failure of the next requests that make or remove something, or that read anything."""
    kind = chance.choice(("task", "task", "answer", "answer", "refusal", "busy", "unreadable"))
    method, work = chance.choice(("POST", "POST", "DELETE")), chance.random() < 0.5
    failure: dict[str, Any] = {"path": _WORK, "method": method}
    if kind == "task":
        ends = chance.choice(("lost", "lost", "Exception", "Cancelled", "never ends"))
        return failure | {"task_state": ends, "work": work}
    if kind == "answer":
        return failure | {"lose_answer": True}
    if kind == "refusal":
        return failure | {"status": chance.choice((409, 507))}
    if kind == "busy":
        return failure | {
            "status": chance.choice((429, 503)),
            "retry_after": "0",
            "times": chance.randint(1, 3),
        }
    return {"path": "/redfish/.*", "method": "GET", "status": chance.choice((500, 503)), "retry_after": "0"}
