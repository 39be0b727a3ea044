"""An API server for each test, and a plain HTTP client."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from dradriver.cluster.apiserver import ApiServer
from tests.conformance.apiserver.suite import Api

StartServer = Callable[..., Awaitable[ApiServer]]
Connect = Callable[..., Api]


@pytest.fixture
async def start_server(tmp_path: Path) -> AsyncIterator[StartServer]:
    started: list[ApiServer] = []

    async def start(**options: Any) -> ApiServer:
        server = ApiServer(options.pop("data_dir", tmp_path / "data"), **options)
        await server.start()
        started.append(server)
        return server

    yield start
    for server in started:
        await server.stop()


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    async with aiohttp.ClientSession() as session:

        def make(server: ApiServer, user: str = "admin") -> Api:
            context = ssl.create_default_context(cafile=str(server.ca_file))
            token = server.kubeconfig(user)["users"][0]["user"]["token"]
            return Api(server.url, context, token, session)

        yield make


@pytest.fixture
async def server(start_server: StartServer) -> ApiServer:
    return await start_server()


@pytest.fixture
def api(server: ApiServer, connect: Connect) -> Api:
    return connect(server)
