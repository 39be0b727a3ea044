"""Run what the verbs need: the caches, the cycle that makes and writes plans, and the check for late writes."""

import logging
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from datetime import datetime

from dradriver.control.classic.context_controller import ContextController
from dradriver.control.classic.silent_controllers import SilentControllers
from dradriver.control.conflicts.controller import DoubleAllocationController
from dradriver.control.conflicts.late_bindings import LateBindingController
from dradriver.control.runtime.caches import Caches
from dradriver.control.runtime.executor import Executor
from dradriver.control.runtime.metrics import ControlMetrics
from dradriver.control.settings import SchedulerSettings
from dradriver.extender.contested_pools import ContestedPoolController
from dradriver.extender.cycle import ExtenderCycle
from dradriver.extender.verbs import ExtenderVerbs
from dradriver.kube import TAINT_RULES, Client, EventRecorder

__all__ = ["run_verbs"]

_log = logging.getLogger(__name__)


@asynccontextmanager
async def run_verbs(
    client: Client,
    settings: SchedulerSettings,
    metrics: ControlMetrics,
    scheduler_names: Collection[str],
    installed: datetime | None = None,
) -> AsyncIterator[ExtenderVerbs]:
    """Run the verbs inside `async with`. It is entered when the caches have read all objects.

    If the process dies at any point, the next process continues from the objects. Only one process may run the
    verbs at a time, because two would allocate one device to two claims.

    Args:
        client: the API server.
        settings: the settings of scheduling.
        metrics: receives counts and durations.
        scheduler_names: the profiles of kube-scheduler that use this extender (`spec.schedulerName`).
        installed: when this scheduler was installed: later allocations of other allocators count. None: only
            those since the verbs run count.
    """
    has_rules = settings.features.device_taints and await client.serves(TAINT_RULES)
    if settings.features.device_taints and not has_rules:
        _log.warning("the API server does not serve DeviceTaintRules in v1: only taints in slices count")
    caches = Caches(client, taint_rules=has_rules, classic=True)
    metrics.show_claims(caches.claims.items.values)
    async with EventRecorder(client, "dradriver-scheduler") as recorder:
        executor = Executor(client, caches, recorder, reports_bindings=False)
        cycle = ExtenderCycle(caches, executor, settings, metrics, scheduler_names)
        conflicts = DoubleAllocationController(caches, cycle.allocations, executor, cycle.is_binding, metrics)
        late_bindings = LateBindingController(caches, executor, metrics)
        contested_pools = ContestedPoolController(
            caches,
            executor,
            cycle,
            metrics,
            scheduler_names,
            client,
            installed,
            serves_resources=settings.features.extended_resources,
        )
        contexts = ContextController(caches, executor, metrics)
        silent = SilentControllers(caches, executor, metrics, settings.binding_timeout)
        async with caches, conflicts, late_bindings, contexts, silent, cycle, contested_pools:
            yield ExtenderVerbs(cycle, contested_pools.explain, contested_pools.find_signs)
