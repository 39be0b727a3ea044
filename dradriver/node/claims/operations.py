"""Run work on claims, even if the work takes longer than the call that requested it.

At most one operation for each claim runs in this process, as a separate task. If a caller gives up, or its
deadline passes, the task continues. At the deadline the caller gets an `InProgressError`. The next caller with
the same request waits for the running task. If an operation fails while no caller waits, the next caller gets
the error.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from dradriver.aio.tasks import end
from dradriver.errors import DraError
from dradriver.node.errors import InProgressError
from dradriver.node.reporting.redaction import format_origin
from dradriver.node.state.records import ClaimRecord, ClaimRef

__all__ = ["OperationProgress", "Operations", "format_devices"]

_log = logging.getLogger(__name__)

T = TypeVar("T")


def format_devices(record: ClaimRecord) -> str:
    """Return the names of a claim's devices, for `OperationProgress` and messages."""
    names = ", ".join(device.device for device in record.devices)
    return f"{'device' if len(record.devices) == 1 else 'devices'} {names}" if names else "an unknown claim"


class OperationProgress:
    """The current step of an operation."""

    def __init__(self) -> None:
        self._clock = asyncio.get_running_loop().time
        self.enter("waiting for the claim's lock")

    def enter(self, step: str) -> None:
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
    callers: int = 0
    waiters: list[asyncio.Future[None]] = field(default_factory=list)

    def matches(self, kind: str, subject: object) -> bool:
        return self.kind == kind and self.subject == subject

    async def wait(self, deadline: float) -> None:
        """Wait for the end of the operation, until `deadline` on the loop's clock."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        self.waiters.append(waiter)
        timer = loop.call_at(deadline, _wake, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            self.waiters.remove(waiter)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class Operations:
    """Runs operations on claims; call `await drain()` at the end."""

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
        """Return the result of `work`, or of an equal operation that is already running.

        Args:
            kind: `prepare` or `unprepare`. The call waits until a running operation of the other kind has
                ended.
            ref: the claim.
            subject: the input of the operation. The call waits until a running operation with another subject
                has ended.
            work: started as a task, unless an equal operation runs already.
            seconds: maximum time to wait.

        Raises:
            InProgressError: the operation takes longer than `seconds`, and continues.
            Exception: the exception of `work`.
        """
        deadline = asyncio.get_running_loop().time() + seconds
        while (running := self._current.get(ref.uid)) and not running.matches(kind, subject):
            await self._wait(running, deadline)
        operation = running or self._start(kind, ref, subject, work)
        await self._wait(operation, deadline)
        if operation.task.cancelled():
            raise InProgressError(f"{kind} of claim {ref} was interrupted: the driver is stopping")
        outcome: T = operation.task.result()
        return outcome

    async def drain(self, seconds: float) -> None:
        """Let operations end; cancel the operations that have not ended after `seconds`."""
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
        task.add_done_callback(lambda _: self._on_ended(operation))
        return operation

    async def _wait(self, operation: _Operation, deadline: float) -> None:
        operation.callers += 1
        try:
            if not operation.task.done():
                await operation.wait(deadline)
        finally:
            operation.callers -= 1
        if not operation.task.done():
            raise InProgressError(
                f"{operation.kind} of claim {operation.ref} is still in progress ({operation.progress}) "
                "and continues in the background"
            )
        self._forget(operation)

    def _on_ended(self, operation: _Operation) -> None:
        for waiter in operation.waiters:
            _wake(waiter)
        if operation.callers:
            return
        error = None if operation.task.cancelled() else operation.task.exception()
        if error is None:
            self._forget(operation)
        else:
            reason = error if isinstance(error, DraError) else format_origin(error)
            _log.warning("%s of claim %s failed in the background: %s", operation.kind, operation.ref, reason)

    def _forget(self, operation: _Operation) -> None:
        if self._current.get(operation.ref.uid) is operation:
            del self._current[operation.ref.uid]
