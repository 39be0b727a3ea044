"""A canceled request leaves no connection behind, at any step of its connection.

asyncio would lose the socket, and the server would wait for the handshake.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dradriver.cluster.apiserver.server import ApiServer
from dradriver.kube import SLICES, Client
from dradriver.model.resource.slices import ResourceSlice


@pytest.fixture
async def kubeconfig(tmp_path: Path) -> AsyncIterator[str]:
    """Yield the kubeconfig of a TLS server, whose side of each connection is a task that the test must end."""
    server = ApiServer(tmp_path / "api")
    await server.start()
    server.write_kubeconfig(tmp_path / "kubeconfig", "admin")
    yield str(tmp_path / "kubeconfig")
    await server.stop()


async def cancel_after(client: Client, turns: int) -> None:
    """Cancel a request after this number of iterations of the loop."""
    request = asyncio.create_task(client.list(SLICES, into=ResourceSlice))
    for _ in range(turns):
        await asyncio.sleep(0)
    request.cancel()
    await asyncio.gather(request, return_exceptions=True)


async def test_the_next_request_succeeds(kubeconfig: str) -> None:
    async with await Client.connect(kubeconfig) as client:
        for turns in range(16):
            await cancel_after(client, turns)
        assert (await client.list(SLICES, into=ResourceSlice)).items == []


@pytest.mark.parametrize("turns", range(16))
async def test_the_client_closes_all_connections(kubeconfig: str, turns: int) -> None:
    async with await Client.connect(kubeconfig) as client:
        await cancel_after(client, turns)
