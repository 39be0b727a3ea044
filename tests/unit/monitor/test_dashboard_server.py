"""The server of the dashboard: what it answers, and what a visitor may see."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import cast

import aiohttp
import pytest
from msgspec import json

from dradriver.errors import UsageError
from dradriver.monitor import LiveOverview
from dradriver.monitor.dashboard.request_rules import find_token, is_own_host
from dradriver.monitor.dashboard.streams import Pace, encode_update, stream_events
from dradriver.monitor.dashboard.visibility import EVERYTHING, HIDDEN, Visibility, show_node, show_text
from dradriver.monitor.dashboard.visitors import NotAllowedError, NotAuthenticatedError
from dradriver.overview import OverviewUpdate, Waiting
from tests.unit.monitor.still_overview import StillOverview, served
from tests.unit.overview.clusters import mig

LIMITED = Visibility(frozenset({"team"}), frozenset({"team"}), nodes=False)


class Tokens:
    """Visitors by their tokens."""

    async def check(self, token: str, _namespaces: Iterable[str]) -> Visibility:
        match token:
            case "admin":
                return EVERYTHING
            case "limited":
                return LIMITED
            case "nobody":
                raise NotAllowedError("nobody may not list resourceslices.resource.k8s.io")
            case _:
                raise NotAuthenticatedError("a bearer token is required")


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def read_until(answer: aiohttp.ClientResponse, event: str) -> str:
    text = ""
    while f"event: {event}\n" not in text:
        text += (await answer.content.readuntil(b"\n\n")).decode()
    return text


async def test_every_answer_has_the_headers_that_protect_the_page() -> None:
    async with served(StillOverview(mig())) as url, aiohttp.ClientSession() as session:
        for path in ("", "main.js", "palette.css", "missing.js", "api/node?name=none", "livez"):
            async with session.get(f"{url}/{path}") as answer:
                policy = answer.headers["Content-Security-Policy"]
                assert "unsafe" not in policy
                assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
                assert "frame-ancestors 'none'" in policy
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
                assert not answer.cookies


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_methods_that_write_are_refused(method: str) -> None:
    async with served(StillOverview(mig())) as url, aiohttp.ClientSession() as session:
        for path in ("", "api/events"):
            async with session.request(method, f"{url}/{path}") as answer:
                assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")


async def test_a_page_of_another_site_that_rebinds_its_name_gets_nothing() -> None:
    headers = {"Host": "evil.example.com"}
    async with (
        served(StillOverview(mig())) as url,
        aiohttp.ClientSession() as session,
        session.get(f"{url}/api/events", headers=headers) as answer,
    ):
        assert answer.status == 421


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1:8765", "[::1]:8765", "127.9.9.9"])
def test_names_of_the_loopback_interface_are_accepted(host: str) -> None:
    assert is_own_host(host)


@pytest.mark.parametrize(
    "host", ["", "example.com", "127.0.0.1.example.com", "localhost.example.com:80", "10.0.0.1"]
)
def test_other_hosts_are_refused(host: str) -> None:
    assert not is_own_host(host)


def test_the_token_is_read_from_the_authorization_header() -> None:
    assert find_token("bearer abc ") == "abc"
    assert find_token("Basic abc") == ""
    assert find_token("") == ""


async def test_without_a_valid_token_the_page_is_served_but_no_data() -> None:
    async with served(StillOverview(mig()), Tokens()) as url, aiohttp.ClientSession() as session:
        async with session.get(f"{url}/") as answer:
            assert answer.status == 200
        for path in ("events", "node?name=node-1", "pool?driver=a&pool=b", "explain?kind=Pod&ref=a/b"):
            async with session.get(f"{url}/api/{path}") as answer:
                assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
            async with session.get(f"{url}/api/{path}", headers=bearer("nobody")) as answer:
                assert answer.status == 403


async def test_a_stream_sends_everything_and_then_what_changes() -> None:
    live = StillOverview(mig())
    async with (
        served(live) as url,
        aiohttp.ClientSession() as session,
        session.get(f"{url}/api/events") as answer,
    ):
        first = await read_until(answer, "status")
        assert '"name":"node-1"' in first
        assert '"name":"node-2"' in first
        later = replace(mig(), nodes={"node-2": mig().nodes["node-2"]})
        live.change(later, OverviewUpdate(nodes=frozenset({"node-1", "node-2"})))
        second = await read_until(answer, "lists")
        assert '"gone":["node-1"]' in second


async def test_visitors_do_not_see_names_of_namespaces_that_they_may_not_list() -> None:
    overview = replace(
        mig(),
        waiting=(
            Waiting("Pod", "default/secret-pod", None, "waits"),
            Waiting("Pod", "team/own-pod", None, "claim default/train holds gpu-0"),
        ),
    )
    async with served(StillOverview(overview), Tokens()) as url, aiohttp.ClientSession() as session:
        async with session.get(f"{url}/api/events", headers=bearer("limited")) as answer:
            text = await read_until(answer, "status")
        async with session.get(f"{url}/api/node?name=node-1", headers=bearer("limited")) as answer:
            text += await answer.text()
        assert "default/" not in text
        assert "team/own-pod" in text
        async with session.get(
            f"{url}/api/explain?kind=Pod&ref=default/secret-pod", headers=bearer("limited")
        ) as answer:
            assert answer.status == 404
        async with session.get(
            f"{url}/api/explain?kind=Pod&ref=team/own-pod", headers=bearer("limited")
        ) as answer:
            lines = json.decode(await answer.read())["lines"]
            assert lines == ["Pod team/own-pod waits", f"  node-1: gpu-0 is held by claim {HIDDEN}"]


def test_a_changed_node_is_sent_without_hidden_names() -> None:
    overview = mig()
    events = encode_update(OverviewUpdate(nodes=frozenset({"node-1"})), overview, LIMITED)
    assert b"default/" not in b"".join(events)


def test_the_state_and_labels_of_nodes_need_the_right_to_list_nodes() -> None:
    node = replace(mig().nodes["node-2"], labels={"zone": "a"})
    assert show_node(node, EVERYTHING) == node
    shown = show_node(node, LIMITED)
    assert (shown.is_ready, dict(shown.labels)) == (True, {})


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("claim default/train got gpu-0.", f"claim {HIDDEN} got gpu-0."),
        ("pod team/a holds it.", "pod team/a holds it."),
        ("other-team/a-1 and xteam/a", f"{HIDDEN} and {HIDDEN}"),
        ("pool gpu.example.com/node-1", "pool gpu.example.com/node-1"),
    ],
)
def test_names_in_text_are_hidden(text: str, shown: str) -> None:
    assert show_text(text, LIMITED) == shown
    assert show_text(text, EVERYTHING) == text


async def test_the_number_of_streams_is_limited_and_ended_streams_are_free_again() -> None:
    live = StillOverview(mig())
    async with served(live, max_streams=1) as url, aiohttp.ClientSession() as session:
        async with session.get(f"{url}/api/events") as first:
            await read_until(first, "status")
            async with session.get(f"{url}/api/events") as second:
                assert (second.status, second.headers["Retry-After"]) == (503, "10")
            live.end()
            await first.read()
        async with session.get(f"{url}/api/events") as third:
            await read_until(third, "status")


async def test_a_page_reports_why_the_overview_is_not_current() -> None:
    live = StillOverview(mig())
    async with (
        served(live) as url,
        aiohttp.ClientSession() as session,
        session.get(f"{url}/api/events") as answer,
    ):
        await read_until(answer, "status")
        live.problem = UsageError("the API server does not answer")
        live.missing = {"pods": "forbidden"}
        live.change(mig(), OverviewUpdate())
        text = await read_until(answer, "status")
        assert '"problem":"the API server does not answer"' in text
        assert '"missing":{"pods":"forbidden"}' in text


async def test_probes_report_whether_the_overview_is_current_but_not_why() -> None:
    live = StillOverview(mig())
    async with served(live) as url, aiohttp.ClientSession() as session:
        for problem, expected in (
            (None, (200, "ok\n")),
            (UsageError("10.0.0.1 does not answer"), (503, "the overview is not current\n")),
        ):
            live.problem = problem
            async with session.get(f"{url}/readyz") as answer:
                assert (answer.status, await answer.text()) == expected
            async with session.get(f"{url}/livez") as answer:
                assert answer.status == 200


class RevocableToken:
    """One token, which is valid until it is revoked."""

    def __init__(self) -> None:
        self.is_revoked = False

    async def check(self, _token: str, _namespaces: Iterable[str]) -> Visibility:
        if self.is_revoked:
            raise NotAuthenticatedError("the bearer token is not valid")
        return EVERYTHING


async def test_a_stream_ends_when_its_token_is_revoked() -> None:
    live, token = StillOverview(mig()), RevocableToken()
    async with served(live, token, pace=Pace(check=0)) as url, aiohttp.ClientSession() as session:
        async with session.get(f"{url}/api/events") as answer:
            await read_until(answer, "status")
            token.is_revoked = True
            live.change(mig(), OverviewUpdate(nodes=frozenset({"node-1"})))
            with pytest.raises(aiohttp.ClientError):
                await answer.content.read()
        async with session.get(f"{url}/api/events") as answer:
            assert answer.status == 401


async def test_a_visitor_whose_rights_change_gets_everything_again() -> None:
    rights = [EVERYTHING, EVERYTHING, LIMITED]

    class FewerRights:
        async def check(self, _token: str, _namespaces: Iterable[str]) -> Visibility:
            return rights.pop(0) if len(rights) > 1 else rights[0]

    live = StillOverview(mig())
    async with (
        served(live, FewerRights(), pace=Pace(check=0)) as url,
        aiohttp.ClientSession() as session,
        session.get(f"{url}/api/events") as answer,
    ):
        assert "default/train" in await read_until(answer, "status")
        live.change(mig(), OverviewUpdate(nodes=frozenset({"node-1"})))
        again = await read_until(answer, "status")
        assert again.startswith("event: begin\n")
        assert "default/train" not in again


async def test_a_visitor_who_does_not_read_is_disconnected() -> None:
    live = StillOverview(mig())

    async def check() -> Visibility:
        return EVERYTHING

    async def write(_event: bytes) -> None:
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await stream_events(cast(LiveOverview, live), check, write, Pace(write=0.01))
    assert live.readers == 0


async def test_a_disconnected_visitor_makes_room_for_another_one() -> None:
    """The first visitor never reads an answer that is larger than all buffers between the two."""
    large = replace(mig(), nodes={"node-1": replace(mig().nodes["node-1"], labels={"text": "x" * 2**25})})
    live = StillOverview(large)
    async with (
        served(live, max_streams=1, pace=Pace(write=0.2)) as url,
        aiohttp.ClientSession(read_bufsize=2**10) as session,
        session.get(f"{url}/api/events"),
    ):
        while True:
            async with session.get(f"{url}/api/events") as answer:
                if answer.status == 200:
                    return
                assert answer.status == 503
            await asyncio.sleep(0.01)
