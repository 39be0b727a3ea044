"""`/healthz`, `/readyz` and `/metrics`, served by the process's own loop.

They use a few lines of own HTTP code, because the import of an HTTP server takes as long as the start of a
driver. The loop answers, so an answer proves that it runs. An answer does not wait for claims in progress.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, Self

from dradriver.aio.tasks import end
from dradriver.errors import UsageError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

__all__ = ["Endpoints", "Process"]

_log = logging.getLogger("dradriver.runner")

_HEAD_BYTES: Final = 16 * 1024
_SECONDS: Final = 5.0
"""Time limit for a client to send its request and to read the answer."""
_TEXT: Final = "text/plain; charset=utf-8"
_REASONS: Final[Mapping[int, str]] = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class Counting(Protocol):
    """Has metrics."""

    @property
    def registry(self) -> "CollectorRegistry":
        """Return the registry of all metrics."""


class Process(Protocol):
    """The source of the answers: a plugin on a node, a pool driver, or an embedded cluster."""

    @property
    def metrics(self) -> Counting:
        """Return the metrics."""

    @property
    def readiness(self) -> str:
        """Return why it is not ready; empty when it is."""

    async def liveness(self) -> str:
        """Return why it should be restarted; empty when it need not."""


class _Answer(NamedTuple):
    status: int
    body: bytes
    kind: str = _TEXT


class Endpoints:
    """Serves the endpoints: `async with Endpoints(process, host, port)`.

    Args:
        process: the source of the answers.
        host: the address to listen on. Empty: all of IPv4 and IPv6.
        port: the port. 0: nothing is served.
    """

    def __init__(self, process: Process, host: str, port: int) -> None:
        self._process = process
        self._host = host
        self._port = port
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._paths: Mapping[str, Callable[[str], Awaitable[_Answer]]] = {
            "/healthz": self._healthz,
            "/readyz": self._readyz,
            "/metrics": self._metrics,
        }

    async def __aenter__(self) -> Self:
        """Listen.

        Raises:
            UsageError: it cannot listen. The message names the flag.
        """
        if not self._port:
            return self
        host, port = self._host or None, self._port
        try:
            self._server = await asyncio.start_server(self._serve, host, port, limit=_HEAD_BYTES)
        except socket.gaierror as error:
            raise UsageError(f"--metrics-host {self._host}: {error.strerror}") from error
        except OSError as error:
            told = os.strerror(error.errno) if error.errno else str(error)
            where = f"--metrics-host {self._host}, " if self._host else ""
            raise UsageError(f"{where}--metrics-port {port}: {told}") from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
            await end(self._tasks)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - streams run it as one
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(_SECONDS):
                    head = await _head(reader)
                answer = await self._answer(head) if head else _Answer(400, b"no HTTP request\n")
                async with asyncio.timeout(_SECONDS):
                    writer.write(_written(answer, with_body=not head.startswith("HEAD ")))
                    await writer.drain()
        finally:
            writer.close()

    async def _answer(self, head: str) -> _Answer:
        first, _, headers = head.partition("\r\n")
        method, _, rest = first.partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        work = self._paths.get(path)
        if work is None:
            return _Answer(404, f"served here: {', '.join(self._paths)}\n".encode())
        if method not in {"GET", "HEAD"}:
            return _Answer(405, b"only GET and HEAD\n")
        try:
            return await work(_header(headers, "accept"))
        except Exception:  # a defect gets an answer too
            _log.exception("%s can't be answered", path)
            return _Answer(500, b"a defect; the log says more\n")

    async def _healthz(self, _accept: str) -> _Answer:
        return _said(await self._process.liveness())

    async def _readyz(self, _accept: str) -> _Answer:
        return _said(self._process.readiness)

    async def _metrics(self, accept: str) -> _Answer:
        from prometheus_client.exposition import choose_encoder  # noqa: PLC0415 - most on laptops serve none

        encoder, kind = choose_encoder(accept)
        # In a thread, because it reads the prepared state.
        return _Answer(200, await asyncio.to_thread(encoder, self._process.metrics.registry), kind)


def _said(problem: str) -> _Answer:
    return _Answer(503, f"{problem}\n".encode()) if problem else _Answer(200, b"ok\n")


async def _head(reader: asyncio.StreamReader) -> str:
    """Return the request's header lines; empty if there is no valid request."""
    try:
        return (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return ""


def _header(lines: str, name: str) -> str:
    for line in lines.split("\r\n"):
        key, _, value = line.partition(":")
        if key.strip().lower() == name:
            return value.strip()
    return ""


def _written(answer: _Answer, *, with_body: bool) -> bytes:
    lines = (
        f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}",
        f"Content-Type: {answer.kind}",
        f"Content-Length: {len(answer.body)}",
        "Cache-Control: no-store",
        "Connection: close",
    )
    return "\r\n".join((*lines, "", "")).encode() + (answer.body if with_body else b"")
