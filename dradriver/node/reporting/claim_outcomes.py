"""Report the outcome of each claim in a kubelet's call: a log line, and an Event if users can help.

A failure that is repeated by each retry of the kubelet is reported once, then at growing intervals with a
count.
"""

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from dradriver.errors import DraError
from dradriver.node.errors import DeviceInUseError, InProgressError, InvalidConfigError
from dradriver.node.reporting.deduplicate import Deduplicator
from dradriver.node.reporting.events import Announcements, Reason
from dradriver.node.reporting.redaction import where
from dradriver.node.state.records import ClaimRef

__all__ = ["Outcomes"]

_log = logging.getLogger(__name__)

_REASONS: Final[Mapping[type[Exception], Reason]] = MappingProxyType(
    {DeviceInUseError: "DeviceInUse", InvalidConfigError: "InvalidConfig"}
)
"""Errors that cause an Event of the claim; for the others the kubelet writes an event of the pod."""


class Outcomes:
    """Reports how work on claims ended.

    Args:
        announcements: writes Events.
    """

    def __init__(self, announcements: Announcements) -> None:
        self._announcements = announcements
        self._repeats = Deduplicator()

    def succeeded(self, operation: str, ref: ClaimRef, seconds: float) -> None:
        """Report success."""
        self._repeats.over(_subject(operation, ref))
        _tell(logging.INFO, operation, "ok", seconds, f"{operation}d claim {ref} in {seconds:.3f} s")

    def failed(self, operation: str, ref: ClaimRef, seconds: float, error: Exception) -> None:
        """Report a failure; the message of a defect is omitted, because it may quote secrets."""
        result = "in_progress" if isinstance(error, InProgressError) else "error"
        level = logging.INFO if isinstance(error, InProgressError) else logging.WARNING
        text = str(error)
        if not isinstance(error, DraError):
            level, text = logging.ERROR, f"claim {ref}: a defect of dradriver: {where(error)}"
        # The text of an operation in progress contains its duration, so it differs each time.
        news = self._repeats.news(_subject(operation, ref), text if result == "error" else "in progress")
        if news is None:
            return
        said = news if result == "error" else text
        _tell(level, operation, result, seconds, f"{operation} failed after {seconds:.3f} s: {said}")
        if reason := _REASONS.get(type(error)):
            self._announcements.of_claim(ref, reason, text)


def _subject(operation: str, ref: ClaimRef) -> str:
    return f"{operation} {ref.uid}"


def _tell(level: int, operation: str, result: str, seconds: float, text: str) -> None:
    fields = {"operation": operation, "result": result, "seconds": round(seconds, 6)}
    _log.log(level, "%s", text, extra=fields)
