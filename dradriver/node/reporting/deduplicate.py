"""Report a repeated problem once, then at growing intervals."""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

__all__ = ["Deduplicator"]

_MAX_SUBJECTS: Final = 1000
_FIRST_SECONDS: Final = 60.0
_MAX_SECONDS: Final = 3600.0


@dataclass(slots=True)
class _LastReport:
    text: str
    since: float
    next: float
    wait: float
    count: int = 0


class Deduplicator:
    """Stores the last text about each subject; a repeated text is reported at growing intervals, with a count.

    Args:
        clock: returns seconds that never decrease.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._reports: OrderedDict[str, _LastReport] = OrderedDict()

    def select(self, subject: str, text: str) -> str | None:
        """Return the text if it must be reported now; None if it was reported recently.

        Args:
            subject: the subject of the text. A new text about a subject is reported immediately.
            text: the text.
        """
        now, last = self._clock(), self._reports.get(subject)
        if last is None or last.text != text:
            self._reports.pop(subject, None)
            self._reports[subject] = _LastReport(text, now, now + _FIRST_SECONDS, _FIRST_SECONDS)
            while len(self._reports) > _MAX_SUBJECTS:
                self._reports.popitem(last=False)
            return text
        last.count += 1
        if now < last.next:
            return None
        last.wait = min(last.wait * 2, _MAX_SECONDS)
        last.next = now + last.wait
        return f"{text} (repeated {last.count} times in {now - last.since:.0f} s)"

    def reset(self, subject: str) -> None:
        """Record that the problem is over: the next text about the subject is reported immediately."""
        self._reports.pop(subject, None)
