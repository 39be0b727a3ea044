"""A local copy of one collection of the API server, kept current with list and watch.

The cache lists, watches, and lists again when its resource version is too old. A write of this process is
visible at once (`apply_written`, `apply_deleted`), and older watch events that arrive later do not undo the
write. The cache compares the resource versions of one resource as numbers. KEP-5504 guarantees that they can be
compared as numbers, and the versions of etcd have always been numbers.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType, TracebackType
from typing import Final, Generic, Protocol, Self, TypeAlias, TypeVar

from dradriver.errors import DraError
from dradriver.kube.backoff import Backoff
from dradriver.kube.client import Client, Into
from dradriver.kube.errors import Gone, TooManyRequests
from dradriver.kube.resources import Resource
from dradriver.kube.watch_events import WatchEvent, WatchKind
from dradriver.model.core.meta import ObjectMeta

__all__ = ["Cache", "Change", "ChangeKind"]

_log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = (0.1, 5.0)
"""The first and the longest wait, in seconds, between a failed list or watch and the next attempt."""
_HEALTHY_SECONDS: Final = 1.0
"""If a watch lasted this long, the server counts as healthy: a problem is over, and the next wait is the first
one again. A server that refuses the resource version inside an accepted watch does so at once."""
_LONGEST_PAUSE_SECONDS: Final = 60.0
"""Maximum seconds of `Retry-After` that the cache obeys."""


class HasMetadata(Protocol):
    """Any API object."""

    @property
    def metadata(self) -> ObjectMeta:
        """The object's metadata."""


T = TypeVar("T", bound=HasMetadata)


class ChangeKind(StrEnum):
    """The kind of a change in the cache."""

    ADDED = "added"
    MODIFIED = "modified"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """One change in the cache. `old` is None for an added object, `new` is None for a deleted object."""

    kind: ChangeKind
    key: str
    old: T | None
    new: T | None


Callback: TypeAlias = Callable[[ChangeKind, T | None, T | None], None]


def _key(meta: ObjectMeta) -> str:
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


def _parse_version(resource_version: str) -> int:
    return int(resource_version) if resource_version.isdigit() else 0


def _version_of(item: HasMetadata) -> int:
    return _parse_version(item.metadata.resource_version)


class Cache(Generic[T]):
    """The objects of one collection: `async with Cache(client, SLICES, ResourceSlice) as cache`.

    `async with` runs one task, which keeps the cache current. The task retries after failures of the API
    server. If an object cannot be decoded, it is logged and ignored, and the other objects stay available. The
    cache calls `on_reopen` each time a server accepts a watch, except for the first watch. `into` may also be a
    function that decodes objects; see `Client.list`.

    Attributes:
        items: a live view of the objects by `namespace/name`, or by name for cluster-scoped objects.
        problem: the reason why the cache is not current, or None. A problem is over after a list, after an
            event or bookmark, or if a server has accepted a watch and kept it open for a second. If the state
            of the API server is restored from a backup, only the next event or bookmark reveals it.
        interruptions: a count that grows whenever a watch ends or is opened again. If it has grown, the
            requests may now reach another server.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        into: Into[T],
        namespace: str = "",
        *,
        fields: str = "",
        labels: str = "",
        on_reopen: Callable[[], None] = lambda: None,
    ) -> None:
        self.problem: DraError | None = None
        self.interruptions = 0
        self._client = client
        self._resource = resource
        self._into = into
        self._namespace = namespace
        self._fields = fields
        self._labels = labels
        self._on_reopen = on_reopen
        self._items: dict[str, T] = {}
        self._deleted: set[str] = set()  # UIDs deleted by this process; the watch may still deliver them
        self._newest_version = 0  # the newest resource version that a list or watch has delivered
        self._resource_version = ""
        self._synced = asyncio.Event()
        self._answered = asyncio.Event()
        self._callbacks: list[Callback[T]] = []
        self._task: asyncio.Task[None] | None = None
        self._recovery: asyncio.TimerHandle | None = None  # ends a problem if the watch stays open

    @property
    def items(self) -> Mapping[str, T]:
        """The objects by `namespace/name`, or by name for cluster-scoped objects."""
        return MappingProxyType(self._items)

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(), name=f"cache of {self._resource.plural}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    @property
    def is_synced(self) -> bool:
        """Return whether the first list has been read."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Wait until the first list has been read."""
        await self._synced.wait()

    async def wait_answered(self) -> None:
        """Wait until the first list has been read, or has failed. `problem` is then the reason."""
        await self._answered.wait()

    def subscribe(self, callback: Callback[T]) -> Callable[[], None]:
        """Subscribe to every change from now on.

        Args:
            callback: called with the kind of the change, the object before the change (None if it was added),
                and the object after the change (None if it was deleted).

        Returns:
            A function that ends the subscription.
        """
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback)

    async def changes(self) -> AsyncGenerator[Change[T], None]:
        """Yield each change from now on. No change is lost."""
        queue: asyncio.Queue[Change[T]] = asyncio.Queue()

        def enqueue(kind: ChangeKind, old: T | None, new: T | None) -> None:
            present = new or old
            if present is not None:
                queue.put_nowait(Change(kind, _key(present.metadata), old, new))

        unsubscribe = self.subscribe(enqueue)
        try:
            while True:
                yield await queue.get()
        finally:
            unsubscribe()

    def apply_written(self, written: T) -> None:
        """Store the object that a write of this process returned, before the watch delivers it.

        Args:
            written: the object as the server returned it. It is ignored if the watch has already delivered this
                version or a newer one.
        """
        if _version_of(written) > self._newest_version:
            self._put(written)
        # Otherwise the watch has already delivered this version of the object and its later changes.

    def apply_deleted(self, deleted: T) -> None:
        """Remove an object that this process deleted, before the watch reports the deletion.

        Args:
            deleted: the object. A newer object of the same name has another UID, and is not removed.
        """
        current = self._items.get(_key(deleted.metadata))
        if current is not None and current.metadata.uid == deleted.metadata.uid:
            self._deleted.add(deleted.metadata.uid)
            self._remove(current)

    async def _run(self) -> None:
        backoff = Backoff(*_RETRY_SECONDS)
        while True:
            try:
                await self._list()
                self._record_recovery()
                while True:
                    await self._watch(backoff)
            except Gone as error:
                # Only a debug message, because it belongs to normal operation. Until the list is read, the
                # cache lacks changes.
                _log.debug("%s: the watch is too old, listing again", self._resource.plural)
                self.problem = self.problem or error
            except DraError as error:
                self._record_failure(error)
            except Exception as error:  # a defect must not end the cache: readers would not notice it
                _log.exception("%s: internal error, listing again", self._resource.plural)
                self._record_failure(DraError(f"{self._resource.plural}: internal error: {error!r}"))
            await asyncio.sleep(self._pause(backoff))

    async def _list(self) -> None:
        listing = await self._client.list(
            self._resource, self._namespace, into=self._into, labels=self._labels, fields=self._fields
        )
        for key, problem in listing.unreadable.items():
            _log.warning("%s %s is ignored: %s", self._resource.plural, key, problem)
        self._resource_version = listing.resource_version
        self._replace({_key(item.metadata): item for item in listing.items})
        self._synced.set()
        self._answered.set()

    async def _watch(self, backoff: Backoff) -> None:
        """Watch once. Wait before returning; the wait is longer after short watches, to prevent a busy loop."""
        started = time.monotonic()
        try:
            watch = self._client.watch(
                self._resource,
                self._namespace,
                into=self._into,
                resource_version=self._resource_version,
                fields=self._fields,
                labels=self._labels,
                on_open=self._handle_open,
            )
            async with aclosing(watch) as events:
                async for event in events:
                    self._apply(event)
                    self._record_recovery()
        except Gone:
            raise
        except DraError as error:
            self._record_failure(error)
        finally:
            if self._recovery is not None:
                self._recovery.cancel()
            self.interruptions += 1
            if time.monotonic() - started > _HEALTHY_SECONDS:
                backoff.reset()
        await asyncio.sleep(self._pause(backoff))

    def _handle_open(self) -> None:
        # A collection without changes would otherwise count as not current until the first bookmark. A watch
        # that is accepted can still fail at once with 410.
        self._recovery = asyncio.get_running_loop().call_later(_HEALTHY_SECONDS, self._record_recovery)
        if self.interruptions:
            # Between the end of the last watch and now, a server that is shutting down may have answered
            # requests.
            self.interruptions += 1
            self._on_reopen()

    def _pause(self, backoff: Backoff) -> float:
        requested = self.problem.retry_after if isinstance(self.problem, TooManyRequests) else 0.0
        return max(backoff.next(), min(requested, _LONGEST_PAUSE_SECONDS))

    def _apply(self, event: WatchEvent[T]) -> None:
        version = _parse_version(event.head.resource_version)
        if 0 < version < self._newest_version:
            raise Gone(f"{self._resource.plural}: the resource version of the watch decreased")
        self._resource_version = event.head.resource_version or self._resource_version
        self._newest_version = max(self._newest_version, version)
        if event.kind is WatchKind.BOOKMARK:
            return
        if event.problem is not None:
            _log.warning("%s %s is ignored: %s", self._resource.plural, event.head.key, event.problem)
        current = self._items.get(event.head.key)
        if event.kind is WatchKind.DELETED:
            self._deleted.discard(event.head.uid)
            # The object with this UID is gone, regardless of the version that this process wrote. If a write
            # removes the last finalizer, the write and the deletion have one resource version.
            if current is not None and current.metadata.uid == event.head.uid:
                self._remove(current)
            return
        if current is not None and 0 < version <= _version_of(current):
            return  # this process wrote this version or a newer one
        if event.object is None:
            if current is not None:
                self._remove(current)
        elif event.head.uid not in self._deleted:
            self._put(event.object)

    def _replace(self, listed: dict[str, T]) -> None:
        """Replace the content with a list. Keep objects that this process wrote after the list was read.

        If the list is older than the last watch event, the server's state was restored from a backup. In this
        case the whole content is replaced: the backup does not contain the writes of this process, although
        their versions are higher than the list's.
        """
        listed_version = _parse_version(self._resource_version)
        is_restored = 0 < listed_version < self._newest_version
        if is_restored:
            _log.warning(
                "%s: the state of the API server is older than before, using it", self._resource.plural
            )
        self._newest_version = listed_version if is_restored else max(self._newest_version, listed_version)
        self._deleted &= {item.metadata.uid for item in listed.values()}
        for key, current in list(self._items.items()):
            if key not in listed and (is_restored or _version_of(current) <= listed_version):
                self._remove(current)
        for key, item in listed.items():
            known = self._items.get(key)
            is_newer = is_restored or known is None or _version_of(known) <= listed_version
            if is_newer and item.metadata.uid not in self._deleted:
                self._put(item)

    def _put(self, item: T) -> None:
        key = _key(item.metadata)
        old = self._items.get(key)
        self._items[key] = item
        if old is None:
            self._notify(ChangeKind.ADDED, None, item)
        elif (
            old.metadata.resource_version != item.metadata.resource_version
            or old.metadata.uid != item.metadata.uid
        ):
            self._notify(ChangeKind.MODIFIED, old, item)

    def _remove(self, item: T) -> None:
        del self._items[_key(item.metadata)]
        self._notify(ChangeKind.DELETED, item, None)

    def _notify(self, kind: ChangeKind, old: T | None, new: T | None) -> None:
        for callback in tuple(self._callbacks):
            try:
                callback(kind, old, new)
            except Exception:  # a defect in one subscriber must not end the watch for other subscribers
                _log.exception("%s: a subscriber failed", self._resource.plural)

    def _record_failure(self, error: DraError) -> None:
        if self.problem is None or str(self.problem) != str(error):
            _log.warning("%s cannot be watched, retrying: %s", self._resource.plural, error)
        self.problem = error
        self._answered.set()

    def _record_recovery(self) -> None:
        if self.problem is not None:
            level = logging.DEBUG if isinstance(self.problem, Gone) else logging.INFO
            _log.log(level, "%s are watched again", self._resource.plural)
            self.problem = None
