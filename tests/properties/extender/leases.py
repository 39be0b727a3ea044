"""Leases in memory, pods with a kube-scheduler and an extender, and machines whose clocks differ."""

import asyncio
import random
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Self, TypeVar, cast

from msgspec.structs import replace

from dradriver.aio.tasks import end
from dradriver.errors import DraError
from dradriver.extender.protocol import Verbs
from dradriver.extender.serving.kube_scheduler_lease import KubeSchedulerLease
from dradriver.extender.serving.process import SchedulerProcess
from dradriver.kube import Client, NotFound
from dradriver.kube.errors import AlreadyExists, ApiError, Conflict, TooManyRequests, Unavailable
from dradriver.kube.http.request import WriteGuard
from dradriver.kube.leader import Leader, LeaseLostError
from dradriver.model.core.lease import Lease, LeaseTiming
from tests.unit.extender.serving.fakes import FakeVerbs

__all__ = ["LeaseServer", "PodOfScheduler", "WallClock", "WatchdogTask"]

T = TypeVar("T")

NAMESPACE = "kube-system"
EXTENDER, KUBE_SCHEDULER = "extender", "kube-scheduler"
CLIENT_SECONDS = 30.0
"""Time limit of a request (`Client.connect`)."""

_wall_offset: ContextVar[list[float]] = ContextVar("_wall_offset")


class WallClock(datetime):
    """The wall clock of the machine whose task runs now."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        seconds = asyncio.get_running_loop().time() + _wall_offset.get()[0]
        made = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
        return cast("Self", made.astimezone(tz))


class WatchdogTask:
    """Checks what the watchdog's thread checks: a process never works until its Lease is about to expire."""

    def __init__(self, leader: Leader) -> None:
        self._leader = leader
        self._task: asyncio.Task[None] | None = None

    def __enter__(self) -> None:
        self._task = asyncio.create_task(self._watch())

    def __exit__(self, *_: object) -> None:
        assert self._task is not None
        if self._task.done():
            self._task.result()
        self._task.cancel()

    async def _watch(self) -> None:
        while True:
            left = self._leader.seconds_left
            assert left == float("-inf") or left > 0, "the watchdog would kill the process"
            await asyncio.sleep(0.1)


@dataclass
class Network:
    """The network between one machine and the API server.

    Attributes:
        is_away: requests get no answer, or are refused.
        storm: the error of nine requests of ten; None: no error.
        slowest: the longest time that a request, and its answer, is on its way.
    """

    is_away: bool = False
    storm: Callable[[], ApiError] | None = None
    slowest: float = 0.0

    def calm(self) -> None:
        """End all faults."""
        self.is_away, self.storm, self.slowest = False, None, 0.0


class LeaseServer:
    """An API server with Leases, and other objects of which only the time of a write counts.

    Attributes:
        writes: the number of writes.
        violations: the writes of processes that did not hold their Lease.
    """

    def __init__(self, chance: random.Random) -> None:
        self.writes = 0
        self.violations: list[str] = []
        self._chance = chance
        self._version = 0
        self._leases: dict[str, Lease] = {}

    def holder(self, name: str) -> str:
        lease = self._leases.get(name)
        return lease.spec.holder_identity if lease is not None else ""

    async def request(self, network: Network, carry_out: Callable[[], T], seconds: float = CLIENT_SECONDS) -> T:
        """Carry out a request. The server may carry it out after the client has given it up."""
        served = asyncio.create_task(self._serve(network, carry_out, seconds))
        served.add_done_callback(lambda task: task.cancelled() or task.exception())
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.shield(served)
        except TimeoutError:
            raise Unavailable("no answer in time") from None
        except asyncio.CancelledError:
            if seconds < CLIENT_SECONDS and self._chance.random() < 0.5:
                served.cancel()  # the connection is closed before the server has passed the write to etcd
            raise

    async def _serve(self, network: Network, carry_out: Callable[[], T], seconds: float) -> T:
        if network.is_away:
            await asyncio.sleep(self._chance.choice([0.001, CLIENT_SECONDS]))
            raise Unavailable("away")
        delay = self._chance.random() * network.slowest
        await asyncio.sleep(delay)
        if delay > seconds:
            raise Unavailable("the server gives up a request after the time that it contains")
        if network.storm is not None and self._chance.random() < 0.9:
            raise network.storm()
        result = carry_out()
        await asyncio.sleep(self._chance.random() * network.slowest)
        if network.is_away:
            raise Unavailable("the answer is lost")
        return result

    def read(self, name: str) -> Lease:
        if name not in self._leases:
            raise NotFound(name)
        return self._leases[name]

    def create(self, lease: Lease) -> Lease:
        if lease.metadata.name in self._leases:
            raise AlreadyExists(lease.metadata.name)
        return self._store(lease)

    def update(self, lease: Lease) -> Lease:
        if lease.metadata.resource_version != self.read(lease.metadata.name).metadata.resource_version:
            raise Conflict(lease.metadata.name)
        return self._store(lease)

    def _store(self, lease: Lease) -> Lease:
        self._version += 1
        stored = replace(lease, metadata=replace(lease.metadata, resource_version=str(self._version)))
        self._leases[lease.metadata.name] = stored
        return stored

    def write(self, identity: str) -> None:
        """Store a write of an extender: only the holder of its Lease may write."""
        if self.holder(EXTENDER) != identity:
            self.violations.append(f"{self.holder(EXTENDER)} leads, and {identity} writes")
        self.writes += 1


class MemoryClient:
    """The requests of a `Client` that leaders send."""

    def __init__(self, server: LeaseServer, network: Network, guard: WriteGuard | None = None) -> None:
        self.namespace = NAMESPACE
        self.guard = guard
        self._server = server
        self._network = network

    def with_guard(self, guard: WriteGuard) -> "MemoryClient":
        return MemoryClient(self._server, self._network, guard)

    async def get(self, _resource: object, name: str, _namespace: str, *, into: object) -> Lease:
        return await self._server.request(self._network, lambda: self._server.read(name))

    async def create(self, _resource: object, body: Lease, _namespace: str, *, into: object) -> Lease:
        return await self._server.request(self._network, lambda: self._server.create(body))

    async def replace(self, _resource: object, body: Lease, _namespace: str, *, into: object) -> Lease:
        return await self._server.request(self._network, lambda: self._server.update(body))

    async def write(self, identity: str) -> None:
        """Write an object within the time that the guard allows."""
        assert self.guard is not None
        with self.guard() as seconds:
            await self._server.request(self._network, lambda: self._server.write(identity), seconds)


class PodOfScheduler:
    """A pod with both containers on a machine of its own. The kubelet starts each of them again.

    Attributes:
        network: the network between the machine and the API server.
        wall_offset: seconds by which the wall clock of the machine is wrong, as a list of one number.
        process: the extender that runs now.
    """

    def __init__(self, name: str, server: LeaseServer, chance: random.Random) -> None:
        self.wall_offset = [chance.choice([-10.0, 0.0, 10.0])]
        self.process: SchedulerProcess | None = None
        self._name, self._server, self._chance = name, server, chance
        self.network = Network()
        self._client = cast("Client", MemoryClient(server, self.network))
        self._rate, self._boot = chance.uniform(0.99, 1.01), chance.uniform(0, 1e6)
        self._identity = ""
        self._stop = asyncio.Event()
        self._containers: dict[str, asyncio.Task[None]] = {}
        self._kubelet: list[asyncio.Task[None]] = []

    @property
    def is_ready(self) -> bool:
        return self.process is not None and not self.process.readiness

    async def __aenter__(self) -> Self:
        _wall_offset.set(self.wall_offset)
        runs = {EXTENDER: self._run_extender, KUBE_SCHEDULER: self._run_kube_scheduler}
        self._kubelet = [asyncio.create_task(self._restart(name, run)) for name, run in runs.items()]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._kubelet:
            task.cancel()
        ended = await asyncio.gather(*self._kubelet, return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError) for each in ended), ended

    def kill(self, container: str) -> None:
        """Kill a process; nothing is released."""
        self._containers[container].cancel()

    def stop_extender(self) -> None:
        """End the extender as SIGTERM does; it releases its Lease if none of its writes may still be stored."""
        self._stop.set()

    async def _restart(self, name: str, run: Callable[[], Any]) -> None:
        while True:
            self._containers[name] = task = asyncio.create_task(run())
            try:
                await asyncio.wait({task})
            finally:
                task.cancel()
            if not task.cancelled() and (error := task.exception()) is not None:
                assert isinstance(error, LeaseLostError), repr(error)
            await asyncio.sleep(self._chance.uniform(1, 10))

    def _clock(self) -> float:
        return asyncio.get_running_loop().time() * self._rate + self._boot

    def _leader(self, name: str) -> Leader:
        identity = f"{self._name}_{uuid.UUID(int=self._chance.getrandbits(128))}"
        if name == EXTENDER:
            self._identity = identity
        return Leader(self._client, name, NAMESPACE, identity, LeaseTiming(), clock=self._clock)

    async def _run_extender(self) -> None:
        lease = KubeSchedulerLease(self._client, KUBE_SCHEDULER, NAMESPACE, self._name)
        new_leader = lambda: self._leader(EXTENDER)  # noqa: E731 - one expression
        process = SchedulerProcess(self._client, self._serve, new_leader=new_leader, kube_scheduler=lease)
        self.process, self._stop = process, asyncio.Event()
        try:
            await process.run(self._stop, 1.0)
        finally:
            self.process = None

    async def _run_kube_scheduler(self) -> None:
        """Lead as long as the Lease can be renewed, as kube-scheduler does, which then ends."""
        leader = self._leader(KUBE_SCHEDULER)
        await leader.acquire()
        await leader.keep()

    @asynccontextmanager
    async def _serve(self, client: Client) -> AsyncIterator[Verbs]:
        writing = [
            asyncio.create_task(self._write(cast("MemoryClient", client), self._identity)) for _ in range(8)
        ]
        try:
            yield FakeVerbs()
        finally:
            await end(set(writing))

    async def _write(self, client: MemoryClient, identity: str) -> None:
        while True:
            try:
                await client.write(identity)
            except DraError:
                await asyncio.sleep(0.1)
            await asyncio.sleep(self._chance.random())


STORMS: tuple[Callable[[], ApiError], ...] = (
    lambda: Conflict("fault", status=409),
    lambda: TooManyRequests("fault", status=429),
    lambda: Unavailable("fault", status=500),
)
