"""However far the connection had come: asyncio would lose its socket, and the server wait for the handshake."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dradriver.cluster.apiserver.server import ApiServer
from dradriver.kube import SLICES, Client
from dradriver.model.resource.slices import ResourceSlice


@pytest.fixture
async def kubeconfig(tmp_path: Path) -> AsyncIterator[str]:
    """Of a server with TLS, whose side of each connection is a task that this test may not leave behind."""
    server = ApiServer(tmp_path / "api")
    await server.start()
    server.write_kubeconfig(tmp_path / "kubeconfig", "admin")
    yield str(tmp_path / "kubeconfig")
    await server.stop()


async def cancelled_after(client: Client, turns: int) -> None:
    """A request that gets so many turns of the loop."""
    request = asyncio.create_task(client.list(SLICES, into=ResourceSlice))
    for _ in range(turns):
        await asyncio.sleep(0)
    request.cancel()
    await asyncio.gather(request, return_exceptions=True)


async def test_the_next_request_takes_it(kubeconfig: str) -> None:
    async with await Client.connect(kubeconfig) as client:
        for turns in range(16):
            await cancelled_after(client, turns)
        assert (await client.list(SLICES, into=ResourceSlice)).items == []


@pytest.mark.parametrize("turns", range(16))
async def test_the_end_of_the_client_waits_for_it(kubeconfig: str, turns: int) -> None:
    async with await Client.connect(kubeconfig) as client:
        await cancelled_after(client, turns)
