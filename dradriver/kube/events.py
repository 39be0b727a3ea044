"""Writes Kubernetes Events, which `kubectl describe` shows."""

import asyncio
import logging
import time
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Final, Literal, NamedTuple, Self

from dradriver.errors import DraError
from dradriver.kube.client import Client, PatchKind
from dradriver.kube.errors import NotFound
from dradriver.kube.resources import EVENTS
from dradriver.model.core.meta import ObjectReference
from dradriver.model.encoding.codec import rfc3339

__all__ = ["EventRecorder"]

_log = logging.getLogger(__name__)

_MAX_REMEMBERED: Final = 256
_MAX_WAITING: Final = 1000
_LAST_SECONDS: Final = 0.8
_SERIES_SECONDS: Final = 600.0
"""A repeat within this time increments the count of the first event. A later one is a new event (as in
client-go).
"""
_MESSAGE_BYTES: Final = 1024
_REFILL_SECONDS: Final = 300.0
_MAX_OBJECTS: Final = 4096


class _Said(NamedTuple):
    """The key of an event: two events with equal keys are repeats."""

    regarding: ObjectReference
    type: str
    reason: str
    message: str


@dataclass(slots=True)
class _Series:
    name: str
    namespace: str
    count: int
    last: float


class _Allowance:
    """Rate limit of the events about one object: a burst, then one in five minutes."""

    def __init__(self, burst: int) -> None:
        self._burst = float(burst)
        self._left: OrderedDict[ObjectReference, tuple[float, float]] = OrderedDict()

    def take(self, regarding: ObjectReference) -> bool:
        """Return whether one more event may be written now, and count it."""
        now = time.monotonic()
        left, then = self._left.pop(regarding, (self._burst, now))
        left = min(self._burst, left + (now - then) / _REFILL_SECONDS)
        self._left[regarding] = (left - 1 if left >= 1 else left, now)
        while len(self._left) > _MAX_OBJECTS:
            self._left.popitem(last=False)
        return left >= 1


class EventRecorder:
    """Writes the events of one component (core `v1`, which every `kubectl` shows). Repeats are aggregated.

    Inside `async with recorder`, `post` returns at once and one task writes in the background. Events that
    arrive faster than the server accepts them are dropped (as in client-go). At the end, the task has a moment
    to write the remaining ones. If the process dies, unwritten events are lost. The recorder logs once that a
    server rejects events, until the server accepts one again.

    Args:
        client: the API server.
        component: the reporting component, for example the driver's name.
        host: the node on which it runs, if any.
        burst: how many events about one object may be written at once; then one in five minutes. The count of
            the next event includes those that were not written (client-go has 25). None: all are written.
    """

    def __init__(self, client: Client, component: str, host: str = "", burst: int | None = None) -> None:
        self.component = component
        self.host = host
        self._allowance = _Allowance(burst) if burst else None
        self._problem: tuple[type[DraError], int] | None = None
        self._lost = 0
        self._client = client
        self._series: OrderedDict[_Said, _Series] = OrderedDict()
        self._lock = asyncio.Lock()
        self._waiting: asyncio.Queue[_Said] = asyncio.Queue(_MAX_WAITING)
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._write_waiting(), name=f"events of {self.component}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        if task is None:
            return
        try:
            async with asyncio.timeout(_LAST_SECONDS):
                await self._waiting.join()
        except TimeoutError:
            _log.warning("%d events of %s are lost", self._waiting.qsize() + 1, self.component)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def emit(
        self,
        regarding: ObjectReference,
        type: Literal["Normal", "Warning"],  # noqa: A002 - the field's name
        reason: str,
        message: str,
    ) -> None:
        """Write an event or increment its count. Failures are logged, never raised.

        Inside `async with recorder`, the event is queued as by `post`.

        Args:
            regarding: the object that the event is about.
            type: `Normal` or `Warning`.
            reason: a CamelCase word for programs.
            message: a sentence for people; cut at 1024 bytes.
        """
        if self._task is None:
            await self._write(_said(regarding, type, reason, message))
        else:
            self.post(regarding, type, reason, message)

    def post(
        self,
        regarding: ObjectReference,
        type: Literal["Normal", "Warning"],  # noqa: A002 - the field's name
        reason: str,
        message: str,
    ) -> None:
        """Queue an event for writing in the background, see `emit`. Call it in the recorder's event loop."""
        try:
            self._waiting.put_nowait(_said(regarding, type, reason, message))
        except asyncio.QueueFull:
            _log.warning("event %s of %s %s is lost: too many wait", reason, regarding.kind, regarding.name)

    async def _write_waiting(self) -> None:
        while True:
            said = await self._waiting.get()
            try:
                await self._write(said)
            except Exception:  # a defect must not stop the other events
                _log.exception("event %s", said)
            finally:
                self._waiting.task_done()

    async def _write(self, said: _Said) -> None:
        try:
            async with self._lock:
                await self._emit(said)
        except DraError as error:
            self._failed(said, error)
        else:
            self._recovered()

    def _failed(self, said: _Said, error: DraError) -> None:
        self._lost += 1
        problem = (type(error), getattr(error, "status", 0))
        if problem != self._problem:
            what = f"event {said.reason} of {said.regarding.kind} {said.regarding.name}"
            _log.warning("%s is lost, and so are others while this lasts: %s", what, error)
        self._problem = problem

    def _recovered(self) -> None:
        if self._problem is not None:
            _log.info("events are written again, %d were lost", self._lost)
        self._problem, self._lost = None, 0

    async def _emit(self, said: _Said) -> None:
        known = self._series.get(said)
        allowed = self._allowance is None or self._allowance.take(said.regarding)
        if known is not None and time.monotonic() - known.last < _SERIES_SECONDS:
            known.count += 1
            if not allowed:
                return
            try:
                await self._count_up(known)
            except NotFound:
                pass  # the event expired on the server: create a new one
            else:
                return
        if not allowed:
            _log.debug("event %s of %s is one too many", said.reason, said.regarding.name)
            return
        self._series[said] = await self._begin(said)
        while len(self._series) > _MAX_REMEMBERED:
            self._series.popitem(last=False)

    async def _count_up(self, series: _Series) -> None:
        body = {"count": series.count, "lastTimestamp": rfc3339(datetime.now(UTC))}
        await self._client.patch(EVENTS, series.name, series.namespace, body, PatchKind.MERGE, into=bytes)
        series.last = time.monotonic()

    async def _begin(self, said: _Said) -> _Series:
        namespace = said.regarding.namespace or "default"
        # client-go's name for an event: the object's name and a timestamp.
        name = f"{said.regarding.name[:200].rstrip('-.')}.{time.time_ns():x}"
        now = rfc3339(datetime.now(UTC))
        source = {"component": self.component} | ({"host": self.host} if self.host else {})
        body = {
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": said.regarding,
            "type": said.type,
            "reason": said.reason,
            "message": said.message,
            "source": source,
            "reportingComponent": self.component,
            "reportingInstance": self.host,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        await self._client.create(EVENTS, body, namespace, into=bytes)
        return _Series(name, namespace, 1, time.monotonic())


def _said(
    regarding: ObjectReference,
    type: Literal["Normal", "Warning"],  # noqa: A002 - the field's name
    reason: str,
    message: str,
) -> _Said:
    return _Said(regarding, type, reason, message.encode()[:_MESSAGE_BYTES].decode(errors="ignore"))
