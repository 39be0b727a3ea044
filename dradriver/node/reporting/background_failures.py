"""Failures of background work: counted each time, logged when there is news, and tried again later."""

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
    """Counts and logs what fails in the background.

    Args:
        metrics: counts failures by source.
    """

    def __init__(self, metrics: NodeMetrics) -> None:
        self._metrics = metrics
        self._repeats = Deduplicator()

    def report(self, source: str, what: str, error: DraError) -> None:
        """Counts a failure, and logs it unless the same was logged not long ago.

        Args:
            source: the label of the metric.
            what: begins the message.
            error: why.
        """
        self._metrics.background_error(source)
        if news := self._repeats.news(f"{source} {what}", f"{what}: {error}"):
            _log.warning("%s", news)

    async def attempt(self, source: str, work: Awaitable[T], claim: object) -> T | None:
        """Does the work on a claim if possible; the next call, collection or sweep continues failed work.

        Returns:
            What the work returns; None if it failed.
        """
        try:
            return await work
        except DraError as error:
            self.report(source, f"claim {claim} could not be brought to an end", error)
            return None
