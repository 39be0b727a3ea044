"""A cache counts as current only if the server has shown that no change is missing."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from dradriver.kube import SLICES, Cache, Client
from dradriver.kube import cache as cache_module
from dradriver.model.resource.slices import ResourceSlice
from tests.unit.kube.scripted import ScriptedServer, status
from tests.unit.kube.test_cache import PATH, a_slice, listing, until, versions, watch

UNAVAILABLE = status(503, "ServiceUnavailable", "restarting")
EXPIRED = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}


async def asked(server: ScriptedServer, count: int) -> None:
    """Wait until the server has so many requests for slices."""
    while len(server.calls("GET", PATH)) < count:
        await asyncio.sleep(0.001)


async def test_an_accepted_watch_without_changes_ends_a_problem(
    server: ScriptedServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_module, "_HEALTHY_SECONDS", 0.0)
    server.serves("v1")
    done, problems = asyncio.Event(), []
    server.on("GET", PATH, listing(2, a_slice("a", 1)), UNAVAILABLE, watch(then=done))
    cache = Cache(client, SLICES, ResourceSlice, on_reopen=lambda: problems.append(str(cache.problem)))
    async with cache:
        while not problems:
            await asyncio.sleep(0.001)
        while cache.problem is not None:
            await asyncio.sleep(0.001)
        done.set()
    assert "restarting" in problems[0]


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(("ERROR", EXPIRED), id="410 inside the watch"),
        pytest.param(("BOOKMARK", {"metadata": {"resourceVersion": "1"}}), id="state from a backup"),
    ],
)
@pytest.mark.parametrize("failed_before", [True, False])
async def test_a_watch_that_is_refused_after_it_was_accepted_leaves_the_cache_not_current_until_the_list(
    server: ScriptedServer,
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    refusal: tuple[str, dict[str, Any]],
    failed_before: bool,
) -> None:
    monkeypatch.setattr(cache_module, "_HEALTHY_SECONDS", 3600.0)
    server.serves("v1")
    held, done = asyncio.Event(), asyncio.Event()
    second = replace(listing(8, a_slice("a", 7)), held=held)
    failures = [UNAVAILABLE] * failed_before
    server.on("GET", PATH, listing(2, a_slice("a", 2)), *failures, watch(refusal), second, watch(then=done))
    async with Cache(client, SLICES, ResourceSlice) as cache:
        await asked(server, 3 + failed_before)
        assert cache.problem is not None
        assert ("restarting" in str(cache.problem)) == failed_before
        held.set()
        await until(cache, lambda: versions(cache) == {"a": "7"})
        assert cache.problem is None
        done.set()


async def test_a_server_that_accepts_the_connection_and_does_not_answer_does_not_end_a_problem(
    server: ScriptedServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_module, "_HEALTHY_SECONDS", 0.0)
    server.serves("v1")
    held, done = asyncio.Event(), asyncio.Event()
    silent = replace(watch(("ADDED", a_slice("b", 9)), then=done), held=held)
    server.on("GET", PATH, listing(2, a_slice("a", 1)), UNAVAILABLE, silent)
    async with Cache(client, SLICES, ResourceSlice) as cache:
        await asked(server, 3)
        assert "restarting" in str(cache.problem)
        held.set()
        await until(cache, lambda: "b" in cache.items)
        assert cache.problem is None
        done.set()
