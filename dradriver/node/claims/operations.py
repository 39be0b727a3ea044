"""Work on claims that may outlast the call that asked for it.

At most one piece of work a claim runs in this process. It is a task of its own: a caller that gives up, or is
told after its deadline that work is in progress, does not stop it, and the next caller for the same thing joins
it. What nobody was there to hear is told to the next caller.
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
    """The devices of a claim, as `OperationProgress` and messages name them."""
    names = ", ".join(device.device for device in record.devices)
    return f"{'device' if len(record.devices) == 1 else 'devices'} {names}" if names else "an unknown claim"


class OperationProgress:
    """What a piece of work is doing now."""

    def __init__(self) -> None:
        self._clock = asyncio.get_running_loop().time
        self.at("waiting for the claim's lock")

    def at(self, step: str) -> None:
        """The work has come to this step."""
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
        """Waits for its end, until the deadline of the loop's clock."""
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
    """The work that is going on; `await drain()` at the end."""

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
        """The outcome of `work`, or of the same work that runs already.

        Args:
            kind: `prepare` or `unprepare`; other work on the claim is waited for first.
            ref: the claim.
            subject: what is done to it; work of the same kind about something else is waited for too.
            work: started if needed.
            seconds: how long to wait.

        Raises:
            InProgressError: it takes longer; the work goes on.
            Exception: whatever the work raised.
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
        """Lets work end, and cancels what has not ended after `seconds`."""
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
