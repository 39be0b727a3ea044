"""The kubelet's calls in flight: when an instance that is told to end may do so without failing one.

The kubelet picks an instance first and calls it a moment later, and it drops the connection, with the calls on
it, as soon as the registration socket is gone. So an instance leaves in this order: no call is in flight and,
where another instance is registered, none has come for a while (the kubelet prefers the one that registered
last); then the registration socket goes; then the service.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Traffic"]


class Traffic:
    """Counts calls."""

    def __init__(self) -> None:
        self._in_flight = 0
        self._changed = asyncio.Event()

    @contextmanager
    def call(self) -> Iterator[None]:
        """A call is in flight."""
        self._in_flight += 1
        self._changed.set()
        try:
            yield
        finally:
            self._in_flight -= 1
            self._changed.set()

    async def quiet(self, seconds: float, until: float) -> bool:
        """Waits until no call was in flight for a time; False when `until` (of the loop's clock) came first."""
        clock = asyncio.get_running_loop().time
        while clock() < until:
            self._changed.clear()
            enough = clock() + seconds
            try:
                async with asyncio.timeout_at(until if self._in_flight else min(until, enough)):
                    await self._changed.wait()
            except TimeoutError:
                if not self._in_flight and enough <= until:
                    return True
        return False
