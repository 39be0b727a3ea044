"""The loop of a `ControllerDriver`: for each claim and each pod, execute the steps until no work is left.

A claim with work has one task, by its UID (`claim_steps`), and so has a pod that waits for claims
(`pod_steps`). So a claim that takes minutes delays no other. Locks by claim keep the tasks apart. All tasks end
with `run`; if the process dies at any point, the next one continues (`allocating`, `releasing`).

The process needs these rights:

| resource | verbs |
|---|---|
| `resourceclaims` | get, list, watch, patch |
| `resourceclaims/status`, `resourceclaims/binding` | patch |
| `deviceclasses`, `pods` | list, watch |
| `podschedulingcontexts` | list, watch |
| `podschedulingcontexts/status` | patch |
| `controllerallocations` | get, list, watch, create, patch, delete |
| `events` | create, patch |
| `leases`, by the name of the controller | get (for `rivals` in all namespaces), update; create |
| objects in `parametersRef` | get |
| `controllers`, by the name of the controller: for the chart's policies | negotiate |
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from dradriver.aio.tasks import Background
from dradriver.classic.allocating import Allocator
from dradriver.classic.answering import UnsuitableNodeChecks
from dradriver.classic.orphans import OrphanedClaims
from dradriver.classic.parameters import ClaimParameters
from dradriver.classic.releasing import FindUse, Releaser
from dradriver.classic.reports import ControllerReports
from dradriver.classic.rivals import Rivals
from dradriver.classic.state import ControllerState
from dradriver.classic.steps.claim_steps import ClaimStep, ClaimView, find_other_controller, next_claim_step
from dradriver.classic.steps.pod_steps import NegotiatedClaim, NegotiationStep, next_pod_step
from dradriver.classic.writes import ClaimWrites
from dradriver.driver import ControllerDriver
from dradriver.errors import DraError
from dradriver.kube import ChangeKind, Client
from dradriver.kube.object_tasks import ObjectTasks, pause
from dradriver.model.classic.allocation_records import ControllerAllocation
from dradriver.model.classic.names import LEASE_ANNOTATION
from dradriver.model.classic.scheduling import PodSchedulingContext
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.node.driver_calls import Calls

__all__ = ["ClassicController"]

_WAKE_SECONDS: Final = 1.0
"""Interval at which pods are woken if the controller has allocated or released claims (`answering`)."""


class ClassicController:
    """Allocates and deallocates the claims of a driver: `await run()` works until it is canceled.

    Args:
        driver: the author's driver.
        client: the API server.
        lease: `namespace/name` of the Lease of the process; empty if there is none.
        calls: calls the driver.
        reports: receives failures.
        find_use: returns why nodes have not released a claim; empty if they have. None: nodes are not asked.
    """

    def __init__(
        self,
        driver: ControllerDriver,
        client: Client,
        *,
        lease: str,
        calls: Calls,
        reports: ControllerReports,
        find_use: FindUse | None = None,
    ) -> None:
        self.state = state = ControllerState(client, driver.name, lease)
        self._reports = reports
        self._writes = writes = ClaimWrites(client, state)
        parameters = ClaimParameters(driver, client, calls)
        self._releaser = Releaser(driver, state, writes, calls, reports, find_use)
        self._allocator = Allocator(driver, state, writes, self._releaser, parameters, calls, reports)
        self._checks = UnsuitableNodeChecks(driver, client, state, parameters, calls, reports)
        self._rivals = Rivals(client, state)
        self._orphans = OrphanedClaims(driver, client, state, self._releaser, calls, reports)
        self._claims = ObjectTasks("claim UID", self._find_claim, self._has_claim_work, self._claim_step)
        self._pods = ObjectTasks("pod", state.negotiation, self._has_pod_work, self._pod_step)
        self._is_working = False
        self._seen_changes = 0
        state.claims.subscribe(self._claim_changed)
        state.records.subscribe(self._record_changed)
        state.pods.subscribe(self._pod_changed)
        state.contexts.subscribe(self._context_changed)
        state.classes.subscribe(self._class_changed)
        reports.metrics.show_pending(lambda: len(self._claims), lambda: len(self._pods))

    @property
    def readiness(self) -> str:
        """Return why the controller does not work yet; empty if it works."""
        if self._is_working:
            return ""
        return self.state.problem or "the claims have not been listed yet"

    async def run(self) -> None:
        """Work until canceled; the next process continues unfinished work."""
        async with self.state.watch():
            background = Background()
            try:
                self._is_working = True
                self._serve_all()
                background.start("orphans", self._orphans.keep_releasing())
                background.start("checks after allocations", self._wake_pods())
                await background.failure()
            finally:
                self._is_working = False  # no new work begins
                await background.stop()
                await asyncio.gather(self._claims.end(), self._pods.end())

    def _serve_all(self) -> None:
        for uid in self.state.uids():
            self._serve_claim(uid)
        for ref in list(self.state.contexts.items):
            self._serve_pod(ref)

    def _serve_claim(self, uid: str) -> None:
        if self._is_working:
            self._claims.serve(uid)

    def _serve_pod(self, ref: str) -> None:
        if self._is_working:
            self._pods.serve(ref)

    def _claim_changed(self, _: ChangeKind, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        for claim in {each.metadata.uid: each for each in (old, new) if each is not None}.values():
            self._serve_claim(claim.metadata.uid)
            for ref in list(self.state.pods_using(claim.ref)):
                self._serve_pod(ref)

    def _record_changed(
        self, _: ChangeKind, old: ControllerAllocation | None, new: ControllerAllocation | None
    ) -> None:
        if (record := new or old) is not None:
            self._serve_claim(record.spec.claim_uid)

    def _pod_changed(self, _: ChangeKind, old: Pod | None, new: Pod | None) -> None:
        if (pod := new or old) is not None and pod.ref in self.state.contexts.items:
            self._serve_negotiation(pod.ref)

    def _context_changed(
        self, _: ChangeKind, old: PodSchedulingContext | None, new: PodSchedulingContext | None
    ) -> None:
        if (context := new or old) is not None:
            if new is None:
                self._checks.forget(context.ref)
            self._serve_negotiation(context.ref)

    def _class_changed(self, *_: object) -> None:
        self._serve_all()

    def _serve_negotiation(self, ref: str) -> None:
        """Look at a pod again, and at unfinished attempts, whose node may not be selected any more."""
        self._serve_pod(ref)
        for uid in self.state.attempts_to_check(ref):
            self._serve_claim(uid)

    async def _wake_pods(self) -> None:
        """Check the nodes of all pods again after the controller has allocated or released claims."""
        while True:
            await asyncio.sleep(_WAKE_SECONDS)
            if self._seen_changes != self.state.changes:
                self._seen_changes = self.state.changes
                self._pods.wake_all()

    def _find_claim(self, uid: str) -> ClaimView | None:
        return self.state.view(uid)

    def _has_claim_work(self, view: ClaimView) -> bool:
        return next_claim_step(view) is not ClaimStep.NONE

    async def _claim_step(self, view: ClaimView, changed: asyncio.Event) -> bool:
        step = next_claim_step(view)
        match step:
            case ClaimStep.NONE:
                return False
            case ClaimStep.ALLOCATE:
                await self._allocate_now(view)
            case ClaimStep.RELEASE:
                async with self.state.locks.hold(view.uid):
                    await self._releaser.release(view.uid)
            case ClaimStep.WITHDRAW:
                async with self.state.locks.hold(view.uid):
                    await self._releaser.withdraw(view.uid)
            case ClaimStep.FOREIGN | ClaimStep.INVALID:
                self._report(view, step)
                await changed.wait()
            case ClaimStep.RIVAL if view.record is not None:
                if left := await self._rivals.take_over(view.record):
                    self._report(view, step)
                    await pause(changed, left)
            case _:
                await self._write(view.uid)
        return True

    async def _write(self, uid: str) -> None:
        """Execute a step that only writes, decided again under the lock."""
        async with self.state.locks.hold(uid):
            view = self.state.view(uid)
            claim = view.claim
            if claim is None:
                return
            match next_claim_step(view):
                case ClaimStep.CLEAR:
                    await self._writes.clear_allocation(claim)
                case ClaimStep.PROTECT:
                    await self._writes.protect(claim)
                case ClaimStep.RECORD:
                    await self._writes.create_record(claim, _allocated_node(claim))
                case _:
                    return

    async def _allocate_now(self, view: ClaimView) -> None:
        # The task of the claim itself runs this: it decides again afterwards, after an error with backoff.
        if view.controlled is not None:
            await self._allocator.allocate({"": view.controlled}, None)

    def _report(self, view: ClaimView, step: ClaimStep) -> None:
        """Report why the controller does not allocate a claim."""
        claim, record, name = view.claim, view.record, self.state.controller
        if claim is not None:
            key = (claim.metadata.namespace, claim.metadata.name, view.uid)
        elif record is not None:
            key = (record.metadata.namespace, record.spec.claim_name, view.uid)
        else:
            return
        if step is ClaimStep.INVALID:
            self._reports.report("allocate", *key, view.problem)
            return
        if record is not None:
            other = (
                f"a process of {name} with the Lease {record.metadata.annotations.get(LEASE_ANNOTATION, '')}"
            )
        else:
            other = f"controller {find_other_controller(claim, name) if claim is not None else ''}"
        message = f"{other} has begun to allocate the claim, so {name} leaves it alone"
        self._reports.report("conflict", *key, message)

    def _has_pod_work(self, negotiation: tuple[PodSchedulingContext, Pod]) -> bool:
        context, pod = negotiation
        return self._next_pod_step(context, pod, self.state.pending(pod)) is not NegotiationStep.NONE

    def _next_pod_step(
        self, context: PodSchedulingContext, pod: Pod, pending: Sequence[NegotiatedClaim]
    ) -> NegotiationStep:
        has_stale = self.state.has_stale_answers(context, pod, pending)
        return next_pod_step(context, pending, self.state.controller, has_stale=has_stale)

    async def _pod_step(self, negotiation: tuple[PodSchedulingContext, Pod], changed: asyncio.Event) -> bool:
        context, pod = negotiation
        pending = self.state.pending(pod)
        match self._next_pod_step(context, pod, pending):
            case NegotiationStep.NONE:
                return False
            case NegotiationStep.WITHDRAW:
                await self._checks.withdraw(context)
                await changed.wait()
            case NegotiationStep.CHECK:
                if left := self._checks.seconds_left(context, pending):
                    await pause(changed, left)
                else:
                    await self._checks.check(context, pod, pending)
            case NegotiationStep.ALLOCATE:
                node = context.spec.selected_node
                try:
                    await self._allocator.allocate(
                        {each.names[0]: each.controlled for each in pending}, node, pod
                    )
                except DraError:
                    await self._check_again(context.ref)
                    raise
                finally:
                    for each in pending:
                        self._serve_claim(each.uid)
        return True

    async def _check_again(self, ref: str) -> None:
        """Check the nodes of a pod after a failed allocation (KEP-3063); not for a pod that is bound."""
        self._checks.forget(ref)
        negotiation = self.state.negotiation(ref)
        if negotiation is None or not negotiation[0].spec.potential_nodes:
            return
        context, pod = negotiation
        if pending := self.state.pending(pod):
            await self._checks.check(context, pod, pending)


def _allocated_node(claim: ResourceClaim) -> str:
    selector = claim.allocation.node_selector if claim.allocation is not None else None
    return selector.only_node if selector is not None else ""
