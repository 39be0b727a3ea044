"""The controllers and the scheduler together, over one set of caches."""

from contextlib import AsyncExitStack
from datetime import timedelta
from types import TracebackType
from typing import Self

from dradriver.allocator import MAX_STEPS, ORDERED, Features, Order
from dradriver.control.claims.controller import ClaimController
from dradriver.control.extended import ScoringStrategy
from dradriver.control.pools.controller import NAME as POOLS
from dradriver.control.pools.controller import PoolController
from dradriver.control.pools.pool_index import PoolIndex
from dradriver.control.runtime.caches import Caches
from dradriver.control.runtime.executor import Executor
from dradriver.control.runtime.metrics import ControlMetrics
from dradriver.control.scheduler.binding_conditions import BINDING_TIMEOUT
from dradriver.control.scheduler.scheduler import Scheduler
from dradriver.control.settings import SchedulerSettings
from dradriver.control.taints.eviction_controller import NAME as EVICTION
from dradriver.control.taints.eviction_controller import EvictionController
from dradriver.kube import Client, EventRecorder

__all__ = ["Controllers"]


class Controllers:
    """Runs the whole control plane: `async with Controllers(client)`.

    `__aenter__` returns when the caches have read all objects. If the process dies at any point, the next start
    continues from the objects. Only one instance may run at a time: two schedulers would give one device to two
    claims.

    Attributes:
        caches: the cached objects of the cluster.
        metrics: the metrics of scheduler and controllers.
    """

    def __init__(
        self,
        client: Client,
        *,
        features: Features | None = None,
        binding_timeout: timedelta = BINDING_TIMEOUT,
        setback: tuple[float, float] = (1.0, 10.0),
        max_steps: int = MAX_STEPS,
        order: Order = ORDERED,
        taint_rules: bool = True,
        scoring: ScoringStrategy | None = None,
    ) -> None:
        """Create controllers that do not run yet.

        Args:
            client: a session that may write claims, their status, pods' status and bindings, rules' status and
                events, and delete claims and pods.
            features: the features that the allocator may use.
            binding_timeout: how long after its allocation a claim may wait for binding conditions.
            setback: the first and the longest wait in seconds before the next attempt for a pod whose devices
                did not get ready, or for which a write was refused.
            max_steps: number of tried devices after which the allocator gives up on a node.
            order: the order in which devices of a node are preferred.
            taint_rules: whether the API server has DeviceTaintRules (DRADeviceTaintRules).
            scoring: the scores of nodes for pods with extended resources; by default all nodes score the same.
        """
        features = features or Features()
        self.metrics = ControlMetrics()
        self.caches = Caches(client, taint_rules=taint_rules and features.device_taints)
        self.metrics.show_claims(self.caches.claims.items.values)
        self._recorders: list[EventRecorder] = []
        self._claims = ClaimController(self.caches, self._executor(client, "resource_claim"), self.metrics)
        self._evictions = (
            EvictionController(self.caches, self._executor(client, EVICTION), self.metrics)
            if features.device_taints
            else None
        )
        pools = PoolIndex(self.caches)
        self._pools = PoolController(
            self.caches, pools, self._executor(client, POOLS), self.metrics, features, order
        )
        self._scheduler = Scheduler(
            self.caches,
            pools,
            self._executor(client, "default-scheduler"),
            SchedulerSettings(
                features=features,
                binding_timeout=binding_timeout,
                setback=setback,
                max_steps=max_steps,
                order=order,
                scoring=scoring or ScoringStrategy(),
            ),
            self.metrics,
        )
        self._stack = AsyncExitStack()

    def _executor(self, client: Client, component: str) -> Executor:
        """Return an executor whose events carry the name of a component."""
        recorder = EventRecorder(client, component)
        self._recorders.append(recorder)
        return Executor(client, self.caches, recorder)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            for recorder in self._recorders:
                await stack.enter_async_context(recorder)
            await stack.enter_async_context(self.caches)
            await stack.enter_async_context(self._claims)
            if self._evictions is not None:
                await stack.enter_async_context(self._evictions)
            await stack.enter_async_context(self._pools)
            await stack.enter_async_context(self._scheduler)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()
