"""Leader election on a `coordination.k8s.io` Lease: one of several processes leads.

`kubernetes.aio.leaderelection` can't guarantee that a process which lost its lease has stopped before another
one begins. It uses the wall clock, its requests may outlast the renew deadline, it cancels its work without
waiting for the end, it does not notice work that ends by itself, and it never releases the lease. Therefore
this module has its own implementation.

If the process dies at any point, the lease stays with it until its duration has passed without a renewal.
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
    """This process no longer leads."""


def boot_time() -> float:
    """Return the seconds since boot, including time in which the machine slept or the process was stopped."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Leader:
    """One candidate for the lease.

    Call `await acquire()`, then `await keep()` while leading, and `await release()` at the end.

    Args:
        client: the API server; needs `get`, `create` and `update` on the lease.
        name, namespace: name and namespace of the lease.
        identity: the identity of this process; never used twice.
        timing: the durations of the lease.
        clock: returns seconds; must also advance while the process is stopped.

    Attributes:
        problem: why the last read or write of the lease failed; empty if it succeeded.
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
        """Return whether the renew deadline has not passed."""
        return self._clock() < self._renewed + self._timing.renew_deadline

    @property
    def seconds_left(self) -> float:
        """Return the seconds until this process must have stopped, because then another one may begin."""
        return self._renewed + self._timing.last_moment - self._clock()

    def check(self) -> None:
        """Raise unless this process leads. Call it before each action that only the leader may take.

        Raises:
            LeaseLostError: the renew deadline has passed.
        """
        if not self.leads:
            raise LeaseLostError(f"{self} was not renewed in time: another process may lead")

    async def acquire(self) -> None:
        """Wait until this process leads."""
        waiting_for = ""
        while not await self._try(self._timing.renew_deadline):
            holder = self._candidate.holder
            if holder and holder != waiting_for:
                _log.info("%s is held by %s: standing by", self, waiting_for := holder)
            await asyncio.sleep(self._timing.retry_period)
        _log.info("%s is held: this process leads", self)

    async def keep(self) -> None:
        """Renew the lease until cancelled.

        Raises:
            LeaseLostError: the lease was not renewed before the renew deadline, or another process has it.
        """
        while True:
            await asyncio.sleep(min(self._timing.retry_period, max(0.0, self._left())))
            self.check()
            await self._try(self._left())
            self.check()

    async def release(self) -> None:
        """Let another process lead at once. Call it only after all of the leader's work has stopped."""
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
        """Read the lease and, if allowed, write it. Return whether this process leads as a result."""
        try:
            async with asyncio.timeout(seconds):
                led = await self._read_and_write()
        except (AlreadyExists, Conflict):
            led = False  # another process was faster: the next attempt reads its lease
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
        self._renewed = now  # the time before the request: no other process can have seen the write earlier
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
