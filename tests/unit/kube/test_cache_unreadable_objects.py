"""An invalid object or answer hides no other object, and never ends the cache."""

import asyncio
from typing import Any

import pytest

from dradriver.kube import CLAIMS, SLICES, Cache, Client
from dradriver.kube.backoff import Backoff
from dradriver.kube.client import Into
from dradriver.kube.errors import error_from
from dradriver.kube.watch_events import WatchEvent, WatchKind, read_head
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.slice_reader import SliceReader
from dradriver.model.resource.slices import ResourceSlice
from tests.nesting import LEVELS, TOO_DEEP
from tests.unit.kube.scripted import Answer, ScriptedServer
from tests.unit.kube.test_cache import PATH, a_slice, listing, until, value, versions, watch


def a_claim(name: str, version: int, deep: int = 0) -> str:
    """Return a claim's JSON text; the API server accepts 10,000 levels in parameters."""
    opaque = '{"a":' * deep + "{}" + "}" * deep
    config = f'[{{"opaque":{{"driver":"d","parameters":{opaque}}}}}]'
    meta = f'{{"name":"{name}","namespace":"n","uid":"{name}","resourceVersion":"{version}"}}'
    return f'{{"metadata":{meta},"spec":{{"devices":{{"config":{config}}}}}}}'


CLAIM_PATH = "/apis/resource.k8s.io/v1/resourceclaims"


@pytest.mark.parametrize("levels", LEVELS)
async def test_a_deeply_nested_claim_hides_no_other_in_a_list(
    server: ScriptedServer, client: Client, levels: int
) -> None:
    server.serves("v1")
    done = asyncio.Event()
    items = f"[{a_claim('deep', 1, deep=levels)},{a_claim('a', 2)}]"
    listed = f'{{"metadata":{{"resourceVersion":"3"}},"items":{items}}}'.encode()
    server.on("GET", CLAIM_PATH, Answer(body=listed), watch(then=done))
    async with Cache(client, CLAIMS, ResourceClaim) as cache:
        await cache.wait_synced()
        done.set()
        assert "n/a" in cache.items
        assert ("n/deep" in cache.items) <= (levels < TOO_DEEP)


@pytest.mark.parametrize("levels", LEVELS)
async def test_a_deeply_nested_claim_hides_no_other_in_a_watch(
    server: ScriptedServer, client: Client, levels: int
) -> None:
    server.serves("v1")
    done = asyncio.Event()
    lines = [
        f'{{"type":"ADDED","object":{a_claim("deep", 4, deep=levels)}}}',
        f'{{"type":"ADDED","object":{a_claim("a", 5)}}}',
    ]

    async def stream(response: Any) -> None:
        await response.write("".join(line + "\n" for line in lines).encode())
        await done.wait()

    server.on("GET", CLAIM_PATH, listing(3), Answer(stream=stream))
    async with Cache(client, CLAIMS, ResourceClaim) as cache:
        while "n/a" not in cache.items:
            await asyncio.sleep(0.01)
        done.set()
        assert ("n/deep" in cache.items) <= (levels < TOO_DEEP)


async def test_an_invalid_object_of_an_older_version_is_ignored(server: ScriptedServer, client: Client) -> None:
    server.serves("v1beta1")
    path = "/apis/resource.k8s.io/v1beta1/resourceslices"
    done = asyncio.Event()
    bad = {
        "metadata": {"name": "bad", "resourceVersion": "1"},
        "spec": {"devices": [{"name": "d", "basic": 5}]},
    }
    worse = bad | {"metadata": {"name": "worse", "resourceVersion": "4"}}
    server.on("GET", path, listing(3, bad), watch(("ADDED", worse), ("ADDED", a_slice("a", 5)), then=done))
    async with Cache(client, SLICES, ResourceSlice) as cache:
        await until(cache, lambda: versions(cache) == {"a": "5"})
        done.set()


async def test_an_event_of_an_unknown_type_is_ignored(server: ScriptedServer, client: Client) -> None:
    server.serves("v1")
    done = asyncio.Event()
    events = watch(("SURPRISE", a_slice("b", 4)), ("ADDED", a_slice("a", 5)), then=done)
    server.on("GET", PATH, listing(2), events)
    async with Cache(client, SLICES, ResourceSlice) as cache:
        await until(cache, lambda: versions(cache) == {"a": "5"})
        done.set()


async def test_a_defect_does_not_end_the_cache(
    server: ScriptedServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.serves("v1")
    done = asyncio.Event()
    server.on("GET", PATH, listing(2, a_slice("a", 1)), watch(then=done))
    list_objects = client.list
    calls: list[object] = []

    async def fail_once(*args: Any, **options: Any) -> Any:
        calls.append(args)
        if len(calls) == 1:
            raise ValueError("a defect")
        return await list_objects(*args, **options)

    monkeypatch.setattr(client, "list", fail_once)
    async with Cache(client, SLICES, ResourceSlice) as cache:
        await cache.wait_synced()
        assert versions(cache) == {"a": "1"}
        assert cache.problem is None
        done.set()


@pytest.mark.parametrize("kind", ["BOOKMARK", "ADDED"])
async def test_a_server_restored_from_a_backup_is_listed_again(
    server: ScriptedServer, client: Client, kind: str
) -> None:
    """Objects with a higher resource version than the restored state no longer exist."""
    server.serves("v1")
    done = asyncio.Event()
    server.on(
        "GET",
        PATH,
        listing(90, a_slice("a", 80), a_slice("lost", 85)),
        watch(("BOOKMARK", {"metadata": {"resourceVersion": "95"}})),
        watch((kind, a_slice("b", 10))),
        listing(10, a_slice("a", 5), a_slice("b", 10)),
        watch(("MODIFIED", a_slice("a", 11)), then=done),
    )
    async with Cache(client, SLICES, ResourceSlice) as cache:
        await until(cache, lambda: versions(cache) == {"a": "11", "b": "10"})
        cache.apply_written(value("c", 12))
        assert "c" in cache.items
        done.set()


async def test_own_deletions_are_forgotten_after_their_event() -> None:
    cache: Cache[ResourceSlice] = Cache(None, SLICES, ResourceSlice)  # type: ignore[arg-type]
    for number in range(100):
        old = value("a", 3 * number + 1, uid=f"uid-{number}")
        cache.apply_written(old)
        cache.apply_deleted(old)
        cache.apply_written(value("a", 3 * number + 3, uid=f"uid-{number + 1}"))
        head = read_head(
            b'{"metadata":{"name":"a","uid":"uid-%d","resourceVersion":"%d"}}' % (number, 3 * number + 2)
        )
        cache._apply(WatchEvent(WatchKind.DELETED, head, old))
    assert cache._deleted == set()


async def test_a_long_retry_after_is_limited_to_a_minute() -> None:
    cache: Cache[ResourceSlice] = Cache(None, SLICES, ResourceSlice)  # type: ignore[arg-type]
    cache.problem = error_from(429, b"", "GET /", "86400")
    assert cache._pause(Backoff(0.1, 5.0)) == 60


@pytest.mark.parametrize("into", [ResourceSlice, SliceReader().read])
async def test_an_unreadable_slice_is_reported_alike_by_a_type_and_a_decoder(
    server: ScriptedServer, client: Client, into: Into[ResourceSlice], caplog: pytest.LogCaptureFixture
) -> None:
    server.serves("v1")
    done = asyncio.Event()
    broken = a_slice("broken", 1) | {"spec": {"driver": 1}}
    server.on("GET", PATH, listing(3, broken, a_slice("a", 2)), watch(then=done))
    async with Cache(client, SLICES, into) as cache:
        await cache.wait_synced()
        done.set()
        assert list(cache.items) == ["a"]
    assert "resourceslices broken is ignored: ResourceSlice broken: spec.driver: Expected `str`" in caplog.text
