"""The framing of answers, the reuse of connections, and proxies."""

import asyncio
import base64
import gzip
import json
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from dradriver.errors import DraError
from dradriver.kube import PODS, Client, PatchKind, Unavailable
from tests.unit.admission.certificates import make_pair
from tests.unit.kube.scripted import kubeconfig

POD = b'{"metadata":{"name":"p"}}'
OK = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


class Raw:
    """A server that sends given bytes, one answer for each request, and counts connections."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.connections = 0
        self.url = ""
        self.then_close = False

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while self.answers:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                break
            self.asked.append(head.decode())
            writer.write(self.answers.pop(0) if self.answers else b"")
            if self.then_close:
                break
        writer.close()


@asynccontextmanager
async def serving(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    server = await asyncio.start_server(handler, "127.0.0.1", 0, ssl=tls)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


async def client_of(stack: AsyncExitStack, server: Raw, folder: Path, timeout: float = 10) -> Client:
    server.url = await stack.enter_async_context(serving(server.handle))
    return await stack.enter_async_context(
        await Client.connect(kubeconfig(folder, server.url), timeout=timeout)
    )


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(OK % (len(POD), POD), id="with a length"),
        pytest.param(CHUNKED + b"5\r\n" + POD[:5] + b"\r\n14\r\n" + POD[5:] + b"\r\n0\r\n\r\n", id="in chunks"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\nContent-Length: %d\r\n\r\n"
            % len(gzip.compress(POD, mtime=0))
            + gzip.compress(POD, mtime=0),
            id="packed",
        ),
    ],
)
async def test_the_connection_is_reused_after_a_complete_answer(
    answer: bytes, stack: AsyncExitStack, tmp_path: Path
) -> None:
    server = Raw(answer, answer)
    client = await client_of(stack, server, tmp_path)
    for _ in range(2):
        assert await client.get(PODS, "p", "n", into=bytes) == POD
    assert server.connections == 1


async def test_an_answer_without_a_length_ends_with_its_connection(
    stack: AsyncExitStack, tmp_path: Path
) -> None:
    server = Raw(*[b"HTTP/1.1 200 OK\r\n\r\n" + POD] * 2)
    server.then_close = True
    client = await client_of(stack, server, tmp_path)
    for _ in range(2):
        assert await client.get(PODS, "p", "n", into=bytes) == POD
    assert server.connections == 2


async def test_a_connection_with_connection_close_is_not_reused(stack: AsyncExitStack, tmp_path: Path) -> None:
    answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 25\r\n\r\n" + POD
    server = Raw(answer, answer)
    client = await client_of(stack, server, tmp_path)
    for _ in range(2):
        await client.get(PODS, "p", "n", into=bytes)
    assert server.connections == 2


async def test_an_unsolicited_answer_is_not_used_for_the_next_request(
    stack: AsyncExitStack, tmp_path: Path
) -> None:
    late = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"
    server = Raw(OK % (len(POD), POD) + late, OK % (len(POD), POD))
    client = await client_of(stack, server, tmp_path)
    for _ in range(2):
        assert await client.get(PODS, "p", "n", into=bytes) == POD
        await asyncio.sleep(0)
    assert server.connections == 2


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        CHUNKED + b"+5\r\nhello\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 2**18,
        b"",
    ],
)
async def test_an_invalid_answer_is_unavailable(answer: bytes, stack: AsyncExitStack, tmp_path: Path) -> None:
    server = Raw(answer)
    server.then_close = True
    client = await client_of(stack, server, tmp_path)
    with pytest.raises(Unavailable) as caught:
        await client.patch(PODS, "p", "n", {}, PatchKind.MERGE, into=bytes)
    assert caught.value.sent


async def test_a_canceled_request_closes_its_connection(stack: AsyncExitStack, tmp_path: Path) -> None:
    server = Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 25\r\n\r\n", OK % (len(POD), POD))
    client = await client_of(stack, server, tmp_path)
    asking = asyncio.create_task(client.get(PODS, "p", "n", into=bytes))
    while not server.asked:
        await asyncio.sleep(0.001)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    assert await client.get(PODS, "p", "n", into=bytes) == POD
    assert server.connections == 2


async def test_a_silent_server_times_out(stack: AsyncExitStack, tmp_path: Path) -> None:
    server = Raw(b"", b"", b"")
    client = await client_of(stack, server, tmp_path, timeout=0.2)
    with pytest.raises(Unavailable, match="no answer in time"):
        await client.get(PODS, "p", "n", into=bytes)


async def test_closing_the_client_ends_its_watches(stack: AsyncExitStack, tmp_path: Path) -> None:
    server = Raw(CHUNKED, b"")
    client = await client_of(stack, server, tmp_path)
    watching = asyncio.ensure_future(anext(client.watch(PODS, into=dict, resource_version="1")))
    while not server.asked:
        await asyncio.sleep(0.001)
    await client.close()
    with pytest.raises(Unavailable):
        await watching


async def test_a_plain_request_through_a_proxy_has_the_absolute_url(
    stack: AsyncExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Raw(OK % (len(POD), POD))
    url = await stack.enter_async_context(serving(server.handle))
    monkeypatch.setenv("http_proxy", url)
    monkeypatch.delenv("no_proxy", raising=False)
    path = kubeconfig(tmp_path, "http://kubernetes.example.com:8080/base")
    client = await stack.enter_async_context(await Client.connect(path))
    assert await client.get(PODS, "p", "n", into=bytes) == POD
    [asked] = server.asked
    assert asked.startswith(
        "GET http://kubernetes.example.com:8080/base/api/v1/namespaces/n/pods/p HTTP/1.1\r\n"
    )
    assert "\r\nHost: kubernetes.example.com:8080\r\n" in asked


async def test_a_proxy_that_rejects_the_connection_is_reported(
    stack: AsyncExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pauses: Iterator[float]
) -> None:
    server = Raw(*[b"HTTP/1.1 403 Forbidden\r\n\r\n"] * 99)
    url = await stack.enter_async_context(serving(server.handle))
    monkeypatch.setenv("https_proxy", url.replace("//", "//user:p%40ss@"))
    monkeypatch.delenv("no_proxy", raising=False)
    path = kubeconfig(tmp_path, "https://kubernetes.example.com")
    client = await stack.enter_async_context(await Client.connect(path, timeout=20))
    with pytest.raises(Unavailable, match=r"proxy .*kubernetes.example.com:443: 403 Forbidden"):
        await client.get(PODS, "p", "n", into=bytes)
    assert not list(pauses)
    assert server.asked[0].startswith("CONNECT kubernetes.example.com:443 HTTP/1.1\r\n")
    assert "Proxy-Authorization: Basic dXNlcjpwQHNz\r\n" in server.asked[0]


async def piped(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(2**16):
        writer.write(data)
    writer.close()


async def test_a_tls_server_behind_a_proxy_shows_its_own_certificate(
    stack: AsyncExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = make_pair("server")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(*pair.write(tmp_path))
    server = Raw(*[OK % (len(POD), POD)] * 2)
    inner = await stack.enter_async_context(serving(server.handle, tls))
    asked = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).decode())
        behind = await asyncio.open_connection("127.0.0.1", urlsplit(inner).port)
        writer.write(b"HTTP/1.1 200 Connection established\r\nVia: proxy\r\n\r\n")
        await asyncio.gather(piped(reader, behind[1]), piped(behind[0], writer))

    url = await stack.enter_async_context(serving(proxy))
    monkeypatch.setenv("https_proxy", url)
    monkeypatch.delenv("no_proxy", raising=False)
    authority = base64.b64encode(pair.certificate.encode()).decode()
    path = kubeconfig(tmp_path, "https://kubernetes.example.com")
    config = json.loads(Path(path).read_text())
    config["clusters"][0]["cluster"] |= {
        "certificate-authority-data": authority,
        "tls-server-name": "127.0.0.1",
    }
    Path(path).write_text(json.dumps(config))
    client = await stack.enter_async_context(await Client.connect(path))
    for _ in range(2):
        assert await client.get(PODS, "p", "n", into=bytes) == POD
    assert [head.partition("\r\n")[0] for head in asked] == ["CONNECT kubernetes.example.com:443 HTTP/1.1"]
    assert server.connections == 1
    assert server.asked[0].startswith("GET /api/v1/namespaces/n/pods/p HTTP/1.1\r\n")


async def test_an_unsupported_proxy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "socks5://proxy.example.com")
    monkeypatch.delenv("no_proxy", raising=False)
    with pytest.raises(DraError, match=r"kubeconfig .*: socks5://proxy.example.com: must be a URL"):
        await Client.connect(kubeconfig(tmp_path, "https://kubernetes.example.com"))


async def test_a_header_cannot_contain_another_header(stack: AsyncExitStack, tmp_path: Path) -> None:
    server = Raw(OK % (len(POD), POD))
    url = await stack.enter_async_context(serving(server.handle))
    path = kubeconfig(tmp_path, url, token="a\r\nX: y")
    client = await stack.enter_async_context(await Client.connect(path))
    with pytest.raises(DraError, match=r"kubeconfig .*: header Authorization: "):
        await client.get(PODS, "p", "n", into=bytes)
    assert server.asked == []
