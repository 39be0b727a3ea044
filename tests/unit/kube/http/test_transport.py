"""The reuse of connections, and the time limits for a slow or silent API server."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest

from dradriver.kube import PODS, ApiError, Client, PatchKind, Unavailable
from dradriver.kube.config.connection import find_connection
from dradriver.kube.http.request import Request
from dradriver.kube.http.transport import Transport
from tests.unit.admission.certificates import make_pair
from tests.unit.kube.http.test_session_answers import CHUNKED, OK, POD, Raw, serving
from tests.unit.kube.scripted import Answer, ScriptedServer, kubeconfig

BODY = {"metadata": {"name": "p", "namespace": "n", "resourceVersion": "1"}}
ANSWER = OK % (len(POD), POD)


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


class Later:
    """A server that answers the first request of each connection, and then sends bytes or closes it."""

    def __init__(self, then: bytes | None) -> None:
        self.then = then
        self.asked: list[str] = []
        self.connections = 0
        self.done = asyncio.Event()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.asked.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(ANSWER)
        await writer.drain()
        await asyncio.sleep(0.05)
        if self.then is not None:
            writer.write(self.then)
            await writer.drain()
            self.done.set()
            await reader.read()
        writer.close()
        self.done.set()


async def client_at(stack: AsyncExitStack, server: Later, folder: Path) -> Client:
    url = await stack.enter_async_context(serving(server.handle))
    return await stack.enter_async_context(await Client.connect(kubeconfig(folder, url), timeout=10))


async def until_unusable(client: Client) -> None:
    """Wait until the client has seen the end of its idle connection, or the unexpected bytes on it."""
    connector = client._transport._session.connector
    assert connector is not None
    ((idle, _),) = next(iter(connector._conns.values()))
    while idle.is_connected() and not idle.should_close:
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("then", [None, b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"])
async def test_an_idle_connection_with_unexpected_bytes_is_not_reused(
    then: bytes | None, stack: AsyncExitStack, tmp_path: Path
) -> None:
    server = Later(then)
    client = await client_at(stack, server, tmp_path)
    assert await client.get(PODS, "p", "n", into=bytes) == POD
    await server.done.wait()
    await until_unusable(client)
    server.done.clear()
    assert await client.patch(PODS, "p", "n", {}, PatchKind.MERGE, into=bytes) == POD
    assert server.connections == 2
    await server.done.wait()
    await asyncio.sleep(0.01)


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
async def test_a_write_on_a_reused_connection_is_not_repeated_after_a_cut(
    method: str, stack: AsyncExitStack, tmp_path: Path
) -> None:
    server = Raw(ANSWER, b"", ANSWER)

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if server.connections:
            await server.handle(reader, writer)
            return
        answering = asyncio.ensure_future(server.handle(reader, writer))
        while len(server.asked) < 2:
            await asyncio.sleep(0.001)
        writer.transport.abort()
        await asyncio.wait([answering])

    url = await stack.enter_async_context(serving(handle))
    client = await stack.enter_async_context(await Client.connect(kubeconfig(tmp_path, url), timeout=10))
    await client.get(PODS, "p", "n", into=bytes)
    replace = partial(client.replace, PODS, BODY, "n", into=dict)
    delete = partial(client.delete, PODS, "p", "n")
    with pytest.raises(Unavailable) as caught:
        await (replace() if method == "PUT" else delete())
    assert caught.value.sent
    assert [asked.split()[0] for asked in server.asked] == ["GET", method]


async def test_a_slow_body_times_out(stack: AsyncExitStack, tmp_path: Path) -> None:
    async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(CHUNKED)
        try:
            while True:
                writer.write(b"1\r\n \r\n")
                await writer.drain()
                await asyncio.sleep(0.02)
        except ConnectionError:
            writer.close()

    url = await stack.enter_async_context(serving(trickle))
    client = await stack.enter_async_context(await Client.connect(kubeconfig(tmp_path, url), timeout=0.3))
    with pytest.raises(Unavailable, match="no answer in time"):
        await client.get(PODS, "p", "n", into=bytes)


async def test_a_missing_tls_handshake_times_out(stack: AsyncExitStack, tmp_path: Path) -> None:
    server = Raw()
    server.answers = [b""]
    url = await stack.enter_async_context(serving(server.handle))
    path = kubeconfig(tmp_path, url.replace("http:", "https:"))
    client = await stack.enter_async_context(await Client.connect(path, timeout=0.3))
    with pytest.raises(Unavailable, match="no answer in time"):
        await client.get(PODS, "p", "n", into=bytes)


@pytest.mark.parametrize("answer", [b"", CHUNKED + b"2\r\n{}\r\n"])
async def test_a_silent_watch_times_out(answer: bytes, stack: AsyncExitStack, tmp_path: Path) -> None:
    server = Raw(answer, b"")
    url = await stack.enter_async_context(serving(server.handle))
    transport = Transport(await find_connection(kubeconfig(tmp_path, url)), "tests", 10)
    stack.push_async_callback(transport.close)
    with pytest.raises(Unavailable, match="no answer in time"):
        async with transport.stream(Request("GET", "/api/v1/pods"), 0.2) as chunks:
            assert [chunk async for chunk in chunks] == []


async def test_a_large_body_is_sent_completely(server: ScriptedServer, client: Client) -> None:
    server.on("PUT", "/api/v1/namespaces/n/pods/p", Answer(body={"metadata": {"name": "p"}}))
    large = BODY | {"data": "x" * 0xF_FF00}
    await client.replace(PODS, large, "n", into=dict)
    [asked] = server.asked
    assert asked.json["data"] == large["data"]
    assert asked.headers["Content-Length"] == str(len(asked.body))


async def test_a_redirect_is_not_followed(server: ScriptedServer, client: Client) -> None:
    path = "/api/v1/namespaces/n/pods/p"
    server.on("GET", path, Answer(302, {}, {"Location": "/elsewhere"}))
    with pytest.raises(ApiError, match="HTTP 302"):
        await client.get(PODS, "p", "n", into=dict)
    assert [asked.path for asked in server.asked] == [path]


async def test_a_certificate_of_an_unknown_authority_is_an_error(stack: AsyncExitStack, tmp_path: Path) -> None:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(*make_pair("server").write(tmp_path))
    server = Raw(ANSWER)
    url = await stack.enter_async_context(serving(server.handle, tls))
    client = await stack.enter_async_context(
        await Client.connect(kubeconfig(tmp_path, url.replace("http:", "https:")))
    )
    with pytest.raises(
        ApiError, match=r"at https://.* \(kubeconfig .*\): .*certificate verify failed"
    ) as caught:
        await client.get(PODS, "p", "n", into=bytes)
    assert not isinstance(caught.value, Unavailable)
    assert server.asked == []


async def test_user_and_password_in_the_servers_url_are_not_sent(stack: AsyncExitStack, tmp_path: Path) -> None:
    server = Raw(ANSWER)
    url = await stack.enter_async_context(serving(server.handle))
    path = kubeconfig(tmp_path, url.replace("//", "//user:secret@"), token="t")
    client = await stack.enter_async_context(await Client.connect(path))
    assert await client.get(PODS, "p", "n", into=bytes) == POD
    assert "\r\nAuthorization: Bearer t\r\n" in server.asked[0]
