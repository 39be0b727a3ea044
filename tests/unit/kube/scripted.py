"""An HTTP server with scripted answers, which records its requests."""

import asyncio
import json
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

Stream = Callable[[web.StreamResponse], Awaitable[None]]


@dataclass
class Asked:
    """One received request."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Answer:
    """One scripted answer: a status and a body, a closed connection, or a stream that the test writes.

    Attributes:
        held: the answer starts when this event is set.
    """

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    stream: Stream | None = None
    held: asyncio.Event | None = None


def status(code: int, reason: str, message: str = "", **details: Any) -> Answer:
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    return Answer(code, body | ({"details": details} if details else {}))


class ScriptedServer:
    """Returns the scripted answers of each method and path in order; the last one is repeated."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.script: dict[tuple[str, str], deque[Answer]] = defaultdict(deque)
        self.url = ""
        self.streams: list[asyncio.Future[None]] = []

    def on(self, method: str, path: str, *answers: Answer) -> None:
        self.script[method, path].extend(answers)

    def serves(self, *versions: str) -> None:
        body = {"kind": "APIGroup", "versions": [{"version": version} for version in versions]}
        self.on("GET", "/apis/resource.k8s.io", Answer(body=body))

    def calls(self, method: str, path: str) -> list[Asked]:
        return [asked for asked in self.asked if (asked.method, asked.path) == (method, path)]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.asked.append(Asked(request.method, request.path, dict(request.query), dict(request.headers), body))
        answers = self.script[request.method, request.path]
        if not answers:
            return web.json_response(status(404, "NotFound", "no script").body, status=404)
        answer = answers.popleft() if len(answers) > 1 else answers[0]
        if answer.held is not None:
            await answer.held.wait()
        if answer.cut:
            assert request.transport is not None
            request.transport.close()
        if answer.stream is not None:
            response = web.StreamResponse()
            await response.prepare(request)
            stream = asyncio.ensure_future(answer.stream(response))
            self.streams.append(stream)
            await asyncio.wait([stream])
            if not stream.cancelled():
                stream.result()
            return response
        if isinstance(answer.body, bytes):
            return web.Response(body=answer.body, status=answer.status, headers=answer.headers)
        return web.json_response(answer.body, status=answer.status, headers=answer.headers)


@asynccontextmanager
async def serve() -> AsyncIterator[ScriptedServer]:
    """Run a scripted server; at the end, waiting streams are canceled."""
    scripted = ScriptedServer()
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", scripted.handle)
    runner = web.AppRunner(app, shutdown_timeout=5)  # 0 would be no limit
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
        scripted.url = f"http://127.0.0.1:{port}"
        yield scripted
    finally:
        for stream in scripted.streams:
            stream.cancel()
        await runner.cleanup()


def kubeconfig(folder: Path, url: str, **user: str) -> str:
    """Write a kubeconfig for the server and return its path."""
    path = folder / "config"
    path.write_text(
        json.dumps(
            {
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
                "clusters": [{"name": "k", "cluster": {"server": url}}],
                "users": [{"name": "u", "user": user}],
            }
        )
    )
    return str(path)
