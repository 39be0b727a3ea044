"""Count the kubelet's calls in flight, so that a stopping instance ends when no call can fail.

The kubelet first selects an instance, and calls it a moment later. When the instance's registration socket is
gone, the kubelet drops the connection with all its calls. So an instance stops in this order:

1. It waits until no call is in flight. If another instance is registered, it also waits until no new call has
   arrived for a second (the kubelet prefers the instance that registered last).
2. It removes the registration socket.
3. It stops the service.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["CallsInFlight"]


class CallsInFlight:
    """Counts the kubelet's calls in flight."""

    def __init__(self) -> None:
        self._in_flight = 0
        self._changed = asyncio.Event()

    @contextmanager
    def call(self) -> Iterator[None]:
        """Count a call while the `with` block runs."""
        self._in_flight += 1
        self._changed.set()
        try:
            yield
        finally:
            self._in_flight -= 1
            self._changed.set()

    async def wait_quiet(self, seconds: float, until: float) -> bool:
        """Wait until no call was in flight for `seconds`; return False if that does not happen before `until`.

        `until` is a time of the event loop's clock.
        """
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
