"""Check nodes for the pending claims of a pod, and write the answer into its `PodSchedulingContext`.

The answer has an entry for each pending claim of this controller, even if no node is unsuitable, because the
scheduler may wait for the entries of all controllers (KEP-3063). It is one server-side apply with the name of
the controller as the field manager, so several controllers write one object without conflicts. If the process
dies, the next one checks all nodes again.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from dradriver.classic.parameters import ClaimParameters
from dradriver.classic.reports import ControllerReports
from dradriver.classic.results import check_unsuitable
from dradriver.classic.state import ControllerState
from dradriver.classic.steps.pod_steps import NegotiatedClaim, nodes_to_check
from dradriver.driver import ControllerDriver, PendingPod
from dradriver.driver.source_locations import find_definition, format_location
from dradriver.errors import DraError, DriverError
from dradriver.kube import SCHEDULING_CONTEXTS, Client, Conflict, NotFound, PatchKind
from dradriver.model.classic.scheduling import (
    ClaimSchedulingStatus,
    PodSchedulingContext,
    SchedulingStatus,
)
from dradriver.model.core.meta import ObjectMeta
from dradriver.model.core.workload import Pod
from dradriver.node.driver_calls import Calls

__all__ = ["UnsuitableNodeChecks"]

_log = logging.getLogger(__name__)


_CHANGE_SECONDS: Final = 1.0
"""A pod is checked again at most once in this time because of the controller's other allocations."""
_CHECKS_PER_SECOND: Final = 50
"""If many pods wait, about so many of them are checked again because of other allocations."""


class _Question(NamedTuple):
    """What a check depends on. If it changes, the pod is checked at once."""

    context: str
    selected_node: str
    potential_nodes: tuple[str, ...]
    claims: tuple[str, ...]


class _Checked(NamedTuple):
    """The last check of a pod.

    Attributes:
        question: what it depended on.
        changes: how often the controller had allocated or released a claim before.
        at: when it ended, by the clock of the event loop.
    """

    question: _Question
    changes: int
    at: float


class UnsuitableNodeChecks:
    """Checks nodes for pods.

    Args:
        driver: the author's driver.
        client: the API server.
        state: the state of the process.
        parameters: reads the parameters of claims.
        calls: calls the driver.
        reports: receives failures.
    """

    def __init__(
        self,
        driver: ControllerDriver,
        client: Client,
        state: ControllerState,
        parameters: ClaimParameters,
        calls: Calls,
        reports: ControllerReports,
    ) -> None:
        self._driver = driver
        self._client = client
        self._state = state
        self._parameters = parameters
        self._calls = calls
        self._reports = reports
        self._last: dict[str, _Checked] = {}

    def seconds_left(self, context: PodSchedulingContext, pending: Sequence[NegotiatedClaim]) -> float:
        """Return the seconds until the next check of a pod; 0 if it must be checked now.

        If the controller has allocated or released claims since the last check, the next one is due soon. It is
        not due at once, because each allocation would cause a check of all pods that wait.
        """
        last = self._last.get(context.ref)
        if last is None or last.question != _question(context, pending):
            return 0.0
        interval = self._driver.check_nodes_seconds
        if last.changes != self._state.changes:
            interval = min(interval, max(_CHANGE_SECONDS, len(self._last) / _CHECKS_PER_SECOND))
        return max(0.0, last.at + interval - asyncio.get_running_loop().time())

    def forget(self, ref: str) -> None:
        """Forget the last check of a pod, so that the next one is due now; `ref` is the key of its context."""
        self._last.pop(ref, None)

    async def check(self, context: PodSchedulingContext, pod: Pod, pending: Sequence[NegotiatedClaim]) -> None:
        """Check the nodes of a context and write the answer, if it is not there yet.

        Raises:
            DraError: parameters are wrong, the driver failed, or the API server did. It was reported.
        """
        question, changes = _question(context, pending), self._state.changes
        nodes = nodes_to_check(context, self._state.controller)
        try:
            unsuitable = await self._ask(pod, pending, nodes)
            await self._answer(context, pending, unsuitable)
        except DraError as error:
            for each in pending:
                meta = each.controlled.claim.metadata
                self._reports.report("unsuitable_nodes", meta.namespace, meta.name, meta.uid, str(error))
            raise
        if context.ref in self._state.contexts.items:
            self._last[context.ref] = _Checked(question, changes, asyncio.get_running_loop().time())

    async def withdraw(self, context: PodSchedulingContext) -> None:
        """Remove all answers of this controller from a context.

        Raises:
            DraError: the write failed.
        """
        self.forget(context.ref)
        await self._write(context, [])

    async def _answer(
        self,
        context: PodSchedulingContext,
        pending: Sequence[NegotiatedClaim],
        unsuitable: Mapping[str, list[str]],
    ) -> None:
        """Write the unsuitable nodes of each claim, by UID, if they are not in the context yet."""
        entries = [
            ClaimSchedulingStatus(
                name=name, controller_name=self._state.controller, unsuitable_nodes=unsuitable[each.uid]
            )
            for each in pending
            for name in each.names
        ]
        # Earlier answers about claims that are allocated by now must go too: they would still exclude nodes.
        own = [
            each for each in context.status.resource_claims if each.controller_name == self._state.controller
        ]
        if {each.name: each for each in entries} != {each.name: each for each in own}:
            await self._write(context, entries)

    async def _ask(
        self, pod: Pod, pending: Sequence[NegotiatedClaim], nodes: Sequence[str]
    ) -> dict[str, list[str]]:
        claims = [await self._parameters.read(each.controlled, each.names[0]) for each in pending]
        meta, method = pod.metadata, self._driver.unsuitable_nodes
        asked = PendingPod(meta.uid, meta.namespace, meta.name, meta.labels)
        with self._reports.metrics.observe("unsuitable_nodes"):
            returned = await self._calls.call(method, asked, claims, nodes, about=f" of pod {pod.ref}")
        try:
            return check_unsuitable(self._driver.name, returned, claims, nodes)
        except DriverError as error:
            raise DriverError(f"{error}{format_location(find_definition(method))}") from error

    async def _write(self, context: PodSchedulingContext, entries: Sequence[ClaimSchedulingStatus]) -> None:
        meta = context.metadata
        body = PodSchedulingContext(
            metadata=ObjectMeta(name=meta.name, namespace=meta.namespace, uid=meta.uid),
            status=SchedulingStatus(resource_claims=list(entries)),
        )
        try:
            stored = await self._client.patch(
                *(SCHEDULING_CONTEXTS, meta.name, meta.namespace, body, PatchKind.APPLY),
                into=PodSchedulingContext,
                subresource="status",
                field_manager=self._state.controller,
                force=True,
            )
        except (NotFound, Conflict) as error:
            _log.info("PodSchedulingContext %s is gone or was replaced: %s", context.ref, error)
            return
        self._state.contexts.apply_written(stored)


def _question(context: PodSchedulingContext, pending: Sequence[NegotiatedClaim]) -> _Question:
    spec = context.spec
    return _Question(
        context.metadata.uid,
        spec.selected_node,
        tuple(spec.potential_nodes),
        tuple(each.uid for each in pending),
    )
