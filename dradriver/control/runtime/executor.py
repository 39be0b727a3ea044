"""Carry out actions: send their writes to the API server.

Claims are written with JSON patches. A patch changes only the necessary fields, and contains the resource
version on which the decision was based. A JSON patch keeps the bytes of all other fields, above all of opaque
parameters, which the API server compares byte by byte. A strategic merge patch or an apply would rewrite opaque
parameters, and a merge patch would remove nulls from them.

The writes to a pod's status and its binding contain the resource version of the pod, too. So if a former leader
sends one of them late, and the present leader or kube-scheduler has written to the pod meanwhile, the API
server rejects the late write. A nudge is not based on a version, because it changes nothing but an annotation.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from dradriver.control.claims.pod_claims import pod_reference
from dradriver.control.runtime import actions
from dradriver.control.runtime.allocation_writer import AllocationWriter, Operation
from dradriver.control.runtime.bounded_set import BoundedSet
from dradriver.control.runtime.caches import Caches
from dradriver.control.runtime.classic_writer import ClassicWriter
from dradriver.control.runtime.gated_fields import SPECIAL_CLAIM, dropped_field_error
from dradriver.kube import (
    CLAIMS,
    PODS,
    TAINT_RULES,
    AlreadyExists,
    Client,
    Conflict,
    EventRecorder,
    NotFound,
    PatchKind,
)
from dradriver.model.core.workload import Pod
from dradriver.model.encoding.codec import rfc3339
from dradriver.model.resource.claim import CLAIM_FINALIZER, ConsumerReference, ResourceClaim
from dradriver.model.resource.taint_rule import DeviceTaintRule

__all__ = ["NUDGE_ANNOTATION", "Executor"]

NUDGE_ANNOTATION: Final = "scheduler.dradriver.dev/nudged-at"
"""Annotation of a pod: when the extender last asked kube-scheduler to try the pod again."""


class Executor:
    """Executes actions; when an action has ended, the caches contain its writes, except for the node of a Bind.

    Attributes:
        deleted_pods: UIDs of pods that no longer exist.
    """

    def __init__(
        self, client: Client, caches: Caches, recorder: EventRecorder, *, reports_bindings: bool = True
    ) -> None:
        """Create an executor.

        Args:
            client: the API server.
            caches: the cached objects of the cluster.
            recorder: writes events.
            reports_bindings: whether to write an event when a pod is bound. False if kube-scheduler does.
        """
        self._reports_bindings = reports_bindings
        self.deleted_pods = BoundedSet()
        self._client = client
        self._caches = caches
        self._recorder = recorder
        self._allocations = AllocationWriter(self._send_claim, caches.claims.apply_written)
        self._classic = ClassicWriter(client, caches, self._patch_claim)
        self._handlers: Mapping[type, Callable[[Any], Awaitable[None]]] = {
            actions.CreateClaim: self._create_claim,
            actions.RecordClaims: self._record_claims,
            actions.RecordSpecialClaim: self._record_special_claim,
            actions.DeleteClaim: self._delete_claim,
            actions.LookUpPlan: self._look_up_plan,
            actions.LookUpPod: self._look_up_pod,
            actions.AddFinalizer: self._add_finalizer,
            actions.Allocate: self._allocate,
            actions.Reserve: self._reserve,
            actions.Release: self._release,
            actions.RemoveFinalizer: self._remove_finalizer,
            actions.WriteContext: self._classic.write_context,
            actions.DeleteContext: self._classic.delete_context,
            actions.RequestDeallocation: self._classic.request_deallocation,
            actions.Nominate: self._nominate,
            actions.Nudge: self._nudge,
            actions.Bind: self._bind,
            actions.ReportUnschedulable: self._report_unschedulable,
            actions.Evict: self._evict,
            actions.SetRuleCondition: self._set_rule_condition,
            actions.EmitEvent: self._emit_event,
        }

    async def execute(self, action: actions.Action) -> bool:
        """Carry out an action.

        Returns:
            False if the objects had changed since the decision. In this case they were read again.

        Raises:
            ApiError: the API server rejected the write for any other reason, or did not answer.
        """
        try:
            await self._handlers[type(action)](action)
        except (Conflict, NotFound, AlreadyExists):
            await self._refresh(action)
            return False
        return True

    async def _refresh(self, action: actions.Action) -> None:
        claim = getattr(action, "claim", None)
        pod = getattr(action, "pod", None)
        if claim is not None:
            await self._refresh_claim(claim)
        if pod is not None:
            await self._refresh_pod(pod)
        if isinstance(action, actions.WriteContext):
            meta = action.pod.metadata
            await self._classic.refresh_context(meta.namespace, meta.name)
        elif isinstance(action, actions.DeleteContext):
            meta = action.context.metadata
            await self._classic.refresh_context(meta.namespace, meta.name)

    async def _refresh_claim(self, claim: ResourceClaim) -> None:
        meta = claim.metadata
        try:
            current = await self._client.get(CLAIMS, meta.name, meta.namespace, into=ResourceClaim)
        except NotFound:
            self._caches.claims.apply_deleted(claim)
        else:
            self._caches.claims.apply_written(current)

    async def _refresh_pod(self, pod: Pod) -> None:
        try:
            current = await self._client.get(PODS, pod.metadata.name, pod.metadata.namespace, into=Pod)
        except NotFound:
            self._caches.pods.apply_deleted(pod)
        else:
            self._caches.pods.apply_written(current)

    async def _create_claim(self, action: actions.CreateClaim) -> None:
        namespace = action.claim.metadata.namespace
        self._caches.claims.apply_written(
            await self._client.create(CLAIMS, action.claim, namespace, into=ResourceClaim)
        )

    async def _record_claims(self, action: actions.RecordClaims) -> None:
        statuses = [{"name": name, "resourceClaimName": claim} for name, claim in sorted(action.names.items())]
        await self._patch_pod(action.pod, {"resourceClaimStatuses": statuses})

    async def _record_special_claim(self, action: actions.RecordSpecialClaim) -> None:
        written = await self._patch_pod(action.pod, {"extendedResourceClaimStatus": action.status})
        if written.status.extended_resource_claim_status != action.status:
            # If the pod were bound without this field, it would run without its devices.
            raise dropped_field_error(f"pod {action.pod.ref}", SPECIAL_CLAIM)

    async def _delete_claim(self, action: actions.DeleteClaim) -> None:
        meta = action.claim.metadata
        await self._client.delete(CLAIMS, meta.name, meta.namespace, uid=meta.uid)
        # If the claim has a finalizer, it still exists: read it again.
        await self._refresh_claim(action.claim)

    async def _look_up_plan(self, action: actions.LookUpPlan) -> None:
        for claim in action.claims:
            await self._refresh_claim(claim)
        if action.pod is not None:
            await self._refresh_pod(action.pod)

    async def _look_up_pod(self, action: actions.LookUpPod) -> None:
        try:
            pod = await self._client.get(PODS, action.name, action.namespace, into=Pod)
        except NotFound:
            self.deleted_pods.add(action.uid)
            return
        self._caches.pods.apply_written(pod)
        if pod.metadata.uid != action.uid:
            self.deleted_pods.add(action.uid)

    async def _add_finalizer(self, action: actions.AddFinalizer) -> None:
        finalizers = [*action.claim.metadata.finalizers, CLAIM_FINALIZER]
        await self._patch_claim(action.claim, [_set("/metadata/finalizers", finalizers)], "")

    async def _remove_finalizer(self, action: actions.RemoveFinalizer) -> None:
        claim = action.claim
        finalizers = [name for name in claim.metadata.finalizers if name != CLAIM_FINALIZER]
        await self._patch_claim(claim, [_set("/metadata/finalizers", finalizers)], "")
        if claim.metadata.deletion_timestamp is not None:
            await self._refresh_claim(claim)

    async def _allocate(self, action: actions.Allocate) -> None:
        reserve = _set("/status/reservedFor", [*action.claim.status.reserved_for, action.consumer])
        await self._allocations.write(action.claim, action.allocation, reserve)

    async def _reserve(self, action: actions.Reserve) -> None:
        consumers = [*action.claim.status.reserved_for, action.consumer]
        await self._patch_claim(action.claim, [_set("/status/reservedFor", consumers)])

    async def _release(self, action: actions.Release) -> None:
        operations = _consumers(action.claim, action.remaining)
        if action.deallocate and action.claim.allocation is not None:
            # The server also drops the entries of `status.devices`.
            operations.append(_REMOVE_ALLOCATION)
        released: ResourceClaim | None = await self._patch_claim(action.claim, operations)
        # A driver that detaches the devices may write to the claim now, so this write is repeated after a
        # conflict. No other component would remove the finalizer.
        while released is not None and _needs_no_finalizer(released):
            try:
                await self._remove_finalizer(actions.RemoveFinalizer(released))
            except Conflict:
                await self._refresh_claim(released)
                released = self._caches.claims.items.get(released.ref)
            else:
                return

    async def _nominate(self, action: actions.Nominate) -> None:
        await self._patch_pod(action.pod, {"nominatedNodeName": action.node})

    async def _nudge(self, action: actions.Nudge) -> None:
        meta = action.pod.metadata
        body = {"metadata": {"uid": meta.uid, "annotations": {NUDGE_ANNOTATION: rfc3339(datetime.now(UTC))}}}
        written = await self._client.patch(PODS, meta.name, meta.namespace, body, PatchKind.STRATEGIC, into=Pod)
        self._caches.pods.apply_written(written)

    async def _bind(self, action: actions.Bind) -> None:
        pod, meta = action.pod, action.pod.metadata
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": meta.name, "namespace": meta.namespace, **_version_of(pod)},
            "target": {"apiVersion": "v1", "kind": "Node", "name": action.node},
        }
        await self._client.create(
            PODS, binding, meta.namespace, into=bytes, subresource="binding", name=meta.name
        )
        if not self._reports_bindings:
            return
        message = f"Successfully assigned {pod.ref} to {action.node}"
        await self._recorder.emit(pod_reference(pod), "Normal", "Scheduled", message)

    async def _report_unschedulable(self, action: actions.ReportUnschedulable) -> None:
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": action.reason,
            "message": action.message,
            "lastTransitionTime": rfc3339(datetime.now(UTC)),
        }
        status: dict[str, object] = {"conditions": [condition]}
        if action.pod.status.nominated_node_name != action.nominated_node:
            status["nominatedNodeName"] = action.nominated_node or None
        await self._patch_pod(action.pod, status)
        await self._recorder.emit(pod_reference(action.pod), "Warning", "FailedScheduling", action.message)

    async def _evict(self, action: actions.Evict) -> None:
        pod = action.pod
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": action.reason,
            "message": action.message,
            "lastTransitionTime": rfc3339(datetime.now(UTC)),
        }
        await self._patch_pod(pod, {"conditions": [condition]})
        await self._recorder.emit(pod_reference(pod), "Normal", *action.event)
        await self._client.delete(PODS, pod.metadata.name, pod.metadata.namespace, uid=pod.metadata.uid)
        await self._refresh_pod(pod)

    async def _set_rule_condition(self, action: actions.SetRuleCondition) -> None:
        meta = action.rule.metadata
        body = {
            "apiVersion": TAINT_RULES.api_version,
            "kind": TAINT_RULES.kind,
            "metadata": {"name": meta.name, "uid": meta.uid},
            "status": {"conditions": [action.condition]},
        }
        written = await self._client.patch(
            TAINT_RULES,
            meta.name,
            "",
            body,
            PatchKind.APPLY,
            into=DeviceTaintRule,
            subresource="status",
            field_manager=self._recorder.component,
            force=True,
        )
        self._caches.rules.apply_written(written)

    async def _emit_event(self, action: actions.EmitEvent) -> None:
        await self._recorder.emit(action.regarding, action.type, action.reason, action.message)

    async def _patch_pod(self, pod: Pod, status: Mapping[str, object]) -> Pod:
        """Merge fields into the pod's status; entries of lists are merged by their keys."""
        meta = pod.metadata
        body = {"metadata": _version_of(pod), "status": status}
        written = await self._client.patch(
            PODS, meta.name, meta.namespace, body, PatchKind.STRATEGIC, into=Pod, subresource="status"
        )
        self._caches.pods.apply_written(written)
        return written

    async def _patch_claim(
        self, claim: ResourceClaim, operations: Sequence[Operation], subresource: str = "status"
    ) -> ResourceClaim:
        written = await self._send_claim(claim, operations, subresource)
        self._caches.claims.apply_written(written)
        return written

    async def _send_claim(
        self,
        claim: ResourceClaim,
        operations: Sequence[Operation],
        subresource: str = "status",
        *,
        dry_run: bool = False,
    ) -> ResourceClaim:
        meta = claim.metadata
        locked = [_set("/metadata/resourceVersion", meta.resource_version), *operations]
        return await self._client.patch(
            CLAIMS,
            meta.name,
            meta.namespace,
            locked,
            PatchKind.JSON,
            into=ResourceClaim,
            subresource=subresource,
            dry_run=dry_run,
        )


_REMOVE_ALLOCATION: Final[Operation] = {"op": "remove", "path": "/status/allocation"}


def _version_of(pod: Pod) -> Mapping[str, str]:
    """Return the metadata with which the API server accepts a write only to this version of the pod.

    Source: `BindingREST.Create` (`pkg/registry/core/pod/storage`) reads both fields as preconditions.
    """
    return {"uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version}


def _set(path: str, value: object) -> Operation:
    # "add" replaces a member that exists.
    return {"op": "add", "path": path, "value": value}


def _needs_no_finalizer(claim: ResourceClaim) -> bool:
    """Return whether the claim has the finalizer, but no allocation or reservation that it protects."""
    return (
        claim.allocation is None
        and not claim.status.reserved_for
        and CLAIM_FINALIZER in claim.metadata.finalizers
    )


def _consumers(claim: ResourceClaim, remaining: Sequence[ConsumerReference]) -> list[Operation]:
    if remaining:
        return [_set("/status/reservedFor", list(remaining))]
    return [{"op": "remove", "path": "/status/reservedFor"}] if claim.status.reserved_for else []
