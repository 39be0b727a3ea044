"""A queue of keys: each key once, never worked on twice at a time, retried after a backoff.

It behaves like client-go's rate-limited work queue, for one event loop.
"""

import asyncio
import time
from collections.abc import Collection, Hashable
from typing import Generic, TypeVar

from dradriver.control.queueing.metrics import QueueMetrics, QueueNumbers
from dradriver.kube.backoff import Backoff

__all__ = ["WorkQueue"]

K = TypeVar("K", bound=Hashable)


class WorkQueue(Generic[K]):
    """A queue of keys.

    A key that is added while it is worked on returns to the queue when that work is done. To add a waiting key
    for later once more does not delay it further.
    """

    def __init__(self, first: float, limit: float) -> None:
        """Create an empty queue.

        Args:
            first: seconds before the second attempt for a key.
            limit: the longest wait in seconds.
        """
        self._first = first
        self._limit = limit
        self._ready: asyncio.Queue[K] = asyncio.Queue()
        self._queued: set[K] = set()
        self._working: set[K] = set()
        self._dirty: set[K] = set()
        self._backoffs: dict[K, Backoff] = {}
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._since: dict[K, float] = {}
        self._numbers: QueueNumbers | None = None

    def count(self, metrics: QueueMetrics, name: str) -> None:
        """Record metrics from now on, under this name."""
        self._numbers = metrics.of(name, lambda: self.ready, self._work_starts)

    def add(self, key: K) -> None:
        """Add a key to the queue now."""
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        if key in self._working:
            self._dirty.add(key)
        elif key not in self._queued:
            self._queued.add(key)
            self._ready.put_nowait(key)
            if self._numbers is not None:
                self._numbers.added()
                self._since[key] = time.monotonic()

    def add_later(self, key: K) -> None:
        """Add a key after a wait that doubles with each attempt; at once if it was not tried yet."""
        if key in self._timers or key in self._queued:
            return
        if self._numbers is not None:
            self._numbers.retried()
        backoff = self._backoffs.setdefault(key, Backoff(self._first, self._limit))
        self._timers[key] = asyncio.get_running_loop().call_later(backoff.next(), self.add, key)

    def add_after(self, key: K, seconds: float) -> None:
        """Add a key after a wait, unless it is due earlier anyway."""
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if key in self._queued or (timer is not None and timer.when() <= loop.time() + seconds):
            return
        if timer is not None:
            timer.cancel()
        self._timers[key] = loop.call_later(seconds, self.add, key)

    def forget(self, key: K) -> None:
        """Reset the backoff of a key, after a success."""
        self._backoffs.pop(key, None)

    @property
    def ready(self) -> int:
        """Return the number of keys in the queue."""
        return len(self._queued)

    @property
    def in_line(self) -> Collection[K]:
        """The keys that wait for a worker."""
        return self._queued

    @property
    def put_off(self) -> Collection[K]:
        """The keys that a timer will add to the queue."""
        return self._timers.keys()

    def is_worked_on(self, key: K) -> bool:
        """Return whether a worker has the key now."""
        return key in self._working

    async def get(self) -> K:
        """Return the next key. No other worker gets it before `done`."""
        key = await self._ready.get()
        self._queued.discard(key)
        self._working.add(key)
        if self._numbers is not None and key in self._since:
            now = time.monotonic()
            self._numbers.waited(now - self._since[key])
            self._since[key] = now
        return key

    def done(self, key: K) -> None:
        """Return a key after the work on it."""
        self._working.discard(key)
        since = self._since.pop(key, None)
        if self._numbers is not None and since is not None:
            self._numbers.worked(time.monotonic() - since)
        if key in self._dirty:
            self._dirty.discard(key)
            self.add(key)

    def _work_starts(self) -> list[float]:
        """Return when each key in work was taken; keys from before `count` are unknown."""
        return [self._since[key] for key in self._working if key in self._since]

    def close(self) -> None:
        """Cancel all waits."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
