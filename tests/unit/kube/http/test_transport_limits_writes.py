"""The time limit of a write, which the guard of a client determines."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
from aiohttp import web

from dradriver.errors import DraError
from dradriver.kube import PODS, Client, PatchKind, Unavailable
from tests.unit.kube.http.test_transport_retries import BODY, OK, POD
from tests.unit.kube.scripted import Answer, ScriptedServer, kubeconfig, status


async def test_a_write_without_an_answer_in_time_has_an_unknown_result(
    server: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    later = loop.time() + 600

    async def answer_never(_response: web.StreamResponse) -> None:
        """Let the time of the write pass, which has arrived."""
        clock.setattr(loop, "time", lambda: later)
        await asyncio.Event().wait()

    server.on("PUT", POD, Answer(stream=answer_never))
    async with await Client.connect(kubeconfig(tmp_path, server.url), timeout=3600) as client:
        with monkeypatch.context() as clock, pytest.raises(Unavailable, match="no answer in time") as caught:
            await client.with_guard(lambda: nullcontext(300)).replace(PODS, BODY, "n", into=dict)
    assert caught.value.sent
    assert len(server.asked) == 1


async def test_the_server_gives_up_a_write_when_the_client_does(server: ScriptedServer, client: Client) -> None:
    """kube-apiserver does not store a write after the time in this parameter."""
    server.on("PUT", POD, OK)
    server.on("GET", POD, OK)
    guarded = client.with_guard(lambda: nullcontext(12.5))
    await guarded.replace(PODS, BODY, "n", into=dict)
    await guarded.get(PODS, "p", "n", into=dict)
    await client.replace(PODS, BODY, "n", into=dict)
    assert [asked.query for asked in server.asked] == [{"timeout": "12500ms"}, {}, {}]


async def test_the_guard_is_asked_before_each_repetition(server: ScriptedServer, client: Client) -> None:
    limits = [20.0]

    @contextmanager
    def guard() -> Generator[float, None, None]:
        if not limits:
            raise DraError("another process leads")
        yield limits.pop()

    server.on("PATCH", POD, status(500, "InternalError"), OK)
    with pytest.raises(DraError, match="another process leads"):
        await client.with_guard(guard).patch(
            PODS, "p", "n", BODY, PatchKind.APPLY, into=dict, field_manager="m"
        )
    assert len(server.asked) == 1
