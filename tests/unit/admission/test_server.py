"""The webhook over real TLS: reviews, probes, metrics, limits, and certificates that change."""

import asyncio
import io
import json
import logging
import ssl
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar

import aiohttp
import pytest

from dradriver.admission.server import LARGEST_BODY, PATH, Webhook
from dradriver.errors import UsageError
from dradriver.http_server.certificate import Certificate
from tests.unit.admission.certificates import Pair, make_pair
from tests.unit.admission.leds import GOOD, KNOWN, WRONG, LedConfig, LedDriver, claim, led, review_of


class Peer:
    """A client that trusts one certificate."""

    def __init__(self, session: aiohttp.ClientSession, webhook: Webhook, pair: Pair) -> None:
        self.webhook = webhook
        self._session = session
        self._trust = ssl.create_default_context(cadata=pair.certificate)

    async def post(self, body: bytes | io.BytesIO) -> tuple[int, str]:
        url = f"https://127.0.0.1:{self.webhook.port}{PATH}"
        async with self._session.post(url, data=body, ssl=self._trust) as response:
            return response.status, await response.text()

    async def get(self, path: str) -> tuple[int, str]:
        url = f"https://127.0.0.1:{self.webhook.port}{path}"
        async with self._session.get(url, ssl=self._trust) as response:
            return response.status, await response.text()


@asynccontextmanager
async def serving(certificate: Certificate, pair: Pair) -> AsyncIterator[Peer]:
    webhook = Webhook(KNOWN, certificate.context, host="127.0.0.1")
    await webhook.start()
    try:
        async with aiohttp.ClientSession() as session:
            yield Peer(session, webhook, pair)
    finally:
        await webhook.stop()


@pytest.fixture
async def peer(tmp_path: Path) -> AsyncIterator[Peer]:
    pair = make_pair("first")
    async with serving(Certificate(*pair.write(tmp_path)), pair) as peer:
        yield peer


async def test_an_invalid_claim_is_denied_over_https(peer: Peer) -> None:
    status, text = await peer.post(review_of(claim(WRONG)))
    assert status == 200
    assert json.loads(text)["response"]["allowed"] is False


async def test_an_invalid_review_gets_400_and_a_reason(peer: Peer) -> None:
    assert await peer.post(b"{") == (400, "not an AdmissionReview: AdmissionReview: Input data was truncated\n")


async def test_a_body_beyond_the_limit_gets_413(peer: Peer) -> None:
    status, _ = await peer.post(io.BytesIO(b" " * (LARGEST_BODY + 1)))
    assert status == 413


async def test_probes_are_answered(peer: Peer) -> None:
    assert [await peer.get("/healthz"), await peer.get("/readyz")] == [(200, "ok\n"), (200, "ok\n")]


class WaitingConfig(LedConfig):
    """A rule that waits for the test."""

    returns: ClassVar[threading.Event]

    def __post_init__(self) -> None:
        self.returns.wait()


async def test_liveness_fails_while_a_rule_does_not_return(tmp_path: Path) -> None:
    WaitingConfig.returns = threading.Event()
    pair = make_pair("first")
    context = Certificate(*pair.write(tmp_path)).context
    webhook = Webhook({LedDriver.name: (WaitingConfig,)}, context, host="127.0.0.1", max_review_seconds=0.05)
    await webhook.start()
    async with aiohttp.ClientSession() as session:
        peer = Peer(session, webhook, pair)
        stuck = asyncio.create_task(peer.post(review_of(claim(GOOD))))
        while (answer := await peer.get("/healthz"))[0] == 200:
            await asyncio.sleep(0.01)
        assert "a rule of a driver does not return" in answer[1]
        WaitingConfig.returns.set()
        assert (await stuck)[0] == 200
        assert await peer.get("/healthz") == (200, "ok\n")
    await webhook.stop()


async def test_reviews_are_counted_by_outcome(peer: Peer) -> None:
    for body in (review_of(claim()), review_of(claim(WRONG)), review_of(claim(WRONG)), b"{"):
        await peer.post(body)
    _, text = await peer.get("/metrics")
    for line in ('{outcome="allowed"} 1.0', '{outcome="denied"} 2.0', '{outcome="malformed"} 1.0'):
        assert f"dradriver_webhook_reviews_total{line}\n" in text


async def test_the_log_contains_no_configuration(peer: Peer, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        await peer.post(review_of(claim(led(brightness="hunter2", hunter2=1))))
        await peer.post(review_of(claim(led(brightness="hunter2"))).replace(b'"uid"', b'"id"'))
    assert "CREATE ResourceClaim default/desk is denied: 2 errors" in caplog.text
    assert "hunter2" not in caplog.text


def test_tls_before_1_2_is_rejected(tmp_path: Path) -> None:
    certificate = Certificate(*make_pair("first").write(tmp_path))
    assert certificate.context.minimum_version == ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize("server_name", ["localhost", None])
async def test_new_connections_get_the_new_certificate(tmp_path: Path, server_name: str | None) -> None:
    """This includes clients without a server name, like kube-apiserver with an IP address."""
    first, second = make_pair("first"), make_pair("second")
    certificate = Certificate(*first.write(tmp_path))
    async with serving(certificate, first) as peer:
        second.write(tmp_path)
        certificate.reload()
        url = f"https://{server_name or '127.0.0.1'}:{peer.webhook.port}/healthz"
        async with aiohttp.ClientSession() as session:
            trust = ssl.create_default_context(cadata=second.certificate)
            async with session.get(url, ssl=trust) as response:
                assert response.status == 200


async def test_an_incomplete_new_pair_keeps_the_previous_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = make_pair("first"), make_pair("second")
    certificate = Certificate(*first.write(tmp_path))
    async with serving(certificate, first) as peer:
        (tmp_path / "tls.crt").write_text(second.certificate)
        certificate.reload()
        (tmp_path / "tls.key").unlink()
        certificate.reload()
        assert await peer.get("/healthz") == (200, "ok\n")
    assert caplog.text.count("keeping the previous one") == 2


def test_unchanged_files_are_not_loaded_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    certificate = Certificate(*make_pair("first").write(tmp_path))
    with caplog.at_level(logging.INFO):
        certificate.reload()
    assert not caplog.records


@pytest.mark.parametrize("broken", ["absent", "garbage", "pair"])
def test_an_invalid_certificate_names_its_files(tmp_path: Path, broken: str) -> None:
    cert_file, key_file = make_pair("first").write(tmp_path)
    if broken == "absent":
        cert_file.unlink()
    elif broken == "garbage":
        key_file.write_text("no key")
    else:
        key_file.write_text(make_pair("second").key)
    with pytest.raises(UsageError, match=r"--tls-cert-file, --tls-private-key-file: .*tls\.(crt|key)"):
        Certificate(cert_file, key_file)


async def test_a_used_port_is_an_error(peer: Peer, tmp_path: Path) -> None:
    context = Certificate(*make_pair("second").write(tmp_path)).context
    with pytest.raises(UsageError, match="another process listens on it"):
        await Webhook(KNOWN, context, host="127.0.0.1", port=peer.webhook.port).start()


async def test_a_stopping_webhook_answers_and_is_not_ready(tmp_path: Path) -> None:
    pair = make_pair("first")
    async with serving(Certificate(*pair.write(tmp_path)), pair) as peer:
        peer.webhook.drain()
        assert await peer.get("/readyz") == (503, "stopping\n")
        assert (await peer.post(review_of(claim())))[0] == 200
