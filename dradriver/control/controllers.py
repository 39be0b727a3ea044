"""Run the controllers and the scheduler together, with one set of caches."""

from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from dradriver.control.claims.controller import ClaimController
from dradriver.control.classic.context_controller import NAME as CONTEXTS
from dradriver.control.classic.context_controller import ContextController
from dradriver.control.classic.silent_controllers import SilentControllers
from dradriver.control.conflicts.controller import NAME as CONFLICTS
from dradriver.control.conflicts.controller import DoubleAllocationController
from dradriver.control.conflicts.late_bindings import LateBindingController
from dradriver.control.pools.controller import NAME as POOLS
from dradriver.control.pools.controller import PoolController
from dradriver.control.runtime.caches import Caches
from dradriver.control.runtime.executor import Executor
from dradriver.control.runtime.metrics import ControlMetrics
from dradriver.control.scheduler.scheduler import Scheduler
from dradriver.control.settings import SchedulerSettings
from dradriver.control.taints.eviction_controller import NAME as EVICTION
from dradriver.control.taints.eviction_controller import EvictionController
from dradriver.kube import Client, EventRecorder

__all__ = ["Controllers"]


class Controllers:
    """Runs the whole control plane: `async with Controllers(client)`.

    `__aenter__` returns when the caches have read all objects. If the process dies at any point, the next
    process continues from the objects. Only one instance may run at a time, because two schedulers would
    allocate one device to two claims.

    Attributes:
        caches: the cached objects of the cluster.
        metrics: the metrics of scheduler and controllers.
    """

    def __init__(
        self, client: Client, settings: SchedulerSettings | None = None, *, taint_rules: bool = True
    ) -> None:
        """Create controllers that do not run yet.

        Args:
            client: the API server. It needs rights to write claims and their status, the status of pods and
                DeviceTaintRules, bindings and events, and to delete claims and pods. If the API server serves
                PodSchedulingContexts, it needs rights to write them and the status of ControllerAllocations.
            settings: the settings of scheduling. None: default values.
            taint_rules: whether the API server serves DeviceTaintRules (feature gate DRADeviceTaintRules).
        """
        settings = settings or SchedulerSettings()
        features = settings.features
        self.metrics = ControlMetrics()
        self.caches = Caches(client, taint_rules=taint_rules and features.device_taints, classic=True)
        self.metrics.show_claims(self.caches.claims.items.values)
        self._recorders: list[EventRecorder] = []
        self._claims = ClaimController(self.caches, self._executor(client, "resource_claim"), self.metrics)
        self._evictions = (
            EvictionController(self.caches, self._executor(client, EVICTION), self.metrics)
            if features.device_taints
            else None
        )
        self._pools = PoolController(
            self.caches, self._executor(client, POOLS), self.metrics, features, settings.order
        )
        scheduler_executor = self._executor(client, "default-scheduler")
        self._scheduler = Scheduler(self.caches, scheduler_executor, settings, self.metrics)
        self._conflicts = DoubleAllocationController(
            self.caches,
            self._scheduler.allocations,
            self._executor(client, CONFLICTS),
            self._scheduler.is_binding,
            self.metrics,
        )
        self._late_bindings = LateBindingController(self.caches, scheduler_executor, self.metrics)
        self._contexts = ContextController(self.caches, self._executor(client, CONTEXTS), self.metrics)
        self._silent_controllers = SilentControllers(
            self.caches, scheduler_executor, self.metrics, settings.binding_timeout
        )
        self._stack = AsyncExitStack()

    def _executor(self, client: Client, component: str) -> Executor:
        """Return an executor that writes events in the name of a component."""
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
            await stack.enter_async_context(self._conflicts)
            await stack.enter_async_context(self._late_bindings)
            await stack.enter_async_context(self._contexts)
            await stack.enter_async_context(self._silent_controllers)
            await stack.enter_async_context(self._scheduler)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()
