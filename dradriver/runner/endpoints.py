"""Serve `/healthz`, `/readyz` and `/metrics` on the event loop of the process.

This module has its own minimal HTTP server, because importing an HTTP server would take as long as starting a
driver. The event loop answers, so an answer proves that the loop is not blocked. An answer does not wait for
claims in progress.
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

__all__ = ["Endpoints", "HasMetrics", "Process"]

_log = logging.getLogger("dradriver.runner")

_HEAD_BYTES: Final = 16 * 1024
_CLIENT_SECONDS: Final = 5.0
"""Time limit for a client to send its request, and again to read the answer."""
_TEXT: Final = "text/plain; charset=utf-8"
_REASONS: Final[Mapping[int, str]] = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class HasMetrics(Protocol):
    """An object with a registry of metrics."""

    @property
    def registry(self) -> "CollectorRegistry":
        """Return the registry of all metrics."""


class Process(Protocol):
    """What the endpoints report on: a plugin on a node, a pool driver, or an embedded cluster."""

    @property
    def metrics(self) -> HasMetrics:
        """Return the metrics."""

    @property
    def readiness(self) -> str:
        """Return why the process is not ready; empty if it is ready."""

    async def liveness(self) -> str:
        """Return why the process should be restarted; empty if it need not be restarted."""


class _Answer(NamedTuple):
    status: int
    body: bytes
    kind: str = _TEXT


class Endpoints:
    """Serves the endpoints: `async with Endpoints(process, host, port)`.

    Args:
        process: the source of the answers.
        host: the address to listen on. Empty: all of IPv4 and IPv6.
        port: the port. 0: the endpoints are not served.
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
            UsageError: the address cannot be used. The message names the flag.
        """
        if not self._port:
            return self
        host, port = self._host or None, self._port
        try:
            self._server = await asyncio.start_server(self._serve, host, port, limit=_HEAD_BYTES)
        except socket.gaierror as error:
            raise UsageError(f"--metrics-host {self._host}: {error.strerror}") from error
        except OSError as error:
            text = os.strerror(error.errno) if error.errno else str(error)
            prefix = f"--metrics-host {self._host}, " if self._host else ""
            raise UsageError(f"{prefix}--metrics-port {port}: {text}") from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
            await end(self._tasks)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - asyncio runs it in a task
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(_CLIENT_SECONDS):
                    head = await _read_head(reader)
                answer = await self._answer(head) if head else _Answer(400, b"not an HTTP request\n")
                async with asyncio.timeout(_CLIENT_SECONDS):
                    writer.write(_encode(answer, with_body=not head.startswith("HEAD ")))
                    await writer.drain()
        finally:
            writer.close()

    async def _answer(self, head: str) -> _Answer:
        first, _, headers = head.partition("\r\n")
        method, _, target = first.partition(" ")
        path = target.partition(" ")[0].partition("?")[0]
        handler = self._paths.get(path)
        if handler is None:
            return _Answer(404, f"not found; paths: {', '.join(self._paths)}\n".encode())
        if method not in {"GET", "HEAD"}:
            return _Answer(405, b"method not allowed; methods: GET, HEAD\n")
        try:
            return await handler(_header(headers, "accept"))
        except Exception:  # even a defect must be answered
            _log.exception("%s cannot be answered", path)
            return _Answer(500, b"internal error; see the log\n")

    async def _healthz(self, _accept: str) -> _Answer:
        return _to_answer(await self._process.liveness())

    async def _readyz(self, _accept: str) -> _Answer:
        return _to_answer(self._process.readiness)

    async def _metrics(self, accept: str) -> _Answer:
        from prometheus_client.exposition import choose_encoder  # noqa: PLC0415 - slow, and often not needed

        encoder, kind = choose_encoder(accept)
        # In a thread, because the metrics read the prepared state from the disk.
        return _Answer(200, await asyncio.to_thread(encoder, self._process.metrics.registry), kind)


def _to_answer(problem: str) -> _Answer:
    return _Answer(503, f"{problem}\n".encode()) if problem else _Answer(200, b"ok\n")


async def _read_head(reader: asyncio.StreamReader) -> str:
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


def _encode(answer: _Answer, *, with_body: bool) -> bytes:
    lines = (
        f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}",
        f"Content-Type: {answer.kind}",
        f"Content-Length: {len(answer.body)}",
        "Cache-Control: no-store",
        "Connection: close",
    )
    return "\r\n".join((*lines, "", "")).encode() + (answer.body if with_body else b"")
