"""Do work only while this process holds a Lease: one of several processes works, the others stand by.

If the process loses its Lease, its work is canceled at the renew deadline, and every later write and call of
the work is rejected (`Leader.check`, `Leader.limit_write`). If the work does not yield, the event loop is
blocked, or the whole process was stopped for some time, a thread ends the process before the Lease expires.

These writes may still be stored after another process has begun to lead:

- a write whose bytes the network delivers late. kube-apiserver is asked to give up each write in time, but it
  counts this time from the arrival of the write.
- a write that kube-apiserver has passed to etcd before the time was over, but that etcd stores later.
- a write before whose system call the process was stopped, right after the check of the Lease.

If another process has changed the object meanwhile, the API server rejects such a write, because its resource
version is old. A late allocation of a claim changes no object of another process, so the scheduler searches for
late allocations and reverts them, and reports late bindings (`dradriver.control.conflicts`).
"""

import asyncio
import logging
import os
import socket
import threading
import uuid
from collections.abc import Callable, Coroutine
from typing import Any

from dradriver.aio.tasks import end
from dradriver.kube.leader import Leader

__all__ = ["Leadership", "Watchdog", "new_identity"]

_log = logging.getLogger(__name__)


def new_identity() -> str:
    """Return a new identity for the Lease: the host name, which is the pod's name, and a unique suffix."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class Watchdog:
    """Ends the process if it still runs when its Lease is about to expire: `with Watchdog(leader)`.

    The leader's clock also advances while the process is stopped or the machine sleeps. The thread waits with a
    clock that advances while the process is stopped, but not while the machine sleeps. So the thread compares
    the leader's clock at least once in each retry period.

    Args:
        leader: the candidate for the Lease, which knows the remaining time.
        kill: ends the process immediately.
    """

    def __init__(self, leader: Leader, kill: Callable[[int], object] = os._exit) -> None:
        self._leader = leader
        self._kill = kill
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog of the lease", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(min(max(0.0, self._leader.seconds_left), self._leader.retry_period)):
            if self._leader.seconds_left <= 0:
                _log.error("%s: the process did not stop in time, killing it", self._leader)
                self._kill(1)
                return


class Leadership:
    """Runs work while this process is the leader; call `await run(work, stop)` once.

    Whether a standby counts as ready depends on the work, so the caller decides. A Service must not send
    requests to a standby of the scheduler: this caller returns `standby` as its readiness. No request is sent
    to a pool driver, and a rollout of its Deployment must continue while the old leader still works: this
    caller returns `problem` as its readiness while `is_working` is False.

    Args:
        leader: the candidate for the Lease.

    Attributes:
        is_working: whether the work has begun.
    """

    def __init__(self, leader: Leader) -> None:
        self.is_working = False
        self._leader = leader

    @property
    def problem(self) -> str:
        """Return why the Lease cannot be read or written; empty if it can."""
        return f"{self._leader}: {self._leader.problem}" if self._leader.problem else ""

    @property
    def standby(self) -> str:
        """Return why this process does not lead and work now; empty if it does."""
        if self.is_working and self._leader.is_leading:
            return ""
        return self.problem or f"{self._leader} is held by {self._leader.holder or 'no process'}"

    async def run(self, work: Callable[[], Coroutine[Any, Any, None]], stop: asyncio.Event) -> None:
        """Wait for the Lease, do the work, and release the Lease after the end of the work.

        Args:
            work: does the work until `stop` is set. It is called once this process leads, so everything that it
                reads is newer than the writes of the leader before. It is canceled at the renew deadline.
            stop: ends the wait for the Lease.

        Raises:
            LeaseLostError: the Lease could not be renewed. The caller should end the process.
            Exception: the work failed. The caller should end the process, so that the process is restarted.
        """
        stop_task = asyncio.create_task(stop.wait(), name="wait for stop")
        acquire_task = asyncio.create_task(self._leader.acquire(), name="acquire the lease")
        try:
            await asyncio.wait({stop_task, acquire_task}, return_when=asyncio.FIRST_COMPLETED)
            if acquire_task.done():
                await acquire_task
        finally:
            await end({stop_task, acquire_task})
        if self._leader.is_leading:
            if not stop.is_set():
                with Watchdog(self._leader):
                    await self._lead(work)
            # Without the watchdog: a released Lease has no time left, and no work is left to end.
            await self._leader.release()

    async def _lead(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.is_working = True
        work_task = asyncio.create_task(work(), name="work")
        keep_task = asyncio.create_task(self._leader.keep(), name="keep the lease")
        try:
            await asyncio.wait({work_task, keep_task}, return_when=asyncio.FIRST_COMPLETED)
            if not work_task.done():
                work_task.cancel()
                await asyncio.gather(work_task, return_exceptions=True)
                await keep_task
            await work_task
        finally:
            await end({work_task, keep_task})
