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

_MAX_SERIES: Final = 256
_MAX_QUEUED: Final = 1000
_DRAIN_SECONDS: Final = 0.8
_SERIES_SECONDS: Final = 600.0
"""A repeat within this time increments the count of the first event (as in client-go).

A later repeat is a new event.
"""
_MESSAGE_BYTES: Final = 1024
_REFILL_SECONDS: Final = 300.0
_MAX_OBJECTS: Final = 4096


class _EventKey(NamedTuple):
    """The key of an event. An event with the key of an earlier event is a repeat of it."""

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


class _RateLimit:
    """Limits the rate of events for each object: a burst, then one event per five minutes."""

    def __init__(self, burst: int) -> None:
        self._burst = float(burst)
        self._tokens: OrderedDict[ObjectReference, tuple[float, float]] = OrderedDict()

    def take(self, regarding: ObjectReference) -> bool:
        """Return whether one more event about the object may be written now. If it may, count the event."""
        now = time.monotonic()
        tokens, updated = self._tokens.pop(regarding, (self._burst, now))
        tokens = min(self._burst, tokens + (now - updated) / _REFILL_SECONDS)
        self._tokens[regarding] = (tokens - 1 if tokens >= 1 else tokens, now)
        while len(self._tokens) > _MAX_OBJECTS:
            self._tokens.popitem(last=False)
        return tokens >= 1


class EventRecorder:
    """Writes the events of one component and aggregates repeats. Every `kubectl` shows these core `v1` events.

    Inside `async with recorder`, `post` returns at once and one task writes the events in the background. If
    events are posted faster than the server accepts them, some are dropped (as in client-go). At the end of
    `async with`, the task has a short time to write the remaining events. If the process dies, unwritten events
    are lost. If the server rejects events, the recorder logs this once, and again only after the server has
    accepted an event.

    Args:
        client: the API server.
        component: the reporting component, for example the driver's name.
        host: the node on which the component runs, if any.
        burst: how many events about one object may be written at once. After the burst, one event per five
            minutes is written. The count of the next written event includes the events that were not written.
            client-go uses 25. None: all events are written.
    """

    def __init__(self, client: Client, component: str, host: str = "", burst: int | None = None) -> None:
        self.component = component
        self.host = host
        self._rate_limit = _RateLimit(burst) if burst else None
        self._problem: tuple[type[DraError], int] | None = None
        self._lost_count = 0
        self._client = client
        self._series: OrderedDict[_EventKey, _Series] = OrderedDict()
        self._lock = asyncio.Lock()
        self._queue: asyncio.Queue[_EventKey] = asyncio.Queue(_MAX_QUEUED)
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._write_queued(), name=f"events of {self.component}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        if task is None:
            return
        try:
            async with asyncio.timeout(_DRAIN_SECONDS):
                await self._queue.join()
        except TimeoutError:
            _log.warning("%d events of %s are lost", self._queue.qsize() + 1, self.component)
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

        Inside `async with recorder`, the event is queued as `post` does.

        Args:
            regarding: the object that the event is about.
            type: `Normal` or `Warning`.
            reason: a CamelCase word for programs.
            message: a sentence for people. It is shortened to 1024 bytes.
        """
        if self._task is None:
            await self._write(_make_key(regarding, type, reason, message))
        else:
            self.post(regarding, type, reason, message)

    def post(
        self,
        regarding: ObjectReference,
        type: Literal["Normal", "Warning"],  # noqa: A002 - the field's name
        reason: str,
        message: str,
    ) -> None:
        """Queue an event. The recorder's task writes it. Call this in the recorder's event loop.

        Args:
            regarding: the object that the event is about.
            type: `Normal` or `Warning`.
            reason: a CamelCase word for programs.
            message: a sentence for people. It is shortened to 1024 bytes.
        """
        try:
            self._queue.put_nowait(_make_key(regarding, type, reason, message))
        except asyncio.QueueFull:
            _log.warning("event %s of %s %s is lost: the queue is full", reason, regarding.kind, regarding.name)

    async def _write_queued(self) -> None:
        while True:
            event = await self._queue.get()
            try:
                await self._write(event)
            except Exception:  # a defect must not prevent later events
                _log.exception("event %s", event)
            finally:
                self._queue.task_done()

    async def _write(self, event: _EventKey) -> None:
        try:
            async with self._lock:
                await self._write_or_increment(event)
        except DraError as error:
            self._record_failure(event, error)
        else:
            self._record_recovery()

    def _record_failure(self, event: _EventKey, error: DraError) -> None:
        self._lost_count += 1
        problem = (type(error), getattr(error, "status", 0))
        if problem != self._problem:
            subject = f"event {event.reason} of {event.regarding.kind} {event.regarding.name}"
            _log.warning("%s is lost, and others until the API server accepts one: %s", subject, error)
        self._problem = problem

    def _record_recovery(self) -> None:
        if self._problem is not None:
            _log.info("events are written again, %d were lost", self._lost_count)
        self._problem, self._lost_count = None, 0

    async def _write_or_increment(self, event: _EventKey) -> None:
        known = self._series.get(event)
        is_allowed = self._rate_limit is None or self._rate_limit.take(event.regarding)
        if known is not None and time.monotonic() - known.last < _SERIES_SECONDS:
            known.count += 1
            if not is_allowed:
                return
            try:
                await self._increment(known)
            except NotFound:
                pass  # the event expired on the server: create a new one
            else:
                return
        if not is_allowed:
            _log.debug("event %s of %s exceeds the rate limit", event.reason, event.regarding.name)
            return
        self._series[event] = await self._create_event(event)
        while len(self._series) > _MAX_SERIES:
            self._series.popitem(last=False)

    async def _increment(self, series: _Series) -> None:
        body = {"count": series.count, "lastTimestamp": rfc3339(datetime.now(UTC))}
        await self._client.patch(EVENTS, series.name, series.namespace, body, PatchKind.MERGE, into=bytes)
        series.last = time.monotonic()

    async def _create_event(self, event: _EventKey) -> _Series:
        namespace = event.regarding.namespace or "default"
        # As in client-go, the name of an event consists of the object's name and a timestamp.
        name = f"{event.regarding.name[:200].rstrip('-.')}.{time.time_ns():x}"
        now = rfc3339(datetime.now(UTC))
        source = {"component": self.component} | ({"host": self.host} if self.host else {})
        body = {
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": event.regarding,
            "type": event.type,
            "reason": event.reason,
            "message": event.message,
            "source": source,
            "reportingComponent": self.component,
            "reportingInstance": self.host,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        await self._client.create(EVENTS, body, namespace, into=bytes)
        return _Series(name, namespace, 1, time.monotonic())


def _make_key(
    regarding: ObjectReference,
    type: Literal["Normal", "Warning"],  # noqa: A002 - the field's name
    reason: str,
    message: str,
) -> _EventKey:
    return _EventKey(regarding, type, reason, message.encode()[:_MESSAGE_BYTES].decode(errors="ignore"))
