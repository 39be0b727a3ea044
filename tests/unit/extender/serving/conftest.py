from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dradriver.cluster.apiserver import ApiServer
from dradriver.kube import Client


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    server = ApiServer(tmp_path / "api")
    await server.start()
    server.write_kubeconfig(tmp_path / "kubeconfig")
    async with await Client.connect(str(tmp_path / "kubeconfig")) as client:
        yield client
    await server.stop()
