"""Leader election with a `coordination.k8s.io` Lease: one of several processes leads.

`kubernetes.aio.leaderelection` is not used, because it can't guarantee that a process that lost the lease stops
before another process begins. It uses the wall clock, and its requests may take longer than the renew deadline.
It cancels the leader's work without waiting for its end, and does not notice if the work ends by itself. It
never releases the lease.

If the process dies at any point, it keeps the lease until the lease duration has passed without a renewal.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

from dradriver.errors import DraError
from dradriver.kube.client import Client
from dradriver.kube.errors import AlreadyExists, Conflict, NotFound, Unavailable
from dradriver.kube.resources import LEASES
from dradriver.model.core.lease import Candidate, Lease, LeaseSpec, LeaseTiming
from dradriver.model.core.meta import ObjectMeta

__all__ = ["Leader", "LeaseLostError", "boot_time"]

_log = logging.getLogger(__name__)

_NEVER: Final = float("-inf")


class LeaseLostError(DraError):
    """This process no longer leads."""


def boot_time() -> float:
    """Return the seconds since boot. Time in which the machine sleeps or the process is stopped counts."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Leader:
    """One candidate for the lease.

    Call `await acquire()`, then `await keep()` while leading, and `await release()` at the end.

    Args:
        client: the client for the API server. Its user needs `get`, `create` and `update` on the lease.
        name, namespace: name and namespace of the lease.
        identity: the identity of this process. An identity must never be used by two processes.
        timing: the durations of the lease.
        clock: returns seconds. It must also advance while the process is stopped.

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
        self._unanswered_end = _NEVER

    def __str__(self) -> str:
        return f"lease {self._namespace}/{self._name}"

    @property
    def is_leading(self) -> bool:
        """Return whether the renew deadline has not passed."""
        return self._clock() < self._renewed + self._timing.renew_deadline

    @property
    def seconds_left(self) -> float:
        """Return the seconds until another process may begin to lead. This process must stop before then."""
        return self._renewed + self._timing.kill_deadline - self._clock()

    @property
    def retry_period(self) -> float:
        """Return the seconds between two attempts to acquire or renew the lease."""
        return self._timing.retry_period

    @property
    def holder(self) -> str:
        """Return the identity of the leader that was last observed; empty if there is none."""
        return self._candidate.holder

    def check(self) -> None:
        """Raise if this process does not lead. Call this before each action that only the leader may take.

        Raises:
            LeaseLostError: the renew deadline has passed.
        """
        if not self.is_leading:
            raise LeaseLostError(f"{self} was not renewed in time: another process may lead")

    @contextmanager
    def limit_write(self) -> Generator[float, None, None]:
        """Guard one attempt of a write; see `Client.with_guard`.

        The write ends before another process may begin to lead, even if it begins right before the renew
        deadline. If it ends without an answer, the API server may still store it. Then the lease is not
        released before the time at which it would expire if this write were the last action of the leader.

        Yields:
            The seconds after which the write must have ended.

        Raises:
            LeaseLostError: the renew deadline has passed.
        """
        self.check()
        end = self._renewed + self._timing.duration
        try:
            yield self.seconds_left
        except BaseException as error:
            if _may_be_stored(error):
                self._unanswered_end = max(self._unanswered_end, end)
            raise

    async def observe(self) -> None:
        """Read the lease in each retry period, without acquiring it, until this call is cancelled.

        The time since the last renewal counts for a later `acquire()`, which then need not wait for the lease
        duration.
        """
        while True:
            await self._attempt(self._timing.renew_deadline, acquires=False)
            await asyncio.sleep(self._timing.retry_period)

    async def acquire(self) -> None:
        """Wait until this process leads."""
        logged_holder = ""
        while not await self._attempt(self._timing.renew_deadline):
            holder = self._candidate.holder
            if holder and holder != logged_holder:
                _log.info("%s is held by %s, waiting", self, logged_holder := holder)
            await asyncio.sleep(self._timing.retry_period)
        _log.info("%s is acquired, this process leads", self)

    async def keep(self) -> None:
        """Renew the lease until this call is cancelled.

        Raises:
            LeaseLostError: the lease was not renewed before the renew deadline, or another process has it.
        """
        while True:
            await asyncio.sleep(min(self._timing.retry_period, max(0.0, self._seconds_to_deadline())))
            self.check()
            await self._attempt(self._seconds_to_deadline())
            self.check()

    async def release(self) -> None:
        """Release the lease, so that another process can lead at once. First end all work of this leader.

        If the API server may still store a write of this leader, the lease is kept until it expires.
        """
        spec = self._candidate.release()
        if not self.is_leading or spec is None:
            return
        if self._clock() < self._unanswered_end:
            _log.warning("%s: expires, because a write without an answer may still be stored", self)
        else:
            await self._write_release(spec)
        self._renewed = _NEVER

    async def _write_release(self, spec: LeaseSpec) -> None:
        try:
            async with asyncio.timeout(self._seconds_to_deadline()):
                await self._write(spec, self._clock())
        except (DraError, TimeoutError) as error:
            _log.warning("%s: cannot be released, it expires: %s", self, str(error) or "no answer in time")

    def _seconds_to_deadline(self) -> float:
        return self._renewed + self._timing.renew_deadline - self._clock()

    async def _attempt(self, seconds: float, *, acquires: bool = True) -> bool:
        """Read the lease and, if allowed, take or renew it. Return whether this process leads now."""
        try:
            async with asyncio.timeout(seconds):
                await self._read()
                is_leading_now = acquires and await self._claim()
        except (AlreadyExists, Conflict):
            is_leading_now = False  # another process wrote first: the next attempt reads that write
        except (DraError, TimeoutError) as error:
            if self.problem != (problem := str(error) or "no answer in time"):
                _log.warning("%s: %s", self, problem)
            self.problem = problem
            return False
        self.problem = ""
        return is_leading_now

    async def _read(self) -> None:
        try:
            lease = await self._client.get(LEASES, self._name, self._namespace, into=Lease)
        except NotFound:
            self._metadata = None
        else:
            self._metadata = lease.metadata
            self._candidate.observe(lease.spec, self._clock())

    async def _claim(self) -> bool:
        spec = self._candidate.claim(now := self._clock(), datetime.now(UTC))
        if spec is None:
            self._renewed = _NEVER
            return False
        await self._write(spec, now)
        self._renewed = now  # the time before the request, because no other process can see the write earlier
        return True

    async def _write(self, spec: LeaseSpec, now: float) -> None:
        if self._metadata is None:
            body = Lease(metadata=ObjectMeta(name=self._name, namespace=self._namespace), spec=spec)
            written = await self._client.create(LEASES, body, self._namespace, into=Lease)
        else:
            body = Lease(metadata=self._metadata, spec=spec)
            written = await self._client.replace(LEASES, body, self._namespace, into=Lease)
        self._metadata = written.metadata
        self._candidate.observe(written.spec, now)


def _may_be_stored(error: BaseException) -> bool:
    """Return whether the API server may store a write, or has stored it, although it ended with this error."""
    if isinstance(error, Unavailable):
        return error.sent
    return not isinstance(error, DraError)
