"""The cache has the content of the server, after interruptions, 410 and own writes."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from aiohttp import web

from dradriver.kube import SLICES, Cache, ChangeKind, Client
from dradriver.kube.watch_events import WatchEvent, WatchKind, read_head
from dradriver.model.encoding.codec import from_builtins
from dradriver.model.resource.slices import ResourceSlice
from tests.unit.kube.scripted import Answer, ScriptedServer, status

PATH = "/apis/resource.k8s.io/v1/resourceslices"


def a_slice(name: str, version: int, uid: str = "") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "uid": uid or name, "resourceVersion": str(version)},
        "spec": {"driver": "d", "pool": {"name": "p", "generation": version, "resourceSliceCount": 1}},
    }


def value(name: str, version: int, uid: str = "") -> ResourceSlice:
    return from_builtins(ResourceSlice, a_slice(name, version, uid))


def listing(version: int, *items: dict[str, Any]) -> Answer:
    return Answer(body={"metadata": {"resourceVersion": str(version)}, "items": list(items)})


def watch(*events: tuple[str, dict[str, Any]], then: asyncio.Event | None = None) -> Answer:
    """Send events, then end, or stay open until `then` is set."""

    async def stream(response: web.StreamResponse) -> None:
        for kind, item in events:
            await response.write(json.dumps({"type": kind, "object": item}).encode() + b"\n")
        if then is not None:
            await then.wait()

    return Answer(stream=stream)


async def until(cache: Cache[ResourceSlice], condition: Callable[[], bool]) -> None:
    changed = asyncio.Event()
    unsubscribe = cache.subscribe(lambda *_: changed.set())
    while not condition():
        changed.clear()
        await changed.wait()
    unsubscribe()


def versions(cache: Cache[ResourceSlice]) -> dict[str, str]:
    return {key: item.metadata.resource_version for key, item in cache.items.items()}


async def test_list_then_watch(server: ScriptedServer, client: Client) -> None:
    server.serves("v1")
    done = asyncio.Event()
    events = watch(
        ("MODIFIED", a_slice("a", 3)), ("DELETED", a_slice("b", 4)), ("ADDED", a_slice("c", 5)), then=done
    )
    server.on("GET", PATH, listing(2, a_slice("a", 1), a_slice("b", 2)), events)
    async with Cache(client, SLICES, ResourceSlice, fields="spec.driver=d") as cache:
        await cache.wait_synced()
        assert versions(cache) == {"a": "1", "b": "2"}
        await until(cache, lambda: versions(cache) == {"a": "3", "c": "5"})
        done.set()
    first, second = server.calls("GET", PATH)
    assert first.query["fieldSelector"] == second.query["fieldSelector"] == "spec.driver=d"
    assert second.query["resourceVersion"] == "2"
    assert second.query["allowWatchBookmarks"] == "true"


async def test_every_list_is_a_consistent_read(server: ScriptedServer, client: Client) -> None:
    """Without a resource version, the server returns all writes that it has confirmed.

    With resource version 0, the server may return an older state. A new leader that lists so could miss an
    allocation of the leader before, and allocate the device to another claim.
    """
    server.serves("v1")
    done = asyncio.Event()
    expired = status(410, "Expired", "too old resource version")
    server.on("GET", PATH, listing(2, a_slice("a", 1)), expired, listing(3, a_slice("b", 3)), watch(then=done))
    async with Cache(client, SLICES, ResourceSlice) as cache:
        await until(cache, lambda: versions(cache) == {"b": "3"})
        done.set()
    lists = [asked.query for asked in server.calls("GET", PATH) if "watch" not in asked.query]
    assert len(lists) == 2
    assert not any(name.startswith("resourceVersion") for query in lists for name in query)


async def test_an_interrupted_watch_continues_from_the_last_bookmark(
    server: ScriptedServer, client: Client
) -> None:
    server.serves("v1")
    done = asyncio.Event()
    server.on(
        "GET",
        PATH,
        listing(2, a_slice("a", 1)),
        watch(("BOOKMARK", {"metadata": {"resourceVersion": "9"}})),
        status(503, "ServiceUnavailable"),
        watch(("MODIFIED", a_slice("a", 10)), then=done),
    )
    async with Cache(client, SLICES, ResourceSlice) as cache:
        await until(cache, lambda: versions(cache) == {"a": "10"})
        done.set()
    assert [asked.query.get("resourceVersion") for asked in server.calls("GET", PATH)] == [None, "2", "9", "9"]


async def test_410_lists_again(server: ScriptedServer, client: Client) -> None:
    server.serves("v1")
    done = asyncio.Event()
    expired = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    server.on(
        "GET",
        PATH,
        listing(2, a_slice("a", 1), a_slice("b", 2)),
        watch(("ERROR", expired)),
        listing(8, a_slice("a", 7)),
        watch(then=done),
    )
    async with Cache(client, SLICES, ResourceSlice) as cache:
        await until(cache, lambda: versions(cache) == {"a": "7"})
        done.set()


async def test_an_unreadable_object_is_ignored(server: ScriptedServer, client: Client) -> None:
    server.serves("v1")
    done = asyncio.Event()
    bad = a_slice("bad", 3) | {"spec": 5}
    server.on("GET", PATH, listing(2), watch(("ADDED", bad), ("ADDED", a_slice("a", 4)), then=done))
    async with Cache(client, SLICES, ResourceSlice) as cache:
        await until(cache, lambda: versions(cache) == {"a": "4"})
        done.set()


async def test_a_failing_server_at_start_is_retried(server: ScriptedServer, client: Client) -> None:
    done = asyncio.Event()
    path = "/apis/resource.k8s.io"
    server.on("GET", path, status(403, "Forbidden", "not yet"), Answer(body={"versions": [{"version": "v1"}]}))
    server.on("GET", PATH, listing(2, a_slice("a", 1)), watch(then=done))
    async with Cache(client, SLICES, ResourceSlice) as cache:
        await cache.wait_synced()
        assert cache.problem is None
        done.set()
    assert len(server.calls("GET", path)) == 2


async def test_changes_have_the_old_and_the_new_object(server: ScriptedServer, client: Client) -> None:
    server.serves("v1")
    done = asyncio.Event()
    server.on(
        "GET", PATH, listing(1), watch(("ADDED", a_slice("a", 2)), ("DELETED", a_slice("a", 3)), then=done)
    )
    async with Cache(client, SLICES, ResourceSlice) as cache:
        changes = cache.changes()
        first, second = await anext(changes), await anext(changes)
        await changes.aclose()
        done.set()
    assert (first.kind, first.key, first.old) == (ChangeKind.ADDED, "a", None)
    assert (second.kind, second.new) == (ChangeKind.DELETED, None)


class TestOwnWrites:
    """Own writes before the watch delivers them, without a server."""

    def cache(self, *listed: ResourceSlice, at: int = 5) -> Cache[ResourceSlice]:
        cache = Cache(None, SLICES, ResourceSlice)  # type: ignore[arg-type]
        self.relist(cache, *listed, at=at)
        return cache

    def relist(self, cache: Cache[ResourceSlice], *listed: ResourceSlice, at: int) -> None:
        cache._resource_version = str(at)
        cache._replace({item.metadata.name: item for item in listed})

    def event(self, cache: Cache[ResourceSlice], kind: WatchKind, item: ResourceSlice) -> None:
        head = read_head(json.dumps({"metadata": _meta(item)}).encode())
        cache._apply(WatchEvent(kind, head, item))

    async def test_a_failing_subscriber_does_not_stop_others(self) -> None:
        def broken(*change: object) -> None:
            raise RuntimeError

        cache, seen = self.cache(), []
        cache.subscribe(broken)
        cache.subscribe(lambda kind, old, new: seen.append(kind))
        cache.apply_written(value("a", 9))
        assert seen == [ChangeKind.ADDED]

    async def test_an_older_event_does_not_undo_a_write(self) -> None:
        cache = self.cache(value("a", 4))
        cache.apply_written(value("a", 9))
        self.event(cache, WatchKind.MODIFIED, value("a", 7))
        assert versions(cache) == {"a": "9"}
        self.event(cache, WatchKind.MODIFIED, value("a", 11))
        assert versions(cache) == {"a": "11"}

    async def test_a_write_that_was_undone_before_its_answer_stays_undone(self) -> None:
        cache = self.cache()
        self.event(cache, WatchKind.ADDED, value("a", 8))
        self.event(cache, WatchKind.DELETED, value("a", 9))
        cache.apply_written(value("a", 8))
        assert versions(cache) == {}

    async def test_an_older_event_does_not_restore_a_deleted_object(self) -> None:
        cache = self.cache(value("a", 4))
        cache.apply_deleted(value("a", 4))
        self.event(cache, WatchKind.MODIFIED, value("a", 6))
        assert versions(cache) == {}
        self.event(cache, WatchKind.DELETED, value("a", 7))
        self.event(cache, WatchKind.ADDED, value("a", 8, uid="another"))
        assert versions(cache) == {"a": "8"}

    async def test_a_late_deletion_of_a_predecessor_is_ignored(self) -> None:
        cache = self.cache(value("a", 4))
        cache.apply_deleted(value("a", 4))
        cache.apply_written(value("a", 9, uid="another"))
        self.event(cache, WatchKind.DELETED, value("a", 8))
        assert versions(cache) == {"a": "9"}

    async def test_a_write_that_removes_the_last_finalizer_does_not_outlive_the_object(self) -> None:
        cache = self.cache(value("a", 4))
        cache.apply_written(value("a", 9))
        self.event(cache, WatchKind.DELETED, value("a", 9))
        assert versions(cache) == {}

    async def test_an_older_list_keeps_newer_writes(self) -> None:
        cache = self.cache(value("a", 4), value("b", 4))
        cache.apply_written(value("a", 12))
        cache.apply_written(value("c", 13))
        cache.apply_deleted(value("b", 4))
        self.relist(cache, value("a", 4), value("b", 4), at=10)
        assert versions(cache) == {"a": "12", "c": "13"}


def _meta(item: ResourceSlice) -> dict[str, str]:
    meta = item.metadata
    return {"name": meta.name, "uid": meta.uid, "resourceVersion": meta.resource_version}
