"""Prints lines with the time of day. A line that repeats is counted instead of printed each time."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

__all__ = ["ProgressLines"]

_FORGET_AFTER: Final = timedelta(minutes=5)
"""Time after which a line that occurs again is no longer a repeat."""
_MAX_LINES: Final = 1000
"""Maximum number of remembered lines. If there are more, the oldest line is forgotten."""


@dataclass
class _Repeats:
    """A line that was printed.

    Attributes:
        text: the part of the line that is equal in all repeats.
        first, last: when it occurred.
        count, printed: how often it occurred, and the last printed number.
    """

    text: str
    first: datetime
    last: datetime
    count: int = 1
    printed: int = 1


class ProgressLines:
    """Writes lines with the time of day. Can be called from several threads.

    The first occurrence of a line is printed, and then the 2nd, 4th, 8th and so on, with the number. So a crash
    loop stays visible and does not fill the terminal. After 5 minutes without the line, its count starts again.

    Args:
        write: prints one line.
        now: returns the local time.
    """

    def __init__(self, write: Callable[[str], None], now: Callable[[], datetime] = datetime.now) -> None:
        self._write = write
        self._now = now
        self._known: dict[str, _Repeats] = {}
        self._lock = threading.Lock()

    def report(self, line: str, key: str = "") -> None:
        """Print a line, or only count it.

        Args:
            line: the line.
            key: the part of the line that is equal if the line repeats; empty: the whole line.
        """
        with self._lock:
            now, key = self._now(), key or line
            seen = self._known.get(key)
            if seen is None or now - seen.last > _FORGET_AFTER:
                self._finish(self._known.pop(key, None), now)
                self._known[key] = _Repeats(key, now, now)
                if len(self._known) > _MAX_LINES:
                    self._finish(self._known.pop(next(iter(self._known))), now)
                self._write(f"{now:%H:%M:%S} {line}")
                return
            seen.last, seen.count = now, seen.count + 1
            if seen.count == 2 * seen.printed:
                seen.printed = seen.count
                self._write(f"{now:%H:%M:%S} {line} ({seen.count} times since {seen.first:%H:%M:%S})")

    def finish(self) -> None:
        """Print the final number of each line that was counted since it was last printed."""
        with self._lock:
            for seen in self._known.values():
                self._finish(seen, self._now())
            self._known.clear()

    def _finish(self, seen: _Repeats | None, now: datetime) -> None:
        """Print the final number, with the time of the last repeat, which was some time ago."""
        if seen is not None and seen.count > seen.printed:
            times = f"{seen.count} times since {seen.first:%H:%M:%S}, last at {seen.last:%H:%M:%S}"
            self._write(f"{now:%H:%M:%S} {seen.text} ({times})")

    @contextmanager
    def logged(self) -> Iterator[None]:
        """Report the warnings and errors that this process logs, until the context ends.

        Without a handler, Python writes them to stderr without a time.
        """
        handler = _Handler(self)
        root = logging.getLogger()
        root.addHandler(handler)
        try:
            yield
        finally:
            root.removeHandler(handler)


class _Handler(logging.Handler):
    def __init__(self, lines: ProgressLines) -> None:
        super().__init__(logging.WARNING)
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        """Report the record. A traceback follows the line."""
        self._lines.report(
            f"{record.levelname.lower()}: {record.name}: {self.format(record)}",
            key=f"{record.name}: {record.getMessage()}",
        )
