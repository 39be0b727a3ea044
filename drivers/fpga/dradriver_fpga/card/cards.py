"""`FpgaHardware` for asyncio: one thread watches for changes of the cards, and other threads program cards."""

import asyncio
import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from functools import partial
from types import TracebackType
from typing import Final, Self

from dradriver_fpga.card.errors import FpgaError, FpgaNotSupportedError
from dradriver_fpga.card.hardware import FpgaHardware
from dradriver_fpga.card.poll_schedule import PollSchedule
from dradriver_fpga.card.values import Bitstream, FpgaCard

__all__ = ["FpgaCards"]

_log: Final = logging.getLogger(__name__)
_WAIT_SECONDS: Final = 0.25
"""Seconds of one wait for a change. When `changes` ends, it waits for its thread at most this long."""
_RETRY_SECONDS: Final = 5.0
"""Seconds until a failed read is repeated."""


class FpgaCards:
    """The FPGAs of this node.

        async with FpgaCards(hardware) as cards:
            async for found in cards.changes(): ...
            await cards.program("0000:3b:00.0/0", bitstream, timeout=60)

    Args:
        hardware: the hardware; only threads of this object use it.
        rescan: seconds between two reads of the cards while no change is reported.
    """

    def __init__(self, hardware: FpgaHardware, *, rescan: float = 30.0) -> None:
        self._hardware = hardware
        self._rescan = rescan
        self._programming: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._content_changed = threading.Event()
        self._followers: dict[asyncio.Task[None], threading.Event] = {}

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._hardware.open)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The hardware continues to program. The next process finds a region with unknown content.
        running = list(self._programming.values())
        for task in running:
            task.cancel()
        for stop in self._followers.values():
            stop.set()
        await asyncio.gather(*running, *self._followers, return_exceptions=True)
        await asyncio.to_thread(self._hardware.close)

    async def read(self) -> tuple[FpgaCard, ...]:
        """Return the present cards, sorted by ID.

        Raises:
            FpgaError: the cards cannot be read.
        """
        return await asyncio.to_thread(self._hardware.cards)

    async def invalidate(self, card: str) -> None:
        """Mark the content of a card as unknown. `changes` then yields the cards again.

        Args:
            card: ID of the card.

        Raises:
            FpgaError: see `FpgaHardware.invalidate`.
        """
        await asyncio.to_thread(self._hardware.invalidate, card)
        self._content_changed.set()

    async def program(self, target: str, bitstream: Bitstream, *, timeout: float) -> None:
        """Write a bitstream into a region or a card, see `FpgaHardware.program`.

        `changes` then yields the cards again.

        If programming has begun, it runs to its end even if its caller is cancelled. A second call for the same
        target and bitstream waits for this end.

        Args:
            target: ID of a region or a card.
            bitstream: the file to write.
            timeout: seconds from the beginning of the programming until the target must operate.

        Raises:
            FpgaError: see `FpgaHardware.program`.
        """
        key = (target, bitstream.sha256)
        task = self._programming.get(key)
        if task is None:
            task = asyncio.create_task(self._program(target, bitstream, timeout), name=f"program {target}")
            self._programming[key] = task
            task.add_done_callback(partial(self._forget, key))
        await asyncio.shield(task)

    async def changes(self) -> AsyncGenerator[tuple[FpgaCard, ...], None]:
        """Yield the present cards now and after each change, until this object is closed."""
        loop = asyncio.get_running_loop()
        latest: deque[tuple[FpgaCard, ...]] = deque(maxlen=1)  # a slow listener gets only the latest state
        changed = asyncio.Event()
        stop = threading.Event()

        def publish(found: tuple[FpgaCard, ...]) -> None:
            latest.append(found)
            changed.set()

        def put(found: tuple[FpgaCard, ...]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop may be closed
                loop.call_soon_threadsafe(publish, found)

        follow = asyncio.create_task(_run_on_own_thread("fpga-changes", partial(self._poll_cards, put, stop)))
        follow.add_done_callback(lambda _: changed.set())
        self._followers[follow] = stop
        try:
            while latest or not follow.done():
                await changed.wait()
                changed.clear()
                if latest:
                    yield latest.pop()
        finally:
            stop.set()
            del self._followers[follow]
            await follow

    async def _program(self, target: str, bitstream: Bitstream, timeout: float) -> None:
        try:
            action = partial(self._hardware.program, target, bitstream, timeout=timeout)
            await _run_on_own_thread(f"fpga-program-{target}", action)
        finally:
            self._content_changed.set()

    def _forget(self, key: tuple[str, str], task: asyncio.Task[None]) -> None:
        del self._programming[key]
        if not task.cancelled():
            task.exception()  # retrieves the error, because the caller may have been cancelled

    def _poll_cards(self, put: Callable[[tuple[FpgaCard, ...]], None], stop: threading.Event) -> None:
        schedule, last, wait = PollSchedule(self._rescan), None, self._hardware.wait_change
        while not stop.is_set():
            if self._content_changed.is_set():
                self._content_changed.clear()
                schedule.record_change(time.monotonic())
            now = time.monotonic()
            if now >= schedule.due:
                last = self._read_cards(schedule, now, last, put)
            seconds = min(_WAIT_SECONDS, max(0.0, schedule.due - time.monotonic()))
            try:
                if schedule.is_gathering:
                    stop.wait(seconds)
                elif wait(seconds):
                    schedule.record_change(time.monotonic())
            except FpgaNotSupportedError as error:
                _log.warning(
                    "FPGAs are read every %.0f s, their changes are not reported: %s", self._rescan, error
                )
                wait = stop.wait

    def _read_cards(
        self,
        schedule: PollSchedule,
        now: float,
        last: tuple[FpgaCard, ...] | None,
        put: Callable[[tuple[FpgaCard, ...]], None],
    ) -> tuple[FpgaCard, ...] | None:
        try:
            found = self._hardware.cards()
        except (FpgaError, OSError) as error:
            _log.warning("FPGAs cannot be read, next attempt in %.0f s: %s", _RETRY_SECONDS, error)
            schedule.record_failure(now, _RETRY_SECONDS)
            return last
        schedule.record_read(now)
        if found != last:
            put(found)
        return found


async def _run_on_own_thread(name: str, action: Callable[[], None]) -> None:
    """Run `action` to its end, even if the caller is cancelled.

    The process can end without waiting for `action`.
    """
    loop = asyncio.get_running_loop()
    done = loop.create_future()

    def finish(error: Exception | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    def run() -> None:
        failure: Exception | None = None
        try:
            action()
        except Exception as error:
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop may be closed
            loop.call_soon_threadsafe(finish, failure)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    try:
        await done
    finally:
        if done.done() and not done.cancelled():
            thread.join()  # returns at once: the thread has reported its end
