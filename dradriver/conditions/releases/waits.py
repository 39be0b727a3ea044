"""Wait until nodes have released devices, and report a node that does not.

The waits are in memory only: the next process reads the notes again, and begins new waits.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from dradriver.conditions.releases.release_check import ReleaseCheck
from dradriver.conditions.reports import AttachmentReports
from dradriver.driver import Attachment
from dradriver.model.resource.claim import ResourceClaim

__all__ = ["ReleaseWaits"]

_log = logging.getLogger(__name__)


@dataclass
class _Wait:
    since: float
    problem: str = ""


class ReleaseWaits:
    """The attachments whose nodes have not released them yet.

    Args:
        check: reads nodes and notes.
        reports: receives attachments that a node does not release.
        quarantine: called with such an attachment; begins to keep new claims away from its device.
        clock: returns seconds.

    Attributes:
        pause_seconds: the shortest and the longest interval between two checks of one attachment.
        report_seconds: seconds after which a wait is reported.
    """

    pause_seconds: ClassVar[tuple[float, float]] = (0.5, 15.0)
    report_seconds: ClassVar[float] = 60.0

    def __init__(
        self,
        check: ReleaseCheck,
        reports: AttachmentReports,
        quarantine: Callable[[Attachment], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._check = check
        self._reports = reports
        self._quarantine = quarantine
        self._clock = clock
        self._waits: dict[Attachment, _Wait] = {}

    async def is_released(self, claim: ResourceClaim, attachment: Attachment) -> bool:
        """Return whether the device can be detached; a node that takes too long is reported.

        Raises:
            DraError: the API server did not answer.
        """
        problem = await self._check.find_use(attachment)
        if not problem:
            self.forget(attachment)
            return True
        wait = self._waits.setdefault(attachment, _Wait(self._clock()))
        if self._clock() - wait.since >= self.report_seconds:
            if problem != wait.problem:
                wait.problem = problem
                _log.warning("claim %s: device %s is not detached: %s", claim.ref, attachment.device, problem)
            self._reports.report_stuck("release", claim, attachment, f"is not detached: {problem}")
            self._quarantine(attachment)
        return False

    def forget(self, attachment: Attachment) -> None:
        """End the wait, because the device was released, or is allocated again."""
        self._waits.pop(attachment, None)
        self._reports.clear_stuck("release", attachment)

    def pause(self, attachment: Attachment) -> float:
        """Return the seconds until the next check: a quarter of the time waited, within limits."""
        shortest, longest = self.pause_seconds
        wait = self._waits.get(attachment)
        waited = self._clock() - wait.since if wait else 0.0
        return min(max(shortest, waited / 4), longest)
