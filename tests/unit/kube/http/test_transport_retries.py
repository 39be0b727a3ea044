"""The requests that are repeated after each kind of failure."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dradriver.kube import PODS, Client, Forbidden, PatchKind, TooManyRequests, Unauthorized, Unavailable
from tests.unit.kube.scripted import Answer, ScriptedServer, kubeconfig, status
from tests.unit.kube.test_cache import watch

PODS_PATH = "/api/v1/namespaces/n/pods"
POD = f"{PODS_PATH}/p"
OK = Answer(body={"metadata": {"name": "p"}})
BODY = {"metadata": {"name": "p", "namespace": "n"}}


@pytest.mark.parametrize("failure", [status(500, "InternalError"), Answer(503, "no leader"), Answer(cut=True)])
async def test_a_read_is_repeated(failure: Answer, server: ScriptedServer, client: Client) -> None:
    server.on("GET", POD, failure, OK)
    assert await client.get(PODS, "p", "n", into=dict)
    assert len(server.asked) == 2


@pytest.mark.parametrize("failure", [status(500, "InternalError"), Answer(cut=True)])
async def test_a_write_that_may_have_happened_is_not_repeated(
    failure: Answer, server: ScriptedServer, client: Client
) -> None:
    server.on("POST", PODS_PATH, failure, OK)
    with pytest.raises(Unavailable) as caught:
        await client.create(PODS, BODY, "n", into=dict)
    assert caught.value.sent
    assert len(server.asked) == 1


async def test_server_side_apply_and_delete_by_uid_are_repeated(server: ScriptedServer, client: Client) -> None:
    server.on("PATCH", POD, Answer(cut=True), OK)
    server.on("DELETE", POD, Answer(cut=True), status(404, "NotFound"))
    await client.patch(PODS, "p", "n", BODY, PatchKind.APPLY, into=dict, field_manager="m")
    assert not await client.delete(PODS, "p", "n", uid="u")
    assert len(server.asked) == 4


async def test_any_request_is_repeated_after_429(server: ScriptedServer, client: Client) -> None:
    busy = status(429, "TooManyRequests", "slow down")
    busy.headers["Retry-After"] = "0"
    server.on("PUT", POD, busy, OK)
    await client.replace(PODS, BODY, "n", into=dict)
    assert len(server.asked) == 2


async def test_a_wait_beyond_the_deadline_is_not_started(server: ScriptedServer, client: Client) -> None:
    busy = status(429, "TooManyRequests", "slow down")
    busy.headers["Retry-After"] = "60"
    server.on("GET", POD, busy)
    with pytest.raises(TooManyRequests) as caught:
        await client.get(PODS, "p", "n", into=dict)
    assert caught.value.retry_after == 60


async def test_a_rejection_is_final(server: ScriptedServer, client: Client) -> None:
    server.on("GET", POD, status(403, "Forbidden", "not yours"), OK)
    with pytest.raises(Forbidden, match="not yours"):
        await client.get(PODS, "p", "n", into=dict)


async def test_after_401_the_token_is_read_again_once(server: ScriptedServer, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old\n")
    server.on("GET", POD, status(401, "Unauthorized"), OK)
    async with await Client.connect(kubeconfig(tmp_path, server.url, tokenFile="token")) as client:
        await client._transport._connection.credentials.header()
        token.write_text("new\n")
        await client.get(PODS, "p", "n", into=dict)
    assert [asked.headers["Authorization"] for asked in server.asked] == ["Bearer old", "Bearer new"]


async def test_after_401_on_a_watch_the_token_is_read_again(server: ScriptedServer, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old\n")
    server.on("GET", "/api/v1/pods", status(401, "Unauthorized"), watch())
    async with await Client.connect(kubeconfig(tmp_path, server.url, tokenFile="token")) as client:
        with pytest.raises(Unauthorized):
            await anext(client.watch(PODS, into=dict, resource_version="1"))
        token.write_text("new\n")
        assert [event async for event in client.watch(PODS, into=dict, resource_version="1")] == []
    assert [asked.headers["Authorization"] for asked in server.asked] == ["Bearer old", "Bearer new"]


async def test_an_unreachable_server_is_one_error(tmp_path: Path, pauses: Iterator[float]) -> None:
    async with await Client.connect(kubeconfig(tmp_path, "http://127.0.0.1:1"), timeout=20) as client:
        with pytest.raises(
            Unavailable, match=r"GET /api/v1/.* at http://127.0.0.1:1: Connection refused"
        ) as caught:
            await client.get(PODS, "p", "n", into=dict)
    assert not caught.value.sent
    assert not list(pauses)
