"""What became of a claim of a kubelet's call, told to people: a line in the log, an Event where users can help.

A failure that the kubelet meets again with each try is told once, then at growing intervals with a count.
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
"""Errors that are worth an Event of the claim; of the others the kubelet writes one of the pod."""


class Outcomes:
    """Tells how work on claims ended.

    Args:
        announcements: writes Events.
    """

    def __init__(self, announcements: Announcements) -> None:
        self._announcements = announcements
        self._repeats = Deduplicator()

    def succeeded(self, operation: str, ref: ClaimRef, seconds: float) -> None:
        """It did what it should."""
        self._repeats.over(_subject(operation, ref))
        _tell(logging.INFO, operation, "ok", seconds, f"{operation}d claim {ref} in {seconds:.3f} s")

    def failed(self, operation: str, ref: ClaimRef, seconds: float, error: Exception) -> None:
        """It did not. Only a defect's message may quote what is secret: it is told without."""
        result = "in_progress" if isinstance(error, InProgressError) else "error"
        level = logging.INFO if isinstance(error, InProgressError) else logging.WARNING
        text = str(error)
        if not isinstance(error, DraError):
            level, text = logging.ERROR, f"claim {ref}: a defect of dradriver: {where(error)}"
        # How long the work has been going on is in the text of one that is in progress.
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
