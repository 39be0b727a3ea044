"""A lock for each key."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

__all__ = ["KeyLocks"]


class KeyLocks:
    """The locks by key. A key takes memory only while a task holds its lock or waits for it."""

    def __init__(self) -> None:
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    def __len__(self) -> int:
        return len(self._locks)

    def __contains__(self, key: str) -> bool:
        """Return whether a task holds the lock of the key, or waits for it."""
        return key in self._locks

    @asynccontextmanager
    async def hold(self, key: str) -> AsyncIterator[None]:
        """Hold the lock of a key; waits until its holder has released it."""
        lock, tasks = self._locks.get(key, (asyncio.Lock(), 0))
        self._locks[key] = (lock, tasks + 1)
        try:
            async with lock:
                yield
        finally:
            lock, tasks = self._locks.pop(key)
            if tasks > 1:
                self._locks[key] = (lock, tasks - 1)
