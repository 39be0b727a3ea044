"""A cache of a resource that the API server serves only if its definition (CRD) is installed."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Final, Self

from dradriver.errors import DraError
from dradriver.kube import Cache, Client, NotFound, Resource
from dradriver.kube.backoff import Backoff

__all__ = ["OptionalCache"]

_log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = (0.5, 30.0)
"""The first and the longest wait, in seconds, before the API server is asked again."""


class OptionalCache:
    """Enters a cache as soon as the API server serves its resource: `async with OptionalCache(...)`.

    `__aenter__` returns when the API server has answered, and the cache is filled if the resource is served. If
    it is not served, nothing is watched, and the API server is asked again while the resource is wanted. It is
    also asked again after the definition was removed.
    """

    def __init__(self, client: Client, resource: Resource, cache: Cache[Any], wanted: asyncio.Event) -> None:
        """Create an entry for a cache that has not been entered yet.

        Args:
            client: the API server.
            resource: the resource of the cache.
            cache: the cache.
            wanted: is set when the resource is needed.
        """
        self._client, self._resource, self._cache, self._wanted = client, resource, cache, wanted
        self._is_known = asyncio.Event()
        self._is_gone = asyncio.Event()
        self._callbacks: list[Callable[[], None]] = []
        self._task: asyncio.Task[None] | None = None

    @property
    def is_served(self) -> bool:
        """Return whether the API server serves the resource, as far as it is known."""
        if isinstance(self._cache.problem, NotFound):
            self._is_gone.set()  # the cache cannot be watched any more
        return self._cache.is_synced and not self._is_gone.is_set()

    def subscribe(self, callback: Callable[[], None]) -> None:
        """Call a function when the cache is filled, and when a removed definition is installed again."""
        self._callbacks.append(callback)

    async def check(self) -> None:
        """Ask the API server whether it serves the resource, after a write was answered with Not Found."""
        if not await self._client.serves(self._resource):
            self._is_gone.set()

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(), name=f"optional cache of {self._resource.plural}")
        try:
            await self._is_known.wait()
        except BaseException:  # `__aexit__` is not called for a cache that was not entered
            await self._stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stop()

    async def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        await self._wait_until_served()
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._cache)
            await self._cache.wait_synced()
            self._is_known.set()
            self._notify()
            while True:
                await self._is_gone.wait()
                await self._wait_until_served()
                self._is_gone.clear()
                self._notify()

    async def _wait_until_served(self) -> None:
        backoff = Backoff(*_RETRY_SECONDS)
        while not await self._ask():
            if self._is_known.is_set():
                await self._wanted.wait()
            await asyncio.sleep(backoff.next())

    async def _ask(self) -> bool:
        try:
            is_served = await self._client.serves(self._resource)
        except DraError as error:
            _log.warning("%s: cannot find out whether they are served: %s", self._resource.plural, error)
            return False
        if not is_served:
            self._is_known.set()
        return is_served

    def _notify(self) -> None:
        for callback in self._callbacks:
            callback()
