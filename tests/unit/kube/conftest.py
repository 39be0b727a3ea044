from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from dradriver.kube import Client
from tests.unit.kube.scripted import ScriptedServer, kubeconfig


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    scripted = ScriptedServer()
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", scripted.handle)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
    scripted.url = f"http://127.0.0.1:{port}"
    yield scripted
    await runner.cleanup()


@pytest.fixture
async def client(server: ScriptedServer, tmp_path: Path) -> AsyncIterator[Client]:
    async with await Client.connect(kubeconfig(tmp_path, server.url, token="t"), timeout=5) as connected:
        yield connected
