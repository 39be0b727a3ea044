"""Report the outcome of each claim in a kubelet's call: log it, and write an Event if users can fix the error.

If each retry of the kubelet has the same failure, the failure is reported once, and then at growing intervals
with the number of repetitions.
"""

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from dradriver.errors import DraError
from dradriver.node.errors import DeviceInUseError, InProgressError, InvalidConfigError
from dradriver.node.reporting.deduplicate import Deduplicator
from dradriver.node.reporting.events import Reason, WarningEvents
from dradriver.node.reporting.redaction import format_origin
from dradriver.node.state.records import ClaimRef

__all__ = ["ClaimOutcomes"]

_log = logging.getLogger(__name__)

_REASONS: Final[Mapping[type[Exception], Reason]] = MappingProxyType(
    {DeviceInUseError: "DeviceInUse", InvalidConfigError: "InvalidConfig"}
)
"""Errors of a prepare that cause an Event of the claim; for others, the kubelet writes one of the pod."""


class ClaimOutcomes:
    """Reports how operations on claims ended.

    Args:
        events: writes Events.
    """

    def __init__(self, events: WarningEvents) -> None:
        self._events = events
        self._repeats = Deduplicator()

    def succeeded(self, operation: str, ref: ClaimRef, seconds: float) -> None:
        """Report success."""
        self._repeats.reset(_subject(operation, ref))
        _log_outcome(logging.INFO, operation, "ok", seconds, f"{operation}d claim {ref} in {seconds:.3f} s")

    def failed(self, operation: str, ref: ClaimRef, seconds: float, error: Exception) -> None:
        """Report a failure; an unexpected exception's message is omitted, because it may quote secrets."""
        result = "in_progress" if isinstance(error, InProgressError) else "error"
        level = logging.INFO if isinstance(error, InProgressError) else logging.WARNING
        text = str(error)
        if not isinstance(error, DraError):
            level, text = logging.ERROR, f"claim {ref}: defect in dradriver: {format_origin(error)}"
        # If an operation is in progress, its text contains the duration and is different each time.
        message = self._repeats.select(_subject(operation, ref), text if result == "error" else "in progress")
        if message is None:
            return
        details = message if result == "error" else text
        _log_outcome(level, operation, result, seconds, f"{operation} failed after {seconds:.3f} s: {details}")
        if reason := _find_reason(operation, result, error):
            self._events.warn_of_claim(ref, reason, text)


def _find_reason(operation: str, result: str, error: Exception) -> Reason | None:
    """Return the reason of the Event; None if the failure causes no Event of the claim."""
    if operation == "unprepare" and result == "error":
        return "UnprepareFailed"  # the kubelet writes no Event, and the claim's devices stay in use
    return _REASONS.get(type(error))


def _subject(operation: str, ref: ClaimRef) -> str:
    return f"{operation} {ref.uid}"


def _log_outcome(level: int, operation: str, result: str, seconds: float, text: str) -> None:
    fields = {"operation": operation, "result": result, "seconds": round(seconds, 6)}
    _log.log(level, "%s", text, extra=fields)
