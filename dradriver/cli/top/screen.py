"""The live screen: follows the cluster, reads keys and draws."""

import asyncio
import logging
import signal
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from dradriver.aio.tasks import end
from dradriver.cli.top.items import ItemIndex
from dradriver.cli.top.keys import KeyContext, press
from dradriver.cli.top.layout import Picture, draw_screen
from dradriver.cli.top.state import ScreenState, keep_selection
from dradriver.cli.top.terminal import Terminal
from dradriver.monitor import LiveOverview
from dradriver.overview import OverviewUpdate

__all__ = ["LiveScreen", "take_picture"]

_SECONDS_BETWEEN_FRAMES: Final = 0.5
"""Shortest time between two frames that no key has caused."""
_SECONDS_WITHOUT_CHANGE: Final = 1.0
"""Time after which the screen is drawn again for its clock and ages, if nothing has changed."""


def take_picture(live: LiveOverview, index: ItemIndex, current_at: datetime | None = None) -> Picture:
    """Return what is drawn now.

    Args:
        live: the overview of the cluster.
        index: its items.
        current_at: when the overview was last current.
    """
    stale = str(live.problem) if live.problem is not None else ""
    return Picture(live.tracker.overview, index, datetime.now(UTC), stale, current_at, live.missing)


class LiveScreen:
    """The screen of one run of `dradriver top`.

    Args:
        live: the overview of the cluster, entered.
        terminal: the terminal, entered.
        state: the first state.
    """

    def __init__(self, live: LiveOverview, terminal: Terminal, state: ScreenState) -> None:
        self._live = live
        self._terminal = terminal
        self._state = state
        self._index = ItemIndex()
        self._index.apply(live.tracker.overview)
        self._current_at = datetime.now(UTC)
        self._urgent = asyncio.Event()
        self._wake = asyncio.Event()
        self._signals: list[signal.Signals] = []
        self._page = 1

    async def run(self) -> signal.Signals | None:
        """Show the screen until the user quits.

        Returns:
            The signal that ended the screen; None if the user quit by a key or by Ctrl-C.
        """
        # Called before the first `await`, so no change after `__init__` is lost.
        updates = self._live.updates()
        following = asyncio.create_task(self._follow(updates), name="changes of the screen")
        following.add_done_callback(lambda _: self._interrupt())
        try:
            with self._handle_signals():
                return await self._show(following)
        finally:
            self._stop_reading()
            await end([following])

    async def _follow(self, updates: AsyncGenerator[OverviewUpdate, None]) -> None:
        async with aclosing(updates):
            async for update in updates:
                overview = self._live.tracker.overview
                self._index.apply(overview, update.nodes, problems_changed=update.problems)
                self._wake.set()

    async def _show(self, following: asyncio.Task[None]) -> signal.Signals | None:
        loop = asyncio.get_running_loop()
        while True:
            drawn_at = loop.time()
            await self._draw()
            loop.add_reader(self._terminal.input, self._note_input)
            await self._wait_for_frame(drawn_at)
            self._stop_reading()
            self._urgent.clear()
            self._wake.clear()
            if following.done():
                following.result()
                return None
            ended_by = self._handle_noted_signals()
            if ended_by is not None:
                return None if ended_by == signal.SIGINT else ended_by
            if self._handle_keys():
                return None

    async def _wait_for_frame(self, drawn_at: float) -> None:
        """Wait until the next frame is due: at once after a key or a signal, later after a change."""
        await _wait(self._wake, _SECONDS_WITHOUT_CHANGE)
        if not self._urgent.is_set():
            await _wait(self._urgent, drawn_at + _SECONDS_BETWEEN_FRAMES - asyncio.get_running_loop().time())

    def _interrupt(self) -> None:
        self._urgent.set()
        self._wake.set()

    async def _draw(self) -> None:
        shown = self._index.shown(self._state.filter)
        self._state = keep_selection(self._state, shown)
        if self._live.problem is None:
            self._current_at = datetime.now(UTC)
        picture = take_picture(self._live, self._index, self._current_at)
        frame = draw_screen(picture, self._state, *self._terminal.size)
        self._state = replace(self._state, first=frame.first, offset=frame.offset)
        self._page = frame.page
        # A terminal that accepts no output blocks only this thread.
        await asyncio.to_thread(self._terminal.draw, frame.lines)

    def _note_input(self) -> None:
        self._stop_reading()
        self._interrupt()

    def _stop_reading(self) -> None:
        asyncio.get_running_loop().remove_reader(self._terminal.input)

    def _handle_keys(self) -> bool:
        """Apply the pressed keys. Return whether the user quits."""
        for key in self._terminal.read_keys():
            if key == "q" and not self._state.is_typing:
                return True
            if key == "ctrl-l":
                self._terminal.forget()
            shown = self._index.shown(self._state.filter)
            self._state = keep_selection(self._state, shown)
            self._state = press(self._state, key, KeyContext(shown, self._index.drivers, self._page))
        return False

    @contextmanager
    def _handle_signals(self) -> Iterator[None]:
        """Note signals instead of ending, so that the terminal is restored first."""
        loop = asyncio.get_running_loop()
        names = ("SIGINT", "SIGTERM", "SIGHUP", "SIGTSTP", "SIGCONT", "SIGWINCH")
        numbers = [signal.Signals[name] for name in names]
        # A warning of the log would be written into the screen. The screen shows the problem itself.
        silent = logging.NullHandler()
        logging.getLogger().addHandler(silent)
        for number in numbers:
            loop.add_signal_handler(number, self._note_signal, number)
        try:
            yield
        finally:
            logging.getLogger().removeHandler(silent)
            for number in numbers:
                loop.remove_signal_handler(number)

    def _note_signal(self, number: signal.Signals) -> None:
        self._signals.append(number)
        self._interrupt()

    def _handle_noted_signals(self) -> signal.Signals | None:
        """Handle the signals since the last frame. Return the signal that ends the screen, if any."""
        noted, self._signals = self._signals, []
        for number in noted:
            match number:
                case signal.SIGTSTP:
                    self._terminal.suspend()
                case signal.SIGCONT:
                    self._terminal.resume()
                case signal.SIGWINCH:
                    self._terminal.resize()
                case _:
                    return number
        return None


async def _wait(event: asyncio.Event, seconds: float) -> None:
    """Wait until an event is set, but no longer than some seconds."""
    with suppress(TimeoutError):
        async with asyncio.timeout(max(0.0, seconds)):
            await event.wait()
