"""Leader election on a `coordination.k8s.io` Lease: of several processes one leads.

Written here because `kubernetes.aio.leaderelection` can't keep the promise that a process which has lost
its lease has stopped before another one begins: it counts by the wall clock, its requests may outlast the
renew deadline, it cancels its work without waiting for the end, it does not notice work that ends by
itself, and it never releases the lease.

Dies anywhere: the lease stays with the dead process until it has not been renewed for its duration.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from dradriver.errors import DraError
from dradriver.kube.client import Client
from dradriver.kube.errors import AlreadyExists, Conflict, NotFound
from dradriver.kube.resources import LEASES
from dradriver.model.core.lease import Candidate, Lease, LeaseSpec, LeaseTiming
from dradriver.model.core.meta import ObjectMeta

__all__ = ["Leader", "LeaseLostError", "boot_time"]

_log = logging.getLogger(__name__)

_NEVER: Final = float("-inf")


class LeaseLostError(DraError):
    """This process does not lead any more."""


def boot_time() -> float:
    """Seconds since boot, those in which the machine slept or the process was stopped included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Leader:
    """One candidate: `await acquire()`, `await keep()` while leading, `await release()` at last.

    Args:
        client: the API server; it needs `get`, `create` and `update` on the lease.
        name, namespace: the lease's.
        identity: this process's, unique for all time.
        timing: how long the lease holds.
        clock: seconds; must not stand still while the process does.

    Attributes:
        problem: why the lease can't be read or written; empty when that went well last.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        namespace: str,
        identity: str,
        timing: LeaseTiming,
        *,
        clock: Callable[[], float] = boot_time,
    ) -> None:
        self.problem = ""
        self._client = client
        self._name = name
        self._namespace = namespace
        self._timing = timing
        self._clock = clock
        self._candidate = Candidate(identity, timing)
        self._metadata: ObjectMeta | None = None
        self._renewed = _NEVER

    def __str__(self) -> str:
        return f"lease {self._namespace}/{self._name}"

    @property
    def leads(self) -> bool:
        """Whether the renew deadline is not over."""
        return self._clock() < self._renewed + self._timing.renew_deadline

    @property
    def seconds_left(self) -> float:
        """Until the process must have stopped, whatever it does: before another one may begin."""
        return self._renewed + self._timing.last_moment - self._clock()

    def check(self) -> None:
        """Asked before anything that only a leader does.

        Raises:
            LeaseLostError: the renew deadline is over.
        """
        if not self.leads:
            raise LeaseLostError(f"{self} was not renewed in time: another process may lead")

    async def acquire(self) -> None:
        """Returns when this process leads; waits as long as another one does."""
        waiting_for = ""
        while not await self._try(self._timing.renew_deadline):
            holder = self._candidate.holder
            if holder and holder != waiting_for:
                _log.info("%s is held by %s: standing by", self, waiting_for := holder)
            await asyncio.sleep(self._timing.retry_period)
        _log.info("%s is held: this process leads", self)

    async def keep(self) -> None:
        """Renews the lease until it is cancelled.

        Raises:
            LeaseLostError: the lease was not renewed until the renew deadline, or another process has it.
        """
        while True:
            await asyncio.sleep(min(self._timing.retry_period, max(0.0, self._left())))
            self.check()
            await self._try(self._left())
            self.check()

    async def release(self) -> None:
        """Lets another process lead at once; only when all has stopped that a leader does."""
        spec = self._candidate.release()
        if not self.leads or spec is None:
            return
        try:
            async with asyncio.timeout(self._left()):
                await self._write(spec, self._clock())
        except (DraError, TimeoutError) as error:
            _log.warning("%s can't be released, it ends by itself: %s", self, str(error) or "no answer in time")
        self._renewed = _NEVER

    def _left(self) -> float:
        return self._renewed + self._timing.renew_deadline - self._clock()

    async def _try(self, seconds: float) -> bool:
        """Reads the lease, and writes it if that is allowed; whether this process leads by that."""
        try:
            async with asyncio.timeout(seconds):
                led = await self._read_and_write()
        except (AlreadyExists, Conflict):
            led = False  # another one was faster: its lease is read next
        except (DraError, TimeoutError) as error:
            if self.problem != (problem := str(error) or "no answer in time"):
                _log.warning("%s: %s", self, problem)
            self.problem = problem
            return False
        self.problem = ""
        return led

    async def _read_and_write(self) -> bool:
        try:
            lease = await self._client.get(LEASES, self._name, self._namespace, into=Lease)
        except NotFound:
            self._metadata = None
        else:
            self._metadata = lease.metadata
            self._candidate.see(lease.spec, self._clock())
        spec = self._candidate.claim(now := self._clock(), datetime.now(UTC))
        if spec is None:
            self._renewed = _NEVER
            return False
        await self._write(spec, now)
        self._renewed = now  # from before the request: nobody can have seen it earlier
        return True

    async def _write(self, spec: LeaseSpec, now: float) -> None:
        if self._metadata is None:
            body = Lease(metadata=ObjectMeta(name=self._name, namespace=self._namespace), spec=spec)
            written = await self._client.create(LEASES, body, self._namespace, into=Lease)
        else:
            body = Lease(metadata=self._metadata, spec=spec)
            written = await self._client.replace(LEASES, body, self._namespace, into=Lease)
        self._metadata = written.metadata
        self._candidate.see(written.spec, now)
