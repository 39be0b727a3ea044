"""Mutual TLS: which clients may connect, also after the files have changed."""

import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from dradriver.errors import UsageError
from dradriver.http_server.certificate import Certificate
from dradriver.http_server.listener import Listener
from tests.unit.admission.certificates import Pair, make_pair

SERVER, CLIENT, OTHER = make_pair("server"), make_pair("client"), make_pair("other")


@pytest.fixture
def certificate(tmp_path: Path) -> Certificate:
    """Return the server's certificate; `CLIENT` may connect."""
    (tmp_path / "ca.crt").write_text(CLIENT.certificate)
    return Certificate(*SERVER.write(tmp_path), tmp_path / "ca.crt")


@asynccontextmanager
async def listening(certificate: Certificate) -> AsyncIterator[int]:
    async def hello(_request: web.Request) -> web.Response:
        return web.Response(text="hello")

    app = web.Application()
    app.router.add_get("/", hello)
    listener = Listener(app, host="127.0.0.1", context=certificate.context)
    await listener.start()
    try:
        yield listener.port
    finally:
        await listener.stop()


async def can_connect(port: int, pair: Pair | None, folder: Path, newest: ssl.TLSVersion | None = None) -> bool:
    """Return whether a client with this certificate gets an answer."""
    context = ssl.create_default_context(cadata=SERVER.certificate)
    if pair is not None:
        (own := folder / "client").mkdir(exist_ok=True)
        context.load_cert_chain(*pair.write(own))
    if newest is not None:
        context.minimum_version, context.maximum_version = ssl.TLSVersion.MINIMUM_SUPPORTED, newest
    async with aiohttp.ClientSession() as session:
        try:
            async with session.get(f"https://127.0.0.1:{port}", ssl=context) as response:
                return await response.text() == "hello"
        except aiohttp.ClientError:
            return False


async def test_only_clients_of_the_authority_are_answered(certificate: Certificate, tmp_path: Path) -> None:
    async with listening(certificate) as port:
        assert await can_connect(port, CLIENT, tmp_path)
        assert await can_connect(port, CLIENT, tmp_path, ssl.TLSVersion.TLSv1_2)
        assert not await can_connect(port, OTHER, tmp_path)
        assert not await can_connect(port, None, tmp_path)


async def test_a_new_authority_replaces_the_old_one(certificate: Certificate, tmp_path: Path) -> None:
    async with listening(certificate) as port:
        (tmp_path / "ca.crt").write_text(OTHER.certificate)
        certificate.reload()
        assert await can_connect(port, OTHER, tmp_path)
        assert not await can_connect(port, CLIENT, tmp_path)
        assert not await can_connect(port, CLIENT, tmp_path, ssl.TLSVersion.TLSv1_2)


async def test_an_invalid_authority_keeps_the_previous_one(
    certificate: Certificate, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening(certificate) as port:
        (tmp_path / "ca.crt").write_text("no certificate")
        with caplog.at_level(logging.WARNING):
            certificate.reload()
        assert f"{tmp_path}/ca.crt: must be a certificate and its private key, and certificates" in caplog.text
        assert await can_connect(port, CLIENT, tmp_path)
        assert not await can_connect(port, OTHER, tmp_path)


async def test_a_session_is_not_resumed(certificate: Certificate, tmp_path: Path) -> None:
    """The check of the client's certificate would be skipped, also after its authority was removed."""
    assert certificate.context.num_tickets == 0
    assert certificate.context.options & ssl.OP_NO_TICKET


def test_a_missing_authority_is_named_with_its_flag(tmp_path: Path) -> None:
    flags = "--tls-cert-file, --tls-private-key-file, --client-ca-file"
    with pytest.raises(UsageError, match=rf"^{flags}: {tmp_path}/ca.crt: No such file or directory$"):
        Certificate(*SERVER.write(tmp_path), tmp_path / "ca.crt")
