"""The worker of one pod: decides with `pod_plan`, executes one step, reports the status, repeats."""

import asyncio
import logging
import time
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from dradriver.cluster.kubelet.claims.health import HealthCache
from dradriver.cluster.kubelet.claims.manager import ClaimManager
from dradriver.cluster.kubelet.claims.resource_status import build_resource_statuses
from dradriver.cluster.kubelet.plugins.plugin_store import NotRegisteredError
from dradriver.cluster.kubelet.pods.container_runner import ContainerRunner
from dradriver.cluster.kubelet.pods.pod_plan import ContainerPlan, PodFacts, PodStep, next_step, plan_containers
from dradriver.cluster.kubelet.pods.pod_status import build_pod_status
from dradriver.cluster.kubelet.pods.pod_types import NodePod
from dradriver.cluster.kubelet.timings import Timings
from dradriver.cluster.runtime import ContainerStartError, Runtime
from dradriver.errors import DraError
from dradriver.kube import PODS, Client, Conflict, EventRecorder, NotFound, PatchKind
from dradriver.model.core.meta import ObjectReference
from dradriver.model.core.workload import Container

__all__ = ["NodeTools", "PodWorker"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTools:
    """The parts that all pods of a node share."""

    client: Client
    claims: ClaimManager
    health: HealthCache
    runtime: Runtime
    events: EventRecorder
    timings: Timings
    owner: str
    pods_folder: Path
    cdi_folder: Path


class PodWorker:
    """The worker of one pod. `run()` returns when the node has no containers or claims of the pod left.

    If the process is killed at any point, the worker of the next kubelet begins with the reported status and
    the claims in the checkpoint. The kubelet ends the remaining containers before the worker starts.
    """

    def __init__(self, tools: NodeTools, pod: NodePod) -> None:
        self.pod = pod
        self._tools = tools
        self._exists = True
        self._prepared = False
        self._finished = pod.finished
        self._failed: tuple[PodStep, float] | None = None
        self._published: dict[str, Any] = {}
        self._needs_report = False
        self._wake = asyncio.Event()
        meta = pod.metadata
        self.containers = ContainerRunner(
            pod,
            tools.pods_folder / f"{meta.namespace}_{meta.name}_{meta.uid}",
            tools.runtime,
            owner=tools.owner,
            cdi_folder=tools.cdi_folder,
            restart_delay=tools.timings.restart,
            on_change=self._wake.set,
        )

    def update(self, pod: NodePod | None) -> None:
        """Use a newer version of the pod; None if its object is gone."""
        self._exists = pod is not None
        # The answer to the worker's last write may be newer than the version from the watch.
        if pod is not None and _get_version(pod) >= _get_version(self.pod):
            self.pod = pod
        self._wake.set()

    def retry_now(self) -> None:
        """Wake the worker, because an event for which the pod may wait has happened."""
        self._failed = None
        self._wake.set()

    async def run(self) -> None:
        """Work until the pod is gone. If cancelled, end the containers and leave the claims prepared."""
        try:
            while await self._advance():
                pass
        finally:
            # The call is shielded, because a second cancellation must not leave containers behind.
            await asyncio.shield(self.containers.stop(self._tools.timings.stop_grace))

    async def _advance(self) -> bool:
        """Execute one step, or wait for an event. Return False if no work is left."""
        self._wake.clear()
        plan = self._make_plan()
        step = next_step(self._collect_facts(plan))
        if step is PodStep.DONE:
            await self.containers.remove()
            return False
        if step is PodStep.WAIT or self._retry_delay(step) > 0:
            await self._report(plan)
            await self._wait(self._retry_delay(step), plan)
        else:
            await self._execute(step, plan)
            await self._report(self._make_plan())
        return True

    def _make_plan(self) -> ContainerPlan:
        return plan_containers(self.pod.spec, self.containers.states, time.monotonic())

    @property
    def _terminating(self) -> bool:
        return not self._exists or self.pod.metadata.deletion_timestamp is not None

    def _collect_facts(self, plan: ContainerPlan) -> PodFacts:
        return PodFacts(
            terminating=self._terminating,
            exists=self._exists,
            running=self.containers.running,
            completed=plan.completed or self._finished,
            has_claims=self._tools.claims.has_claims(self.pod.metadata.uid),
            prepared=self._prepared,
            has_due_containers=bool(plan.start),
        )

    def _retry_delay(self, step: PodStep) -> float:
        """Return the seconds until this failed step is retried."""
        if self._failed is None or self._failed[0] is not step:
            return 0.0
        return max(0.0, self._failed[1] - time.monotonic())

    async def _wait(self, delay: float, plan: ContainerPlan) -> None:
        limits = [self._tools.timings.resync]
        if delay:
            limits.append(delay)
        if self._needs_report:
            limits.append(self._tools.timings.retry)
        if plan.next_check is not None:
            limits.append(max(0.0, plan.next_check - time.monotonic()))
        with suppress(TimeoutError):
            async with asyncio.timeout(min(limits)):
                await self._wake.wait()

    async def _execute(self, step: PodStep, plan: ContainerPlan) -> None:
        try:
            match step:
                case PodStep.STOP:
                    await self.containers.stop(self._get_grace_seconds())
                case PodStep.UNPREPARE:
                    await self._unprepare()
                case PodStep.REMOVE:
                    await self._remove(plan)
                case PodStep.PREPARE:
                    await self._prepare()
                case _:
                    await self._start(plan)
        except (DraError, OSError) as error:
            self._failed = (step, time.monotonic() + self._tools.timings.retry)
            level = logging.DEBUG if isinstance(error, NotRegisteredError) else logging.WARNING
            _log.log(level, "pod %s: %s: %s", self.pod.ref, step, error)
        else:
            self._failed = None

    def _get_grace_seconds(self) -> float:
        meta, spec = self.pod.metadata, self.pod.spec
        if not self._exists:
            return 0.0
        if meta.deletion_grace_period_seconds is not None:
            return float(meta.deletion_grace_period_seconds)
        seconds = spec.termination_grace_period_seconds
        return 30.0 if seconds is None else float(seconds)

    async def _prepare(self) -> None:
        try:
            await self._run_unless_terminating(self._tools.claims.prepare(self.pod))
        except DraError as error:
            message = f"Failed to prepare dynamic resources: prepare dynamic resources: {error}"
            self.containers.set_waiting("ContainerCreating", message)
            await self._emit_event("Warning", "FailedPrepareDynamicResources", message)
            raise
        if self._terminating:
            return
        self._prepared = True
        self.containers.set_waiting(
            "PodInitializing" if self.pod.spec.init_containers else "ContainerCreating", ""
        )

    async def _run_unless_terminating(self, work: Coroutine[Any, Any, None]) -> None:
        """Wait for the work. If the pod is deleted in the meantime, cancel the work."""
        task = asyncio.create_task(work, name=f"prepare {self.pod.ref}")
        task.add_done_callback(lambda _: self._wake.set())
        try:
            while not task.done() and not self._terminating:
                self._wake.clear()
                await self._wake.wait()
        finally:
            task.cancel()
            await asyncio.wait({task})
        if not task.cancelled():
            task.result()

    async def _unprepare(self) -> None:
        meta = self.pod.metadata
        await self._tools.claims.unprepare(meta.uid, meta.namespace)
        # The claims are already unprepared. The pod is ending, so it never prepares them again.
        self._prepared = False

    async def _start(self, plan: ContainerPlan) -> None:
        containers = {each.name: each for each in [*self.pod.spec.init_containers, *self.pod.spec.containers]}
        for name in plan.start:
            container = containers[name]
            if notice := await self._tools.runtime.describe_image_use(container.image):
                await self._emit_event("Normal", "ImageNotUsed", notice)
            try:
                await self.containers.start(container, self._tools.claims.cdi_devices(self.pod, container))
            except ContainerStartError as error:
                _log.warning("pod %s: container %s: %s", self.pod.ref, name, error)
                await self._emit_event("Warning", "Failed", f"Error: {error}")
            else:
                await self._emit_event("Normal", "Started", f"Started container {name}")

    async def _remove(self, plan: ContainerPlan) -> None:
        """Write the last status, then delete the object.

        If the process dies between the write and the deletion, the next run deletes the object.
        """
        await self._report(plan)
        meta = self.pod.metadata
        await self._tools.client.delete(PODS, meta.name, meta.namespace, uid=meta.uid, grace_seconds=0)
        self._exists = False

    async def _report(self, plan: ContainerPlan) -> None:
        """Write the status if it has changed since the last write.

        If the write fails, it is retried at the next check.
        """
        if not self._exists or self._finished:
            return
        facts = self._collect_facts(plan)
        status = build_pod_status(
            self.pod,
            self.containers.states,
            plan,
            finished=not facts.running and not facts.has_claims,
            resources=self._build_resources,
            now=datetime.now(UTC),
        )
        if status == self._published:
            return
        meta = self.pod.metadata
        body = {"metadata": {"uid": meta.uid}, "status": status}
        try:
            written = await self._tools.client.patch(
                PODS, meta.name, meta.namespace, body, PatchKind.STRATEGIC, into=NodePod, subresource="status"
            )
        except (NotFound, Conflict):
            # The pod was deleted, or another pod has its name. The watch reports either event.
            self._published = status
        except DraError as error:
            _log.warning("pod %s: status: %s", self.pod.ref, error)
            self._needs_report = True
        else:
            self._published = status
            self._needs_report = False
            if self.pod.metadata.uid == written.metadata.uid:
                self.pod = written
            self._finished = written.finished

    def _build_resources(self, container: Container) -> list[dict[str, Any]]:
        return build_resource_statuses(self.pod, container, self._tools.claims, self._tools.health)

    async def _emit_event(self, kind: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        meta = self.pod.metadata
        regarding = ObjectReference(
            api_version="v1", kind="Pod", namespace=meta.namespace, name=meta.name, uid=meta.uid
        )
        await self._tools.events.emit(regarding, kind, reason, message)


def _get_version(pod: NodePod) -> int:
    version = pod.metadata.resource_version
    return int(version) if version.isdigit() else 0
