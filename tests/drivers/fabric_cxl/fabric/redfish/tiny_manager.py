"""A manager of a few resources and scripted answers, for what the emulator does not do."""

import ssl
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from tests.drivers.fabric_cxl.emulator_process import ManagerFiles

V1 = "/redfish/v1"
TOKEN = "a-token-of-the-session"


Answer = Callable[[web.Request], web.StreamResponse | Awaitable[web.StreamResponse]]


def answer(status: int, body: Mapping[str, object] | None = None, **headers: str) -> Answer:
    """An answer; an underscore in the name of a header is a hyphen."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _: web.json_response(body or {}, status=status, headers=named)


def cut(request: web.Request) -> web.StreamResponse:
    """Break the connection instead of an answer."""
    assert request.transport is not None
    request.transport.close()
    return web.Response()


def link(path: str) -> dict[str, str]:
    return {"@odata.id": path}


def members(*paths: str) -> dict[str, Any]:
    return {"Members": [link(path) for path in paths], "Members@odata.count": len(paths)}


def small_fabric() -> dict[str, dict[str, Any]]:
    """One domain and one host."""
    entity = {
        "EntityRole": "Initiator",
        "EntityType": "RootComplex",
        "EntityLink": link(f"{V1}/Systems/s/Processors/1"),
    }
    return {
        f"{V1}/": {"Fabrics": link(f"{V1}/Fabrics"), "Chassis": link(f"{V1}/Chassis")},
        f"{V1}/Fabrics": members(f"{V1}/Fabrics/CXL"),
        f"{V1}/Fabrics/CXL": {
            "Id": "CXL",
            "FabricType": "CXL",
            "Endpoints": link(f"{V1}/Endpoints"),
            "Connections": link(f"{V1}/Connections"),
            "Switches": link(f"{V1}/Switches"),
        },
        f"{V1}/Endpoints": members(f"{V1}/Endpoints/h"),
        f"{V1}/Endpoints/h": {"Id": "h", "ConnectedEntities": [entity]},
        f"{V1}/Systems/s": {"UUID": "0000000A-0000-4000-8000-000000000001"},
        f"{V1}/Connections": members(),
        f"{V1}/Chassis": members(f"{V1}/Chassis/c"),
        f"{V1}/Chassis/c": {"Id": "c", "MemoryDomains": link(f"{V1}/Domains")},
        f"{V1}/Domains": members(f"{V1}/Domains/1"),
        f"{V1}/Domains/1": {
            "Id": "1",
            "AllowsMemoryChunkCreation": True,
            "MemorySizeMiB": 4096,
            "MemoryChunkIncrementMiB": 256,
            "MemoryChunks": link(f"{V1}/Chunks"),
        },
        f"{V1}/Chunks": members(),
    }


class TinyManager:
    """Serves `resources`; before that, the next of `answers` for a method and path."""

    def __init__(self, files: ManagerFiles) -> None:
        self.files = files
        self.resources = small_fabric()
        self.answers: dict[tuple[str, str], list[Answer]] = defaultdict(list)
        self.requests: list[tuple[str, str, Mapping[str, str]]] = []
        self.logins: list[dict[str, str]] = []
        self.url = ""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app)

    def count(self, method: str, path: str) -> int:
        return sum(each[:2] == (method, path) for each in self.requests)

    async def __aenter__(self) -> Self:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.files.certificate, self.files.key)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        port = self._runner.addresses[0][1]
        self.url = f"https://127.0.0.1:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request.method, request.path, dict(request.headers)))
        if scripted := self.answers[request.method, request.path]:
            found = scripted.pop(0)(request)
            return found if isinstance(found, web.StreamResponse) else await found
        if request.path == f"{V1}/SessionService/Sessions":
            self.logins.append(await request.json())
            headers = {"X-Auth-Token": TOKEN, "Location": f"{request.path}/1"}
            return web.json_response({}, status=201, headers=headers)
        body = self.resources.get(request.path)
        if body is None:
            return web.json_response({}, status=404)
        version = f'"{hash(repr(body))}"'
        if request.headers.get("If-None-Match") == version:
            return web.Response(status=304)
        return web.json_response(body, headers={"ETag": version})
