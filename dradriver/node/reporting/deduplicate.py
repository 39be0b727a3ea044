"""Saying once what goes wrong again and again."""

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
    """What was said of each thing last: the same again is said at growing intervals, with a count.

    Args:
        clock: seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._said: OrderedDict[str, _Said] = OrderedDict()

    def news(self, subject: str, text: str) -> str | None:
        """The text as it is to be said now, None if it was said not long ago.

        Args:
            subject: what it is about; a new text about it is said at once.
            text: what is to be said.
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
        """It is well again: the next text about it is said at once."""
        self._said.pop(subject, None)
