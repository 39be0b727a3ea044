from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from dradriver.kube import Client
from dradriver.kube.http import transport
from tests.unit.kube.scripted import ScriptedServer, kubeconfig, serve


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with serve() as scripted:
        yield scripted


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> Iterator[float]:
    """The pauses between the attempts of a request. The last one is beyond its time limit and ends it."""
    left = iter((0.0, 0.0, 3600.0))
    monkeypatch.setattr(transport, "Backoff", lambda *_: SimpleNamespace(next=left.__next__))
    return left


@pytest.fixture
async def client(server: ScriptedServer, tmp_path: Path) -> AsyncIterator[Client]:
    async with await Client.connect(kubeconfig(tmp_path, server.url, token="t"), timeout=20) as connected:
        yield connected
