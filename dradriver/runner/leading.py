"""Run a driver of the control plane in several processes: only the holder of the Lease acts.

A process that loses its lease ends. At the renew deadline its tasks are canceled, and every later write and
call of the driver is rejected. A thread ends the process before the lease is over, in case the driver's code
does not yield, the loop is blocked, or the whole process was stopped meanwhile. One case is not covered: a
process that is stopped between such a check and the system call. The API server rejects its write by the
resource version.
"""

import asyncio
import logging
import os
import socket
import threading
import uuid
from collections.abc import Callable

from dradriver.aio.tasks import end
from dradriver.kube.leader import Leader
from dradriver.node.reporting.metrics import NodeMetrics
from dradriver.runner.pools import PoolProcess

__all__ = ["LeadingProcess", "Watchdog", "new_identity"]

_log = logging.getLogger("dradriver.runner")


def new_identity() -> str:
    """Return this process's lease identity: the host's name, which is the pod's name, and a unique suffix."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class Watchdog:
    """Ends the process if it still runs when its lease is about to expire: `with Watchdog(leader)`.

    Args:
        leader: returns the remaining time.
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
        while not self._ended.wait(max(0.0, self._leader.seconds_left)):
            if self._leader.seconds_left <= 0:
                _log.error("%s: not stopped in time, ending the process", self._leader)
                self._kill(1)
                return


class LeadingProcess:
    """Runs a pool driver's process while it is the leader: `await run(stop)`, once.

    Args:
        process: the work of the leader.
        leader: the candidate.

    Attributes:
        metrics: the metrics of the process.
    """

    def __init__(self, process: PoolProcess, leader: Leader) -> None:
        self.metrics: NodeMetrics = process.metrics
        self._process = process
        self._leader = leader
        self._leading = False

    @property
    def readiness(self) -> str:
        """Return why it neither works nor stands by; a standby is ready, so that a rollout continues."""
        if self._leading:
            return self._process.readiness
        return f"{self._leader}: {self._leader.problem}" if self._leader.problem else ""

    async def liveness(self) -> str:
        """Return the liveness of the process."""
        return await self._process.liveness()

    async def run(self, stop: asyncio.Event, grace: float) -> None:
        """Wait for the lease, work until `stop` is set, and release the lease.

        Raises:
            LeaseLostError: the lease could not be renewed.
            Exception: a defect. The process should end and be restarted.
        """
        stopping = asyncio.create_task(stop.wait(), name="wait for stop")
        acquiring = asyncio.create_task(self._leader.acquire(), name="acquire the lease")
        try:
            await asyncio.wait({stopping, acquiring}, return_when=asyncio.FIRST_COMPLETED)
            if acquiring.done():
                await acquiring
        finally:
            await end({stopping, acquiring})
        if self._leader.leads:
            with Watchdog(self._leader):
                if not stop.is_set():
                    await self._lead(stop, grace)
                await self._leader.release()

    async def _lead(self, stop: asyncio.Event, grace: float) -> None:
        self._leading = True
        working = asyncio.create_task(self._process.run(stop, grace), name="work")
        keeping = asyncio.create_task(self._leader.keep(), name="keep the lease")
        try:
            await asyncio.wait({working, keeping}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                working.cancel()
                await asyncio.gather(working, return_exceptions=True)
                await keeping
            await working
        finally:
            await end({working, keeping})
