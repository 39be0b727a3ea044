"""The claim controller and the scheduler together, over one set of caches."""

from contextlib import AsyncExitStack
from datetime import timedelta
from types import TracebackType
from typing import Self

from dradriver.allocator import Features
from dradriver.control.caches import Caches
from dradriver.control.claims import ClaimController
from dradriver.control.conditions import BINDING_TIMEOUT
from dradriver.control.executor import Executor
from dradriver.control.metrics import Metrics
from dradriver.control.scheduler import Scheduler
from dradriver.kube import Client, EventRecorder

__all__ = ["Controllers"]


class Controllers:
    """Everything of this package at work: `async with Controllers(client)`.

    Returns from `__aenter__` once all objects have been seen. Dies at any point: the next start goes on from
    the objects. There must be one at a time: two schedulers would give one device to two claims.

    Attributes:
        caches: the cluster as it is known here.
        metrics: what is counted.
    """

    def __init__(
        self,
        client: Client,
        *,
        features: Features | None = None,
        binding_timeout: timedelta = BINDING_TIMEOUT,
        setback: tuple[float, float] = (1.0, 10.0),
    ) -> None:
        """Controllers that do not run yet.

        Args:
            client: a session that may write claims, their status, pods' status and bindings, and events.
            features: what the allocator may use.
            binding_timeout: how long after its allocation a claim may wait for binding conditions.
            setback: the first and the longest wait in seconds before a pod whose devices did not get ready is
                tried again.
        """
        self.metrics = Metrics()
        self.caches = Caches(client)
        self.metrics.show_claims(self.caches.claims.items.values)
        say = EventRecorder(client, "default-scheduler")
        claims = EventRecorder(client, "resource_claim")
        self._recorders = (say, claims)
        self._claims = ClaimController(self.caches, Executor(client, self.caches, claims), self.metrics)
        executor = Executor(client, self.caches, say)
        self._scheduler = Scheduler(
            self.caches,
            executor,
            features=features,
            binding_timeout=binding_timeout,
            setback=setback,
            metrics=self.metrics,
        )
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            for recorder in self._recorders:
                await stack.enter_async_context(recorder)
            await stack.enter_async_context(self.caches)
            await stack.enter_async_context(self._claims)
            await stack.enter_async_context(self._scheduler)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()
