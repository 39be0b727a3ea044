"""Report a repeated problem once, then at growing intervals."""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

__all__ = ["Deduplicator"]

_REMEMBERED: Final = 1000
_FIRST_SECONDS: Final = 60.0
_LONGEST_SECONDS: Final = 3600.0


@dataclass(slots=True)
class _Said:
    text: str
    since: float
    next: float
    wait: float
    times: int = 0


class Deduplicator:
    """Stores the last text about each subject; a repeated text is due at growing intervals, with a count.

    Args:
        clock: returns seconds that never decrease.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._said: OrderedDict[str, _Said] = OrderedDict()

    def news(self, subject: str, text: str) -> str | None:
        """Return the text to report now; None if it was reported recently.

        Args:
            subject: the subject of the text. A new text about it is due immediately.
            text: the text.
        """
        now, said = self._clock(), self._said.get(subject)
        if said is None or said.text != text:
            self._said.pop(subject, None)
            self._said[subject] = _Said(text, now, now + _FIRST_SECONDS, _FIRST_SECONDS)
            while len(self._said) > _REMEMBERED:
                self._said.popitem(last=False)
            return text
        said.times += 1
        if now < said.next:
            return None
        said.wait = min(said.wait * 2, _LONGEST_SECONDS)
        said.next = now + said.wait
        return f"{text} (again, {said.times} times in {now - said.since:.0f} s)"

    def over(self, subject: str) -> None:
        """Record that the problem is over: the next text about the subject is due immediately."""
        self._said.pop(subject, None)
