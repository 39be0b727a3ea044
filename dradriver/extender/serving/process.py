"""Run the scheduler's process: wait for its term, schedule, and stop.

The server listens from the start to the end. The verbs, with their caches and controllers, exist only while
this process leads. If the process dies at any point, another process leads after the lease duration. It reads
everything from the API server.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, TypeAlias

from prometheus_client import CollectorRegistry

from dradriver.aio.tasks import end
from dradriver.extender.protocol import Verbs
from dradriver.extender.serving.kube_scheduler_lease import KubeSchedulerLease
from dradriver.extender.serving.metrics import ExtenderMetrics
from dradriver.extender.serving.verb_calls import VerbCalls
from dradriver.kube import Client
from dradriver.kube.leader import Leader
from dradriver.kube.leading import Leadership

__all__ = ["SchedulerProcess", "VerbsFactory"]

VerbsFactory: TypeAlias = Callable[[Client], AbstractAsyncContextManager[Verbs]]
"""Starts the verbs, and stops them at the end of the context.

The factory is called once for each term as leader, with a client whose writes are rejected after the term. When
the context is entered, the verbs must have read all objects that they need. If their background tasks fail, the
context must cancel its body and raise the error, as asyncio.TaskGroup does.
"""


class SchedulerProcess:
    """Answers a kube-scheduler while this process leads; call `await run(stop, grace)` once.

    Args:
        client: the API server.
        verbs: starts the verbs.
        new_leader: returns a new candidate for the Lease of the extender. None: there is no leader election, so
            no other process of the extender may run.
        kube_scheduler: with `new_leader`: the Lease of the kube-scheduler in the same pod. This process
            competes for its own Lease only while that kube-scheduler leads. None: it always competes.
        registry: the registry of the metrics. None: a new one.

    Attributes:
        calls: runs the verbs.
        metrics: the metrics of the process.
    """

    def __init__(
        self,
        client: Client,
        verbs: VerbsFactory,
        *,
        new_leader: Callable[[], Leader] | None,
        kube_scheduler: KubeSchedulerLease | None = None,
        registry: CollectorRegistry | None = None,
    ) -> None:
        self.calls = VerbCalls(lambda: self.readiness)
        self.metrics = ExtenderMetrics(registry)
        self._client = client
        self._start_verbs = verbs
        self._new_leader = new_leader
        self._kube_scheduler = kube_scheduler
        self._leadership: Leadership | None = None
        self._is_stopping = False

    @property
    def readiness(self) -> str:
        """Return why this process does not answer calls; empty if it does. A standby is not ready."""
        if self._is_stopping:
            return "this process stops"
        if self._leadership is not None and (standby := self._leadership.standby):
            return standby
        if self._leadership is None and self._kube_scheduler is not None and self._kube_scheduler.standby:
            return self._kube_scheduler.standby
        return "" if self.calls.is_open else "this process has not read the cluster yet"

    @property
    def standby_readiness(self) -> str:
        """Return why this process neither answers calls nor waits for its term; else ""."""
        if self._is_stopping:
            return self.readiness
        if self._leadership is not None:
            return self.readiness if self._leadership.is_working else self._leadership.problem
        return self.readiness if self._kube_scheduler is None else self._kube_scheduler.problem

    async def liveness(self) -> str:
        """Return "", because an answer already proves that the event loop is not blocked."""
        return ""

    async def run(self, stop: asyncio.Event, grace: float) -> None:
        """Schedule in each term as leader, until `stop` is set.

        Args:
            stop: ends the process.
            grace: seconds for calls in progress when the process stops. If only a term ends, they are canceled.

        Raises:
            LeaseLostError: the Lease of the extender could not be renewed. The caller should end the process.
            Exception: the verbs failed. The caller should end the process, so that it is restarted.
        """
        stop_task = asyncio.create_task(self._note_stop(stop), name="wait for stop")
        try:
            while not stop.is_set():
                await self._serve_term(stop, grace)
        finally:
            await end({stop_task})

    async def _note_stop(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._is_stopping = True

    async def _serve_term(self, stop: asyncio.Event, grace: float) -> None:
        """Wait until the kube-scheduler beside this process leads, and lead as long as it does."""
        if self._new_leader is None:
            await self._work(self._client, stop, grace)
            return
        if self._kube_scheduler is None:
            await self._lead(self._new_leader(), stop, grace)
            return
        leader = self._new_leader()
        # The Lease of the last leader expires while its kube-scheduler is replaced, not only after this.
        await _wait_for_first(stop.wait(), self._kube_scheduler.wait_until_held(), leader.observe())
        if stop.is_set():
            return
        end_of_term = asyncio.Event()
        lost = _wait_for_first(stop.wait(), self._kube_scheduler.wait_until_lost())
        watch = asyncio.create_task(lost, name="follow kube-scheduler")
        watch.add_done_callback(lambda _task: end_of_term.set())
        try:
            await self._lead(leader, end_of_term, grace)
            await watch
        finally:
            await end({watch})
            self._leadership = None

    async def _lead(self, leader: Leader, stop: asyncio.Event, grace: float) -> None:
        self._leadership = Leadership(leader)
        guarded = self._client.with_guard(leader.limit_write)
        await self._leadership.run(partial(self._work, guarded, stop, grace), stop)

    async def _work(self, client: Client, stop: asyncio.Event, grace: float) -> None:
        has_started = asyncio.Event()
        serving = asyncio.create_task(self._serve(client, stop, grace, has_started), name="verbs")
        stopping = asyncio.create_task(stop.wait(), name="wait for the end of the term")
        try:
            await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
            # A start that still reads the cluster is canceled. Calls in progress get their grace.
            if serving.done() or has_started.is_set():
                await serving
        finally:
            await end({serving, stopping})

    async def _serve(
        self, client: Client, stop: asyncio.Event, grace: float, has_started: asyncio.Event
    ) -> None:
        async with self._start_verbs(client) as verbs:
            has_started.set()
            self.calls.open(verbs)
            self.metrics.show_leading(is_leading=True)
            try:
                await stop.wait()
            finally:
                self.metrics.show_leading(is_leading=False)
                # A kube-scheduler that has lost its Lease ends or is paused, so it reads no answer any more.
                await self.calls.close(grace if self._is_stopping else 0)


async def _wait_for_first(*waits: Coroutine[Any, Any, object]) -> None:
    """Return when one of the coroutines has ended, and cancel the others; raise its exception."""
    tasks = {asyncio.create_task(wait, name="wait for a term") for wait in waits}
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            await task
    finally:
        await end(tasks)
