"""Work on claims that may outlast the call that requested it.

At most one operation for each claim runs in this process. It is a separate task. A caller may give up, or be
answered after its deadline that work is in progress; the task continues, and the next caller with the same
request joins it. If an operation fails while no caller waits, the next caller gets the error.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from dradriver.aio.tasks import end
from dradriver.errors import DraError
from dradriver.node.errors import InProgressError
from dradriver.node.reporting.redaction import where
from dradriver.node.state.records import ClaimRecord, ClaimRef

__all__ = ["OperationProgress", "Operations", "device_names"]

_log = logging.getLogger(__name__)

T = TypeVar("T")


def device_names(record: ClaimRecord) -> str:
    """Return the devices of a claim in the form of `OperationProgress` and messages."""
    names = ", ".join(device.device for device in record.devices)
    return f"{'device' if len(record.devices) == 1 else 'devices'} {names}" if names else "an unknown claim"


class OperationProgress:
    """The current step of an operation."""

    def __init__(self) -> None:
        self._clock = asyncio.get_running_loop().time
        self.at("waiting for the claim's lock")

    def at(self, step: str) -> None:
        """Record that the operation has reached this step."""
        self._step, self._since = step, self._clock()

    def __str__(self) -> str:
        return f"{self._step} since {self._clock() - self._since:.0f} s"


@dataclass(slots=True, eq=False)
class _Operation:
    kind: str
    ref: ClaimRef
    subject: object
    progress: OperationProgress
    task: asyncio.Task[Any]
    listeners: int = 0
    waiting: list[asyncio.Future[None]] = field(default_factory=list)

    def is_about(self, kind: str, subject: object) -> bool:
        return self.kind == kind and self.subject == subject

    async def ended(self, deadline: float) -> None:
        """Wait for the end of the operation, until `deadline` on the loop's clock."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        self.waiting.append(waiter)
        timer = loop.call_at(deadline, _wake, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            self.waiting.remove(waiter)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class Operations:
    """The operations in progress; call `await drain()` at the end."""

    def __init__(self) -> None:
        self._current: dict[str, _Operation] = {}

    async def run(
        self,
        kind: str,
        ref: ClaimRef,
        subject: object,
        work: Callable[[OperationProgress], Coroutine[Any, Any, T]],
        seconds: float,
    ) -> T:
        """Return the result of `work`, or of the same operation that is already running.

        Args:
            kind: `prepare` or `unprepare`. Another kind of operation on the claim must end first.
            ref: the claim.
            subject: the input of the operation. An operation of the same kind with another subject must end
                first.
            work: started if needed.
            seconds: maximum time to wait.

        Raises:
            InProgressError: the operation takes longer and continues.
            Exception: the exception of `work`.
        """
        deadline = asyncio.get_running_loop().time() + seconds
        while (running := self._current.get(ref.uid)) and not running.is_about(kind, subject):
            await self._wait(running, deadline)
        operation = running or self._start(kind, ref, subject, work)
        await self._wait(operation, deadline)
        if operation.task.cancelled():
            raise InProgressError(f"{kind} of claim {ref} was interrupted, the driver is stopping")
        outcome: T = operation.task.result()
        return outcome

    async def drain(self, seconds: float) -> None:
        """Let operations end, and cancel those that have not ended after `seconds`."""
        await end({operation.task for operation in self._current.values()}, seconds)

    def _start(
        self,
        kind: str,
        ref: ClaimRef,
        subject: object,
        work: Callable[[OperationProgress], Coroutine[Any, Any, Any]],
    ) -> _Operation:
        progress = OperationProgress()
        task = asyncio.create_task(work(progress), name=f"{kind} {ref}")
        operation = _Operation(kind, ref, subject, progress, task)
        self._current[ref.uid] = operation
        task.add_done_callback(lambda _: self._ended(operation))
        return operation

    async def _wait(self, operation: _Operation, deadline: float) -> None:
        operation.listeners += 1
        try:
            if not operation.task.done():
                await operation.ended(deadline)
        finally:
            operation.listeners -= 1
        if not operation.task.done():
            raise InProgressError(
                f"{operation.kind} of claim {operation.ref} is still in progress ({operation.progress}); "
                "it goes on in the background"
            )
        self._forget(operation)

    def _ended(self, operation: _Operation) -> None:
        for waiter in operation.waiting:
            _wake(waiter)
        if operation.listeners:
            return
        error = None if operation.task.cancelled() else operation.task.exception()
        if error is None:
            self._forget(operation)
        else:
            told = error if isinstance(error, DraError) else where(error)
            _log.warning("%s of claim %s failed in the background: %s", operation.kind, operation.ref, told)

    def _forget(self, operation: _Operation) -> None:
        if self._current.get(operation.ref.uid) is operation:
            del self._current[operation.ref.uid]
