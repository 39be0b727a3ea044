"""Keys that wait for work: each once, never worked on twice at a time, tried again after a wait that grows.

The behaviour of client-go's rate-limited work queue, for one event loop.
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

    A key that is added while it is worked on comes again once that is done. A key that waits for its next try
    is not held up further by being added for later once more.
    """

    def __init__(self, first: float, limit: float) -> None:
        """An empty queue.

        Args:
            first: seconds before the second try of a key.
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
        """Counts what happens from now on, under this name."""
        self._numbers = metrics.of(name, lambda: self.ready, self._work_starts)

    def add(self, key: K) -> None:
        """Puts a key in line, now."""
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
        """Puts a key in line after a wait that doubles from try to try; at once when it was not tried yet."""
        if key in self._timers or key in self._queued:
            return
        if self._numbers is not None:
            self._numbers.retried()
        backoff = self._backoffs.setdefault(key, Backoff(self._first, self._limit))
        self._timers[key] = asyncio.get_running_loop().call_later(backoff.next(), self.add, key)

    def add_after(self, key: K, seconds: float) -> None:
        """Puts a key in line after a wait, if it does not come earlier anyway."""
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if key in self._queued or (timer is not None and timer.when() <= loop.time() + seconds):
            return
        if timer is not None:
            timer.cancel()
        self._timers[key] = loop.call_later(seconds, self.add, key)

    def forget(self, key: K) -> None:
        """Starts the waits of a key from the beginning, after a success."""
        self._backoffs.pop(key, None)

    @property
    def ready(self) -> int:
        """How many keys are in line."""
        return len(self._queued)

    @property
    def in_line(self) -> Collection[K]:
        """The keys that wait for a worker."""
        return self._queued

    @property
    def put_off(self) -> Collection[K]:
        """The keys that a timer puts in line."""
        return self._timers.keys()

    def is_worked_on(self, key: K) -> bool:
        """Whether somebody has the key now."""
        return key in self._working

    async def get(self) -> K:
        """The next key; nobody else gets it before `done`."""
        key = await self._ready.get()
        self._queued.discard(key)
        self._working.add(key)
        if self._numbers is not None and key in self._since:
            now = time.monotonic()
            self._numbers.waited(now - self._since[key])
            self._since[key] = now
        return key

    def done(self, key: K) -> None:
        """Gives a key back."""
        self._working.discard(key)
        since = self._since.pop(key, None)
        if self._numbers is not None and since is not None:
            self._numbers.worked(time.monotonic() - since)
        if key in self._dirty:
            self._dirty.discard(key)
            self.add(key)

    def _work_starts(self) -> list[float]:
        """When each key that is worked on was taken; keys from before `count` are unknown."""
        return [self._since[key] for key in self._working if key in self._since]

    def close(self) -> None:
        """Cancels all waits."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
