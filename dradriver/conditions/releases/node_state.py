"""Ask a node's driver for its report, and put the report into the node's usage note."""

import asyncio
import logging
from typing import Final

import msgspec

from dradriver.driver import NodeBindingDriver, NodeReport
from dradriver.errors import DraError
from dradriver.kube.backoff import Backoff
from dradriver.model.encoding.codec import encode
from dradriver.node.driver_calls import Calls
from dradriver.node.usage.writer import NoteWriter

__all__ = ["NodeStateReporter", "check_report"]

_log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = (1.0, 60.0)
_MAX_BYTES: Final = 64 * 1024


class NodeStateReporter:
    """Reports the state of the node: `await run()` works until it is canceled.

    Args:
        driver: the author's driver.
        calls: calls the driver.
        note: the node's usage note.
    """

    def __init__(self, driver: NodeBindingDriver, calls: Calls, note: NoteWriter) -> None:
        self._driver = driver
        self._calls = calls
        self._note = note
        self._requested = asyncio.Event()

    def request(self) -> None:
        """Ask the driver again soon, because its devices were discovered."""
        self._requested.set()

    async def run(self) -> None:
        """Report at start, on request, and soon after a failure, until canceled.

        If the process dies at any point, the next process of the same boot keeps the report until its own.
        """
        backoff = Backoff(*_RETRY_SECONDS)
        try:
            while True:
                self._requested.clear()
                pause = None
                try:
                    report = check_report(await self._calls.call(self._driver.report))
                    backoff.reset()
                except DraError as error:
                    _log.error("%s; until the next report, the node attaches nothing", error)
                    report, pause = NodeReport(problem=str(error)), backoff.next()
                self._note.set_report(report)
                try:
                    async with asyncio.timeout(pause):
                        await self._requested.wait()
                except TimeoutError:
                    continue
        finally:
            self._note.set_report(None)


def check_report(returned: object) -> NodeReport:
    """Return the report, with plain values; authors' code may ignore type hints.

    Raises:
        DraError: the value is not a report, or it is too large for the usage note.
    """
    if not isinstance(returned, NodeReport):
        raise DraError(f"report() returned {type(returned).__name__}, must be a NodeReport")
    try:
        data = encode(returned)
        report = msgspec.json.decode(data, type=NodeReport)
    except (TypeError, ValueError, NotImplementedError, msgspec.MsgspecError) as error:
        raise DraError(f"report() returned an invalid NodeReport: {error}") from error
    if len(data) > _MAX_BYTES:
        raise DraError(f"report() returned {len(data)} bytes as JSON, must be at most {_MAX_BYTES}")
    return report
