"""Report failures of background work: each failure is counted, and repeated failures are logged less often."""

import logging
from collections.abc import Awaitable
from typing import TypeVar

from dradriver.errors import DraError
from dradriver.node.reporting.deduplicate import Deduplicator
from dradriver.node.reporting.metrics import NodeMetrics

__all__ = ["BackgroundFailures"]

_log = logging.getLogger(__name__)

T = TypeVar("T")


class BackgroundFailures:
    """Counts and logs failures of background work.

    Args:
        metrics: counts the failures, by source.
    """

    def __init__(self, metrics: NodeMetrics) -> None:
        self._metrics = metrics
        self._repeats = Deduplicator()

    def report(self, source: str, subject: str, error: DraError) -> None:
        """Count a failure, and log it unless an equal failure was logged recently.

        Args:
            source: the kind of background work: the label of the metric.
            subject: the start of the message.
            error: the cause.
        """
        self._metrics.background_error(source)
        if text := self._repeats.select(f"{source} {subject}", f"{subject}: {error}"):
            _log.warning("%s", text)

    async def attempt(self, source: str, work: Awaitable[T], claim: object) -> T | None:
        """Run work on a claim, and report its failure; the next call, collection or sweep tries again.

        Returns:
            The result of the work. None if it failed.
        """
        try:
            return await work
        except DraError as error:
            self.report(source, f"claim {claim}: the repair failed", error)
            return None
