"""A server name can resolve to several addresses, of which some are not reachable."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from dradriver.kube import PODS, Client, Unavailable
from tests.unit.kube.scripted import Answer, ScriptedServer, kubeconfig

POD = "/api/v1/namespaces/n/pods/p"
UNUSED_ADDRESS = "127.0.0.2"


@pytest.fixture
async def client(server: ScriptedServer, tmp_path: Path) -> AsyncIterator[Client]:
    """Yield a client that connects to the server by name."""
    url = server.url.replace("127.0.0.1", "kubernetes.example.com")
    async with await Client.connect(kubeconfig(tmp_path, url), timeout=20) as connected:
        yield connected


def resolve_to(monkeypatch: pytest.MonkeyPatch, *hosts: str) -> None:
    """Resolve every name to these hosts."""

    async def resolve(_: str, port: int, **__: object) -> list[tuple[object, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port)) for host in hosts]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)


async def test_the_first_address_that_answers_is_used(
    server: ScriptedServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.on("GET", POD, Answer(body={"metadata": {"name": "p"}}))
    resolve_to(monkeypatch, UNUSED_ADDRESS, "127.0.0.1")
    assert await client.get(PODS, "p", "n", into=dict)


async def test_a_server_without_a_reachable_address_is_unavailable(
    client: Client, monkeypatch: pytest.MonkeyPatch, pauses: Iterator[float]
) -> None:
    resolve_to(monkeypatch, UNUSED_ADDRESS, "127.0.0.3")
    with pytest.raises(Unavailable, match="Connection refused") as caught:
        await client.create(PODS, {"metadata": {"name": "p"}}, "n", into=dict)
    assert not caught.value.sent
    assert not list(pauses)
