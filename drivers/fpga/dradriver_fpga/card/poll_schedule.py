"""Schedule of the reads of the cards. Pure: the caller supplies the time."""

from dataclasses import dataclass
from typing import Final

__all__ = ["PollSchedule"]

_GATHER: Final = 0.1
"""Seconds from a change to the next read, because changes come in groups."""
_APART: Final = 0.25
"""Least number of seconds between two reads, however many changes are reported."""
_AFTERWARDS: Final = 0.5
"""Seconds to one more read after the last change: the kernel reports a removal before the device is gone."""


@dataclass
class PollSchedule:
    """Decides when to read the cards next.

    Attributes:
        period: seconds between two reads while no change is reported.
        due: time of the next read.
    """

    period: float
    due: float = 0.0
    _looked: float = float("-inf")
    _told: bool = False

    @property
    def gathers(self) -> bool:
        """Whether a change was reported and not yet read. Further reports then make no difference."""
        return self._told

    def told(self, now: float) -> None:
        """Record that a change was reported."""
        if not self._told:
            self.due = min(self.due, max(now + _GATHER, self._looked + _APART))
        self._told = True

    def looked(self, now: float) -> None:
        """Record that the cards were read at `now`."""
        self.due = now + (min(_AFTERWARDS, self.period) if self._told else self.period)
        self._looked, self._told = now, False

    def failed(self, now: float, pause: float) -> None:
        """Record that a read failed. The next one is due after `pause` seconds."""
        self.due = now + pause
        self._told = True
