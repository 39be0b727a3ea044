"""When cards are looked at: pure, the clock is the caller's."""

from dataclasses import dataclass
from typing import Final

__all__ = ["PollSchedule"]

_GATHER: Final = 0.1
"""Seconds from a change to the look at it: changes come in crowds."""
_APART: Final = 0.25
"""Seconds between two looks, however many changes are told."""
_AFTERWARDS: Final = 0.5
"""Seconds to one more look after the last change: the kernel tells of a device that goes before it is gone."""


@dataclass
class PollSchedule:
    """Says when to look next.

    Attributes:
        period: seconds between two looks while nothing is told.
        due: when to look next.
    """

    period: float
    due: float = 0.0
    _looked: float = float("-inf")
    _told: bool = False

    @property
    def gathers(self) -> bool:
        """A change was told and not looked at yet: others need not be told."""
        return self._told

    def told(self, now: float) -> None:
        """A change was told."""
        if not self._told:
            self.due = min(self.due, max(now + _GATHER, self._looked + _APART))
        self._told = True

    def looked(self, now: float) -> None:
        """The cards were looked at, as they were at `now`."""
        self.due = now + (min(_AFTERWARDS, self.period) if self._told else self.period)
        self._looked, self._told = now, False

    def failed(self, now: float, pause: float) -> None:
        """They could not be looked at; `pause` seconds later they may."""
        self.due = now + pause
        self._told = True
