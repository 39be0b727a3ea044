"""Makes plans in the event loop if they are expected to be short, else in a thread.

A change to the thread and back takes longer than most decisions. So if the last decisions were short, the next
one is made in the event loop. If it takes long after all, the decisions after it are made in the thread, so
that they do not block the event loop. There, one change serves all pods that wait for a decision.

The decisions are made one after the other, and each decision takes the plans before it into account, so two
pods never get one device.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Final

from msgspec import structs

from dradriver.aio.bulk_load import bulk_load
from dradriver.aio.tasks import await_thread
from dradriver.control.preemption.trimming import trim_victims
from dradriver.control.preemption.victims import Victims
from dradriver.control.queueing.cycle_times import CycleTimes
from dradriver.control.scheduler.binding.binding_conditions import BindingDeadline
from dradriver.control.scheduler.cluster_state import ClusterState
from dradriver.control.scheduler.cluster_view import Changes, ClusterView
from dradriver.control.scheduler.pipeline import schedule
from dradriver.control.scheduler.snapshot import (
    Plan,
    Snapshot,
    Unschedulable,
    assume_allocation,
    assumed_allocations,
)
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim

__all__ = ["PlanningResult", "PodPlanner"]

_log = logging.getLogger(__name__)

_BATCH_SECONDS: Final = 0.01
"""If decisions have taken this long, the other pods wait for the next change to the thread.

Their plans are then written later, but the first plans are not delayed further.
"""


_SHORT_SECONDS: Final = 0.002
"""CPU time of a batch that may block the event loop. A change to the thread costs about a tenth of it."""

_SHORT_IN_A_ROW: Final = 16
"""After so many short batches, the next one is expected to be short."""

_FEW_CHANGES: Final = 100
"""Maximum number of changes that are processed in the event loop before a decision."""

_MANY_CHANGES: Final = 1000
"""So many changes between two decisions, as after the start, load most of a cluster."""


@dataclass(frozen=True, slots=True)
class PlanningResult:
    """The decision about one pod.

    Attributes:
        verdict: the plan, or why the pod has no node.
        times: the time that each extension point, and each plugin at Filter, took.
    """

    verdict: Plan | Unschedulable
    times: CycleTimes


@dataclass(slots=True, eq=False)
class _Request:
    """A pod that waits for a decision, and then its result or an unexpected error."""

    key: str
    pod: Pod
    deadline: Callable[[], BindingDeadline]
    nodes: Collection[str] | None
    others: int
    preempts: bool
    result: PlanningResult | None = field(default=None, init=False)
    error: Exception | None = field(default=None, init=False)
    is_abandoned: bool = field(default=False, init=False)

    @property
    def is_done(self) -> bool:
        return self.result is not None or self.error is not None

    @property
    def plan(self) -> Plan | None:
        verdict = self.result.verdict if self.result is not None else None
        return verdict if isinstance(verdict, Plan) else None

    @property
    def nominated_node(self) -> str:
        verdict = self.result.verdict if self.result is not None else None
        return verdict.nominated_node if isinstance(verdict, Unschedulable) else ""


class PodPlanner:
    """Decides about pods in the order of the calls of `plan`."""

    def __init__(
        self,
        view: ClusterView,
        clock: Callable[[], float],
        on_freed: Callable[[], None],
        nominated_node: Callable[[Pod], str],
    ) -> None:
        """Create a planner.

        Args:
            view: the cluster's state. It contains each plan before `plan` returns it.
            clock: returns the time in seconds.
            on_freed: called after the plan of a cancelled call was dropped.
            nominated_node: returns the node for which a pod is nominated by a preemption that is carried out
                now; empty if it has none.
        """
        self._view = view
        self._clock = clock
        self._on_freed = on_freed
        self._nominated_node = nominated_node
        self._turn = asyncio.Lock()
        self._waiting: list[_Request] = []
        self._short_batches = 0

    async def plan(
        self,
        key: str,
        pod: Pod,
        deadline: Callable[[], BindingDeadline],
        nodes: Collection[str] | None = None,
        others: int = 0,
        *,
        preempts: bool = False,
    ) -> PlanningResult:
        """Return the decision about a pod.

        Args:
            key: `namespace/name` of the pod.
            pod: the pod.
            deadline: returns the deadline of the wait for binding conditions.
            nodes: the nodes from which to choose, as in `Snapshot`.
            others: maximum number of other suitable nodes to find.
            preempts: whether to look for pods to evict if no node suits the pod. If there are some, the pod is
                nominated for their node.
        """
        request = _Request(key, pod, deadline, nodes, others, preempts)
        self._waiting.append(request)
        try:
            async with self._turn:
                # The lock is fair. So the first pod that waits is this one, unless it is done already.
                if not request.is_done:
                    await self._decide_waiting(request)
        except asyncio.CancelledError:
            request.is_abandoned = True
            self._drop(request)
            raise
        finally:
            if request in self._waiting:
                self._waiting.remove(request)
        if request.result is None:
            raise request.error or AssertionError("unreachable: the first pod of a batch is decided")
        return request.result

    async def _decide_waiting(self, first: _Request) -> None:
        # Another pod that has a plan keeps it until its own turn, so that no pod gets its devices in between.
        others = (each for each in self._waiting if each.key not in self._view.plans)
        batch = [first, *(each for each in others if each is not first)]
        self._view.drop_plan(first.key)
        changes = self._view.take_changes()
        snapshots = [self._view.take_snapshot(each.pod, each.deadline(), each.nodes) for each in batch]
        try:
            if self._short_batches >= _SHORT_IN_A_ROW and len(changes) <= _FEW_CHANGES:
                seconds = _measure(changes, batch, snapshots, self._clock)
            else:
                loop = asyncio.get_running_loop()
                work = loop.run_in_executor(None, _measure, changes, batch, snapshots, self._clock)
                seconds = await await_thread(work)
            self._short_batches = self._short_batches + 1 if seconds <= _SHORT_SECONDS else 0
        finally:
            # The thread has changed the cluster's state, even if the caller was cancelled meanwhile.
            for request in batch:
                if request.plan is not None:
                    self._view.set_plan(request.key, request.plan)
                if request.nominated_node:
                    self._view.nominate(request.pod, request.nominated_node)
                if request.is_abandoned:
                    self._drop(request)
            self._waiting = [each for each in self._waiting if not each.is_done]

    def _drop(self, request: _Request) -> None:
        """Drop the plan, or the nomination, that was made for a cancelled call."""
        if request.plan is not None and self._view.plans.get(request.key) is request.plan:
            self._view.drop_plan(request.key)
            self._on_freed()
        if request.nominated_node:
            self._view.nominate(request.pod, self._nominated_node(request.pod))

    async def trim_victims(
        self, pod: Pod, deadline: Callable[[], BindingDeadline], victims: Mapping[str, Sequence[Pod]]
    ) -> Mapping[str, Victims]:
        """Return the nodes on which the eviction of another scheduler's victims gives a pod its devices, too.

        Args:
            pod: the pod that preempts.
            deadline: returns the deadline of the wait for binding conditions.
            victims: for each node, the pods that the other scheduler will evict from it.

        Returns:
            For each node that is kept, all pods to evict, as in `preemption.trimming.trim_victims`.

        Raises:
            NoNode: the pod lacks claims.
        """
        async with self._turn:
            changes = self._view.take_changes()
            snapshot = self._view.take_snapshot(pod, deadline())
            loop = asyncio.get_running_loop()
            return await await_thread(loop.run_in_executor(None, _trim, changes, pod, snapshot, victims))


def _measure(
    changes: Changes, batch: Sequence[_Request], snapshots: Sequence[Snapshot], clock: Callable[[], float]
) -> float:
    """Decide as `_decide`, and return the CPU time in seconds, which does not grow with the load."""
    start = time.thread_time()
    _decide(changes, batch, snapshots, clock)
    return time.thread_time() - start


def _decide(
    changes: Changes, batch: Sequence[_Request], snapshots: Sequence[Snapshot], clock: Callable[[], float]
) -> None:
    _update(changes, snapshots[0].cluster)
    end = clock() + _BATCH_SECONDS
    planned: set[str] = set()
    for request, taken in zip(batch, snapshots, strict=True):
        snapshot = replace(taken, in_flight={*taken.in_flight, *planned}) if planned else taken
        times = CycleTimes(clock)
        try:
            verdict = schedule(request.pod, snapshot, times, others=request.others, preempts=request.preempts)
        except Exception as error:
            request.error = error
            continue
        request.result = PlanningResult(verdict, times)
        if isinstance(verdict, Plan):
            planned.update(verdict.in_flight)
            with times.measure_point("Reserve"):
                _assume(snapshot.cluster, verdict, request.pod, snapshot.claims)
        elif verdict.nominated_node:
            _nominate(snapshot.cluster, request.pod, verdict.nominated_node)
        if clock() >= end:
            return


def _assume(cluster: ClusterState, plan: Plan, pod: Pod, claims: Mapping[str, ResourceClaim]) -> None:
    """Let a plan count for the next decision, as `ClusterView` does after the batch (Reserve)."""
    for ref, assumed in assumed_allocations(plan):
        claim = assume_allocation(claims.get(ref), assumed)
        if claim is not None:
            cluster.put_claim(claim)
    cluster.put_pod(pod, plan.node)


def _nominate(cluster: ClusterState, pod: Pod, node: str) -> None:
    """Let a nomination count for the next decision, as `ClusterView` does after the batch."""
    cluster.put_pod(structs.replace(pod, status=structs.replace(pod.status, nominated_node_name=node)))


def _trim(
    changes: Changes, pod: Pod, snapshot: Snapshot, victims: Mapping[str, Sequence[Pod]]
) -> Mapping[str, Victims]:
    _update(changes, snapshot.cluster)
    return trim_victims(pod, snapshot, victims)


def _update(changes: Changes, cluster: ClusterState) -> None:
    """Bring the cluster's state up to date."""
    with bulk_load() if len(changes) >= _MANY_CHANGES else nullcontext():
        for change in changes:
            try:
                change()
            except Exception:  # one object must not keep the other changes from the state
                _log.exception("an object is ignored by the scheduler")
        cluster.placer.update()
