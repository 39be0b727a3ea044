from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dradriver.kube import Client
from tests.unit.kube.scripted import ScriptedServer, kubeconfig, serve


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with serve() as scripted:
        yield scripted


@pytest.fixture
async def client(server: ScriptedServer, tmp_path: Path) -> AsyncIterator[Client]:
    async with await Client.connect(kubeconfig(tmp_path, server.url, token="t"), timeout=20) as connected:
        yield connected
