"""A queue of keys: a key is queued at most once, has at most one worker, and is retried after a backoff.

The queue behaves like client-go's rate-limited work queue. It must be used from one event loop.
"""

import asyncio
import time
from collections.abc import Collection, Hashable
from typing import Generic, Literal, NamedTuple, TypeVar

from dradriver.control.queueing.metrics import QueueMetrics, WorkQueueMetrics
from dradriver.kube.backoff import Backoff

__all__ = ["ObjectKey", "WorkQueue"]

K = TypeVar("K", bound=Hashable)


class ObjectKey(NamedTuple):
    """The kind and `namespace/name` of an object; a cluster-scoped object has only a name."""

    kind: Literal["pod", "claim", "rule"]
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class WorkQueue(Generic[K]):
    """A queue of keys.

    If a key is added while it is processed, it returns to the queue afterwards. If a delayed key is added with
    a delay again, its first delay is never extended.
    """

    def __init__(self, first: float, limit: float) -> None:
        """Create an empty queue.

        Args:
            first: the first backoff of a key, in seconds.
            limit: the longest backoff, in seconds.
        """
        self._first = first
        self._limit = limit
        self._ready: asyncio.Queue[K] = asyncio.Queue()
        self._queued: set[K] = set()
        self._processing: set[K] = set()
        self._dirty: set[K] = set()
        self._backoffs: dict[K, Backoff] = {}
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._since: dict[K, float] = {}
        self._metrics: QueueMetrics | None = None

    def register_metrics(self, metrics: WorkQueueMetrics, name: str) -> None:
        """Record metrics of the queue from now on, with this name."""
        self._metrics = metrics.register_queue(name, lambda: len(self._queued), self._work_starts)

    def add(self, key: K) -> None:
        """Add a key to the queue now."""
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        if key in self._processing:
            self._dirty.add(key)
        elif key not in self._queued:
            self._queued.add(key)
            self._ready.put_nowait(key)
            if self._metrics is not None:
                self._metrics.count_add()
                self._since[key] = time.monotonic()

    def add_rate_limited(self, key: K) -> None:
        """Add a key after a backoff that doubles with each call, unless the key is queued or delayed."""
        if key in self._timers or key in self._queued:
            return
        if self._metrics is not None:
            self._metrics.count_retry()
        backoff = self._backoffs.setdefault(key, Backoff(self._first, self._limit))
        self._timers[key] = asyncio.get_running_loop().call_later(backoff.next(), self.add, key)

    def add_after(self, key: K, seconds: float) -> None:
        """Add a key after a delay, unless the key is queued already or is delayed for a shorter time."""
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if key in self._queued or (timer is not None and timer.when() <= loop.time() + seconds):
            return
        if timer is not None:
            timer.cancel()
        self._timers[key] = loop.call_later(seconds, self.add, key)

    def forget(self, key: K) -> None:
        """Reset the backoff of a key after a success."""
        self._backoffs.pop(key, None)

    @property
    def queued(self) -> Collection[K]:
        """The keys that wait for a worker."""
        return self._queued

    @property
    def delayed(self) -> Collection[K]:
        """The keys that a timer will add to the queue."""
        return self._timers.keys()

    def is_processing(self, key: K) -> bool:
        """Return whether a worker processes the key now."""
        return key in self._processing

    async def get(self) -> K:
        """Return the next key; no other worker gets the key before `done` is called."""
        key = await self._ready.get()
        self._queued.discard(key)
        self._processing.add(key)
        if self._metrics is not None and key in self._since:
            now = time.monotonic()
            self._metrics.record_wait(now - self._since[key])
            self._since[key] = now
        return key

    def done(self, key: K) -> None:
        """Record that the worker has processed the key."""
        self._processing.discard(key)
        since = self._since.pop(key, None)
        if self._metrics is not None and since is not None:
            self._metrics.record_work(time.monotonic() - since)
        if key in self._dirty:
            self._dirty.discard(key)
            self.add(key)

    def _work_starts(self) -> list[float]:
        """Return when workers took their keys; keys from before `register_metrics` are omitted."""
        return [self._since[key] for key in self._processing if key in self._since]

    def close(self) -> None:
        """Cancel all delays; delayed keys are not added."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
