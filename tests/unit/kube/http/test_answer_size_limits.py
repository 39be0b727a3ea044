"""An answer that exceeds the size limit is abandoned and not requested again."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from dradriver.kube import Client
from dradriver.kube import client as client_module
from dradriver.kube.client import PatchKind
from dradriver.kube.errors import ApiError, Unavailable
from dradriver.kube.resources import PODS
from tests.unit.kube.http.test_session_answers import OK, serving
from tests.unit.kube.scripted import kubeconfig

CHUNK = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
POD = b'{"metadata":{"name":"p"}}'


class Endless:
    """A server whose answer does not end while the client reads it."""

    def __init__(self, head: str, body: bytes = b"", more: bytes = CHUNK) -> None:
        self.head = f"HTTP/1.1 {head}\r\n\r\n".encode() + body
        self.more = more
        self.requests = self.sent = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            self.requests += 1
            writer.write(self.head)
            while self.more:
                writer.write(self.more)
                self.sent += len(self.more)
                await writer.drain()
            await reader.read()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


async def client_of(stack: AsyncExitStack, server: Any, folder: Path) -> Client:
    url = await stack.enter_async_context(serving(server.handle))
    return await stack.enter_async_context(await Client.connect(kubeconfig(folder, url), timeout=20))


CHUNKED = "200 OK\r\nTransfer-Encoding: chunked"
BOMB = gzip.compress(bytes(2**27))


@pytest.mark.parametrize(
    "server",
    [
        pytest.param(Endless(CHUNKED), id="chunks"),
        pytest.param(Endless("200 OK"), id="until the connection ends"),
        pytest.param(Endless("200 OK\r\nContent-Length: 1000000000000", more=b""), id="a length"),
        pytest.param(
            Endless(f"200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(BOMB)}", BOMB, b""),
            id="compressed",
        ),
        pytest.param(
            Endless(
                "200 OK\r\nContent-Encoding: gzip",
                gzip.compress(b"")[:10],
                b"\x00\x00\x00\xff\xff" * 2000,
            ),
            id="compressed nothing",
        ),
    ],
)
async def test_an_endless_object_is_abandoned(server: Endless, stack: AsyncExitStack, tmp_path: Path) -> None:
    client = await client_of(stack, server, tmp_path)
    with pytest.raises(Unavailable, match=r"GET /api/v1/namespaces/n/pods/p at .*: .* longer than 16 MiB"):
        await client.get(PODS, "p", "n", into=bytes)
    assert server.requests == 1
    assert server.sent < 2**26


async def test_an_endless_list_is_abandoned(
    stack: AsyncExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "MAX_LIST_BYTES", 2**20)
    server = Endless(CHUNKED)
    client = await client_of(stack, server, tmp_path)
    with pytest.raises(Unavailable, match="longer than 1 MiB"):
        await client.list(PODS, into=dict)
    assert server.requests == 1


async def test_a_write_with_an_endless_answer_may_have_happened(stack: AsyncExitStack, tmp_path: Path) -> None:
    server = Endless(CHUNKED)
    client = await client_of(stack, server, tmp_path)
    with pytest.raises(Unavailable, match="longer than 16 MiB") as caught:
        await client.patch(PODS, "p", "n", {}, PatchKind.MERGE, into=bytes)
    assert caught.value.sent
    assert server.requests == 1


@pytest.mark.parametrize("status", ["404 Not Found", "500 Internal Server Error", "403 Forbidden"])
async def test_an_endless_error_answer_has_the_error_of_its_status(
    status: str, stack: AsyncExitStack, tmp_path: Path
) -> None:
    server = Endless(f"{status}\r\nTransfer-Encoding: chunked")
    client = await client_of(stack, server, tmp_path)
    with pytest.raises(ApiError, match=rf"HTTP {status[:3]}: .* longer than 1 MiB") as caught:
        await client.patch(PODS, "p", "n", {}, PatchKind.MERGE, into=bytes)
    assert caught.value.status == int(status[:3])


@pytest.mark.parametrize("more", [CHUNK, b"80\r\n%s\r\n" % (b"{" * 128) * 100])
async def test_an_endless_line_of_a_watch_is_abandoned(
    more: bytes, stack: AsyncExitStack, tmp_path: Path
) -> None:
    server = Endless(CHUNKED, more=more)
    client = await client_of(stack, server, tmp_path)
    with pytest.raises(Unavailable, match="a line of a watch is longer than 16 MiB"):
        await anext(client.watch(PODS, into=dict, resource_version="1"))


async def test_a_watch_may_be_longer_than_its_lines(stack: AsyncExitStack, tmp_path: Path) -> None:
    line = b'{"type":"ADDED","object":{"metadata":{"name":"' + b"p" * 50000 + b'"}}}\n'
    server = Endless(CHUNKED, more=b"%x\r\n%s\r\n" % (len(line), line))
    client = await client_of(stack, server, tmp_path)
    watch = client.watch(PODS, into=dict, resource_version="1")
    for _ in range(40):
        await anext(watch)
    await watch.aclose()


@pytest.mark.parametrize("compressed", [False, True])
async def test_an_answer_of_the_maximum_size_is_read(
    compressed: bool, stack: AsyncExitStack, tmp_path: Path
) -> None:
    body = POD + b" " * (2**24 - len(POD))
    answer = OK % (len(body), body)
    if compressed:
        data = gzip.compress(body)
        head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
        answer = head % len(data) + data
    server = Endless("", more=b"")
    server.head = answer
    client = await client_of(stack, server, tmp_path)
    assert await client.get(PODS, "p", "n", into=bytes) == body
