"""Decides when to read the cards. Pure: the caller supplies the time."""

from dataclasses import dataclass
from typing import Final

__all__ = ["PollSchedule"]

_GATHER_SECONDS: Final = 0.1
"""Seconds from a change to the next read. Changes come in groups, which one read can then cover."""
_MIN_INTERVAL: Final = 0.25
"""Minimum seconds between two reads, regardless of how many changes are reported."""
_SETTLE_SECONDS: Final = 0.5
"""Seconds after the last change until an additional read.

The kernel reports a removal before the device is gone.
"""


@dataclass
class PollSchedule:
    """Decides when to read the cards next.

    Attributes:
        period: seconds between two reads while no change is reported.
        due: time of the next read.
    """

    period: float
    due: float = 0.0
    _last_read: float = float("-inf")
    _change_pending: bool = False

    @property
    def is_gathering(self) -> bool:
        """Whether a change was reported after the last read. If so, further reports make no difference."""
        return self._change_pending

    def record_change(self, now: float) -> None:
        """Record that a change was reported."""
        if not self._change_pending:
            self.due = min(self.due, max(now + _GATHER_SECONDS, self._last_read + _MIN_INTERVAL))
        self._change_pending = True

    def record_read(self, now: float) -> None:
        """Record that the cards were read at `now`."""
        self.due = now + (min(_SETTLE_SECONDS, self.period) if self._change_pending else self.period)
        self._last_read, self._change_pending = now, False

    def record_failure(self, now: float, seconds: float) -> None:
        """Record that a read failed. The next read is due after `seconds`."""
        self.due = now + seconds
        self._change_pending = True
