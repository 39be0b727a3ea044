"""Time limits of calls to a manager, and the pauses between two looks."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

__all__ = ["CallDeadline", "FabricPace"]


@dataclass(frozen=True, slots=True)
class FabricPace:
    """How long calls take, in seconds.

    Attributes:
        attach: time limit of one attach or detach.
        poll: pause between two looks, unless the manager asks for another one.
        request: time limit of one HTTP request.
        appear: time for which an object is looked for before it is asked for again, because the answer to the
            request was lost, or because the manager does not show the object yet.
        look: pause between two looks for changes, where the manager sends no events.
        login: pause before a user and password that were rejected are tried again.
        silence: time without an event after which the connection for events is opened anew.
        sleep: waits for seconds.
        clock: returns seconds.
    """

    attach: float = 300
    poll: float = 1
    request: float = 30
    appear: float = 30
    look: float = 10
    login: float = 30
    silence: float = 60
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic


class CallDeadline:
    """The time limit of one call.

    Args:
        pace: the limit and the pauses.
        share: the part of the limit that this deadline has.
    """

    def __init__(self, pace: FabricPace, share: float = 1) -> None:
        self._pace = pace
        self._end = pace.clock() + pace.attach * share

    @property
    def expired(self) -> bool:
        """Whether the time is over."""
        return self._pace.clock() >= self._end

    async def pause(self, seconds: float | None = None) -> None:
        """Wait, at most until the time is over.

        Args:
            seconds: what the manager asks for; None, or less than the usual pause: the usual pause.
        """
        wanted = self._pace.poll if seconds is None else seconds
        pause = max(wanted, self._pace.poll)
        await self._pace.sleep(max(0.0, min(pause, self._end - self._pace.clock())))
