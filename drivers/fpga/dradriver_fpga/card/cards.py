"""Hardware for asyncio: one thread follows changes of the cards, and others program them."""

import asyncio
import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from functools import partial
from types import TracebackType
from typing import Final, Self, TypeAlias

from dradriver_fpga.card.errors import CardError, NotSupportedError
from dradriver_fpga.card.hardware import Hardware
from dradriver_fpga.card.poll_schedule import PollSchedule
from dradriver_fpga.card.threads import on_own_thread
from dradriver_fpga.card.values import Bitstream, Card

__all__ = ["Cards"]

Found: TypeAlias = tuple[Card, ...]

_log: Final = logging.getLogger(__name__)
_WAIT: Final = 0.25
"""Seconds of one wait for a change, and so the longest time that the end of `changes` waits for its thread."""
_PAUSE: Final = 5.0
"""Seconds until a failed read is repeated."""


class Cards:
    """The FPGAs of this node.

        async with Cards(hardware) as cards:
            async for found in cards.changes(): ...
            await cards.program("0000:3b:00.0/0", bitstream, timeout=60)

    Args:
        hardware: the hardware; only threads of this object use it.
        rescan: seconds between two reads of the cards while no change is reported.
    """

    def __init__(self, hardware: Hardware, *, rescan: float = 30.0) -> None:
        self._hardware = hardware
        self._rescan = rescan
        self._programming: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._programmed = threading.Event()
        self._following: dict[asyncio.Task[None], threading.Event] = {}

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._hardware.open)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Hardware continues by itself. The next process finds a region with unknown content.
        running = list(self._programming.values())
        for task in running:
            task.cancel()
        for stop in self._following.values():
            stop.set()
        await asyncio.gather(*running, *self._following, return_exceptions=True)
        await asyncio.to_thread(self._hardware.close)

    async def read(self) -> Found:
        """Return the cards that are there now, by ID.

        Raises:
            CardError: they cannot be read.
        """
        return await asyncio.to_thread(self._hardware.cards)

    async def forget(self, card: str) -> None:
        """Mark the content of a card as unknown, see `Hardware.forget`. `changes` then yields the cards again.

        Raises:
            CardError: see `Hardware.forget`.
        """
        await asyncio.to_thread(self._hardware.forget, card)
        self._programmed.set()

    async def program(self, target: str, bitstream: Bitstream, *, timeout: float) -> None:
        """Write a bitstream into a region or a card, see `Hardware.program`.

        `changes` then yields the cards again.

        Programming that has begun runs to its end even if its caller is cancelled. A second call for the same
        target and bitstream waits for that end. The `timeout` counts from the beginning of the programming.

        Raises:
            CardError: see `Hardware.program`.
        """
        key = (target, bitstream.sha256)
        task = self._programming.get(key)
        if task is None:
            task = asyncio.create_task(self._program(target, bitstream, timeout), name=f"program {target}")
            self._programming[key] = task
            task.add_done_callback(partial(self._forget, key))
        await asyncio.shield(task)

    async def changes(self) -> AsyncGenerator[Found, None]:
        """Yield the cards as they are now, and again after each change. The iteration ends with this object."""
        loop = asyncio.get_running_loop()
        news: deque[Found] = deque(maxlen=1)  # a slow listener gets only the latest state
        told = asyncio.Event()
        stop = threading.Event()

        def keep(found: Found) -> None:
            news.append(found)
            told.set()

        def put(found: Found) -> None:
            with contextlib.suppress(RuntimeError):  # the loop may be closed
                loop.call_soon_threadsafe(keep, found)

        follow = asyncio.create_task(on_own_thread("fpga-changes", partial(self._follow, put, stop)))
        follow.add_done_callback(lambda _: told.set())
        self._following[follow] = stop
        try:
            while news or not follow.done():
                await told.wait()
                told.clear()
                if news:
                    yield news.pop()
        finally:
            stop.set()
            del self._following[follow]
            await follow

    async def _program(self, target: str, bitstream: Bitstream, timeout: float) -> None:
        try:
            action = partial(self._hardware.program, target, bitstream, timeout=timeout)
            await on_own_thread(f"fpga-program-{target}", action)
        finally:
            self._programmed.set()

    def _forget(self, key: tuple[str, str], task: asyncio.Task[None]) -> None:
        del self._programming[key]
        if not task.cancelled():
            task.exception()  # retrieves the error, because the caller may have been cancelled

    def _follow(self, put: Callable[[Found], None], stop: threading.Event) -> None:
        schedule, seen, wait = PollSchedule(self._rescan), None, self._hardware.wait_change
        while not stop.is_set():
            if self._programmed.is_set():
                self._programmed.clear()
                schedule.told(time.monotonic())
            now = time.monotonic()
            if now >= schedule.due:
                seen = self._look(schedule, now, seen, put)
            left = min(_WAIT, max(0.0, schedule.due - time.monotonic()))
            try:
                if schedule.gathers:
                    stop.wait(left)
                elif wait(left):
                    schedule.told(time.monotonic())
            except NotSupportedError as error:
                _log.warning("FPGAs are looked at every %.0f s: %s", self._rescan, error)
                wait = stop.wait

    def _look(
        self, schedule: PollSchedule, now: float, seen: Found | None, put: Callable[[Found], None]
    ) -> Found | None:
        try:
            found = self._hardware.cards()
        except (CardError, OSError) as error:
            _log.warning("FPGAs can't be read, tried again in %.0f s: %s", _PAUSE, error)
            schedule.failed(now, _PAUSE)
            return seen
        schedule.looked(now)
        if found != seen:
            put(found)
        return found
