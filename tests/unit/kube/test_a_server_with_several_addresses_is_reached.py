"""A name may stand for addresses on which nobody listens, or that nothing leads to."""

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dradriver.kube import PODS, Client, Unavailable
from tests.unit.kube.scripted import Answer, ScriptedServer, kubeconfig

POD = "/api/v1/namespaces/n/pods/p"
NOBODY = "127.0.0.2"


@pytest.fixture
async def client(server: ScriptedServer, tmp_path: Path) -> AsyncIterator[Client]:
    """Knows the server by a name."""
    url = server.url.replace("127.0.0.1", "kubernetes.example.com")
    async with await Client.connect(kubeconfig(tmp_path, url), timeout=5) as connected:
        yield connected


def resolves_to(monkeypatch: pytest.MonkeyPatch, *hosts: str) -> None:
    """Whatever name is looked up."""

    async def found(_: str, port: int, **__: object) -> list[tuple[object, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port)) for host in hosts]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", found)


async def test_the_first_address_that_answers_is_taken(
    server: ScriptedServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.on("GET", POD, Answer(body={"metadata": {"name": "p"}}))
    resolves_to(monkeypatch, NOBODY, "127.0.0.1")
    assert await client.get(PODS, "p", "n", into=dict)


async def test_a_server_that_answers_on_none_is_not_reachable(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolves_to(monkeypatch, NOBODY, "127.0.0.3")
    with pytest.raises(Unavailable, match="Connection refused") as caught:
        await client.create(PODS, {"metadata": {"name": "p"}}, "n", into=dict)
    assert not caught.value.sent
