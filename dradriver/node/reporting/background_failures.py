"""Report failures of background work: each is counted, changes are logged, and the work is retried later."""

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
        metrics: counts failures by source.
    """

    def __init__(self, metrics: NodeMetrics) -> None:
        self._metrics = metrics
        self._repeats = Deduplicator()

    def report(self, source: str, what: str, error: DraError) -> None:
        """Count a failure, and log it unless the same failure was logged recently.

        Args:
            source: the label of the metric.
            what: the start of the message.
            error: the cause.
        """
        self._metrics.background_error(source)
        if news := self._repeats.news(f"{source} {what}", f"{what}: {error}"):
            _log.warning("%s", news)

    async def attempt(self, source: str, work: Awaitable[T], claim: object) -> T | None:
        """Run work on a claim and report a failure; the next call, collection or sweep continues failed work.

        Returns:
            The result of the work. None if it failed.
        """
        try:
            return await work
        except DraError as error:
            self.report(source, f"claim {claim} could not be brought to an end", error)
            return None
