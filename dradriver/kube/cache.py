"""A local copy of one collection of the API server, kept current with list and watch.

The cache lists, watches, and lists again when its resource version is too old. A write of this process is
visible at once (`apply_written`, `apply_deleted`): older watch events that arrive later do not undo it.
Resource versions of one resource are comparable numbers (KEP-5504; etcd's always were).
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType, TracebackType
from typing import Generic, Protocol, Self, TypeAlias, TypeVar

from dradriver.errors import DraError
from dradriver.kube.backoff import Backoff
from dradriver.kube.client import Client
from dradriver.kube.errors import Gone, TooManyRequests
from dradriver.kube.resources import Resource
from dradriver.kube.watching import WatchEvent, WatchKind
from dradriver.model.core.meta import ObjectMeta

__all__ = ["Cache", "Change", "ChangeKind"]

_log = logging.getLogger(__name__)

_LASTED_SECONDS = 1.0
"""After a watch that lasted this long, the server counts as healthy and the next watch starts without delay."""
_LONGEST_PAUSE_SECONDS = 60.0
"""The upper limit on a server's `Retry-After`."""


class HasMetadata(Protocol):
    """Any API object."""

    @property
    def metadata(self) -> ObjectMeta:
        """The object's metadata."""


T = TypeVar("T", bound=HasMetadata)


class ChangeKind(StrEnum):
    """The kind of a change of the cache."""

    ADDED = "added"
    MODIFIED = "modified"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """One change of the cache. `old` is None for an added object, `new` is None for a deleted one."""

    kind: ChangeKind
    key: str
    old: T | None
    new: T | None


Callback: TypeAlias = Callable[[ChangeKind, T | None, T | None], None]


def _key(meta: ObjectMeta) -> str:
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


def _number(resource_version: str) -> int:
    return int(resource_version) if resource_version.isdigit() else 0


class Cache(Generic[T]):
    """The objects of one collection: `async with Cache(client, SLICES, ResourceSlice) as cache`.

    The `async with` owns one task, which keeps the cache current. The task retries after failures of the API
    server. An object that can't be read is logged and left out; all others stay available. The cache calls
    `on_reopen` whenever a server has accepted another watch.

    Attributes:
        items: the objects by `namespace/name` (or name), a live view.
        problem: the reason why the cache is not current, or None.
        cuts: number of watches that have ended for any reason or were opened again. When it has grown, another
            server may answer.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        into: type[T],
        namespace: str = "",
        *,
        fields: str = "",
        labels: str = "",
        on_reopen: Callable[[], None] = lambda: None,
    ) -> None:
        self.problem: DraError | None = None
        self.cuts = 0
        self._client = client
        self._resource = resource
        self._into = into
        self._namespace = namespace
        self._fields = fields
        self._labels = labels
        self._on_reopen = on_reopen
        self._items: dict[str, T] = {}
        self._deleted: set[str] = set()  # deleted by this process; the watch may still show these UIDs
        self._seen = 0  # the newest resource version that list and watch have delivered
        self._resource_version = ""
        self._synced = asyncio.Event()
        self._callbacks: list[Callback[T]] = []
        self._task: asyncio.Task[None] | None = None

    @property
    def items(self) -> Mapping[str, T]:
        """The objects by key."""
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

    async def synced(self) -> None:
        """Wait until the first list has been read."""
        await self._synced.wait()

    def subscribe(self, callback: Callback[T]) -> Callable[[], None]:
        """Call `callback(kind, old, new)` on every change from now on.

        Returns:
            A function that ends the subscription.
        """
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback)

    async def changes(self) -> AsyncGenerator[Change[T], None]:
        """Yield each change from now on. No change between two of them is lost."""
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
        """Store the object that a write of this process returned, before the watch delivers it."""
        if _number(written.metadata.resource_version) > self._seen:
            self._put(written)
        # Otherwise the watch has already delivered this object and its later changes.

    def apply_deleted(self, deleted: T) -> None:
        """Remove an object that this process deleted, before the watch reports the deletion."""
        current = self._items.get(_key(deleted.metadata))
        if current is not None and current.metadata.uid == deleted.metadata.uid:
            self._deleted.add(deleted.metadata.uid)
            self._remove(current)

    async def _run(self) -> None:
        backoff = Backoff(0.1, 5.0)
        while True:
            try:
                await self._list()
                self._recovered()
                while True:
                    await self._watch(backoff)
            except Gone:
                _log.debug("%s: watch is too old, listing again", self._resource.plural)
            except DraError as error:
                self._failed(error)
            except Exception as error:  # a defect must not end the cache: its readers would not notice
                _log.exception("%s: a defect, listing again", self._resource.plural)
                self._failed(DraError(f"{self._resource.plural}: internal error: {error!r}"))
            await asyncio.sleep(self._pause(backoff))

    async def _list(self) -> None:
        listing = await self._client.list(
            self._resource, self._namespace, into=self._into, labels=self._labels, fields=self._fields
        )
        for key, problem in listing.unreadable.items():
            _log.warning("%s %s is left out: %s", self._resource.plural, key, problem)
        self._resource_version = listing.resource_version
        self._replace({_key(item.metadata): item for item in listing.items})
        self._synced.set()

    async def _watch(self, backoff: Backoff) -> None:
        """Watch once. Wait before returning if the watch was short, to prevent a busy loop."""
        started = time.monotonic()
        try:
            watch = self._client.watch(
                self._resource,
                self._namespace,
                into=self._into,
                resource_version=self._resource_version,
                fields=self._fields,
                labels=self._labels,
                on_open=self._opened,
            )
            async with aclosing(watch) as events:
                async for event in events:
                    self._recovered()
                    self._apply(event)
        except Gone:
            raise
        except DraError as error:
            self._failed(error)
        finally:
            self.cuts += 1
            if time.monotonic() - started > _LASTED_SECONDS:
                backoff.reset()
        await asyncio.sleep(self._pause(backoff))

    def _opened(self) -> None:
        if self.cuts:
            # A server that was shutting down may have answered between the end of the last watch and now.
            self.cuts += 1
            self._on_reopen()

    def _pause(self, backoff: Backoff) -> float:
        asked = self.problem.retry_after if isinstance(self.problem, TooManyRequests) else 0.0
        return max(backoff.next(), min(asked, _LONGEST_PAUSE_SECONDS))

    def _apply(self, event: WatchEvent[T]) -> None:
        version = _number(event.head.resource_version)
        if 0 < version < self._seen:
            raise Gone(f"{self._resource.plural}: the watch went back in time")
        self._resource_version = event.head.resource_version or self._resource_version
        self._seen = max(self._seen, version)
        if event.kind is WatchKind.BOOKMARK:
            return
        if event.problem is not None:
            _log.warning("%s %s is left out: %s", self._resource.plural, event.head.key, event.problem)
        current = self._items.get(event.head.key)
        if event.kind is WatchKind.DELETED:
            self._deleted.discard(event.head.uid)
            # The object with this UID is gone, whatever version this process wrote. The write that removes the
            # last finalizer returns the same resource version as the deletion.
            if current is not None and current.metadata.uid == event.head.uid:
                self._remove(current)
            return
        if current is not None and 0 < version <= _number(current.metadata.resource_version):
            return  # this process wrote a newer one
        if event.object is None:
            if current is not None:
                self._remove(current)
        elif event.head.uid not in self._deleted:
            self._put(event.object)

    def _replace(self, listed: dict[str, T]) -> None:
        """Replace the content by a list, except objects that this process wrote after that list was made.

        A list that is older than the watch comes from a server whose state was restored from a backup. Then the
        whole content is replaced: the writes of this process are not newer, only their numbers are higher.
        """
        moment = _number(self._resource_version)
        put_back = 0 < moment < self._seen
        if put_back:
            _log.warning(
                "%s: the API server's state is older than before, taken as it is", self._resource.plural
            )
        self._seen = moment if put_back else max(self._seen, moment)
        self._deleted &= {item.metadata.uid for item in listed.values()}
        for key, current in list(self._items.items()):
            if key not in listed and (put_back or _number(current.metadata.resource_version) <= moment):
                self._remove(current)
        for key, item in listed.items():
            known = self._items.get(key)
            newer = put_back or known is None or _number(known.metadata.resource_version) <= moment
            if newer and item.metadata.uid not in self._deleted:
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
            except Exception:  # a defect in one subscriber must not end the watch for the others
                _log.exception("%s: a subscriber failed", self._resource.plural)

    def _failed(self, error: DraError) -> None:
        if self.problem is None or str(self.problem) != str(error):
            _log.warning("%s can't be watched, trying again: %s", self._resource.plural, error)
        self.problem = error

    def _recovered(self) -> None:
        if self.problem is not None:
            _log.info("%s are watched again", self._resource.plural)
            self.problem = None
