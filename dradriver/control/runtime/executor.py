"""Carries out actions against the API server.

Claims are written by JSON patches that touch only what changes and name the resource version on which the
decision was made. A JSON patch keeps the bytes of everything else, above all of opaque parameters, which the
API server compares byte by byte. A strategic merge or an apply would rewrite them, and a merge patch would drop
the nulls in them.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final, TypeAlias

from dradriver.control.claims.pod_claims import pod_reference
from dradriver.control.runtime import actions
from dradriver.control.runtime.bounded_set import BoundedSet
from dradriver.control.runtime.caches import Caches
from dradriver.errors import DraError
from dradriver.kube import (
    CLAIMS,
    PODS,
    TAINT_RULES,
    AlreadyExists,
    ApiError,
    Client,
    Conflict,
    EventRecorder,
    NotFound,
    PatchKind,
)
from dradriver.model.core.workload import Pod
from dradriver.model.encoding.codec import rfc3339
from dradriver.model.resource.claim import CLAIM_FINALIZER, Allocation, ConsumerReference, ResourceClaim
from dradriver.model.resource.recorded_groups import has_groups, recorded_in_config
from dradriver.model.resource.taint_rule import DeviceTaintRule

__all__ = ["Executor"]

_Operation: TypeAlias = Mapping[str, object]


class Executor:
    """Executes actions. Before it returns, the caches contain its writes, except for the node of a bound pod.

    Attributes:
        gone: UIDs of pods that were found not to exist any more.
    """

    def __init__(self, client: Client, caches: Caches, recorder: EventRecorder) -> None:
        self.gone = BoundedSet()
        self._client = client
        self._caches = caches
        self._recorder = recorder
        self._ways: Mapping[type, Callable[[Any], Awaitable[None]]] = {
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
            actions.Nominate: self._nominate,
            actions.Bind: self._bind,
            actions.ReportUnschedulable: self._report,
            actions.Evict: self._evict,
            actions.SetRuleCondition: self._set_rule_condition,
            actions.EmitEvent: self._say,
        }

    async def execute(self, action: actions.Action) -> bool:
        """Carry out an action.

        Returns:
            False when the objects had changed since the decision. They have been read again.

        Raises:
            ApiError: any other refusal, or no answer.
        """
        try:
            await self._ways[type(action)](action)
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
        field = "extendedResourceClaimStatus"
        written = await self._patch_pod(action.pod, {field: action.status})
        if written.status.extended_resource_claim_status != action.status:
            # If the pod were bound nevertheless, it would run without its devices.
            raise DraError(f"the API server drops status.{field}: DRAExtendedResource is off there")

    async def _delete_claim(self, action: actions.DeleteClaim) -> None:
        meta = action.claim.metadata
        await self._client.delete(CLAIMS, meta.name, meta.namespace, uid=meta.uid)
        # With a finalizer the claim still exists, without one it is gone: read it again.
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
            self.gone.add(action.uid)
            return
        self._caches.pods.apply_written(pod)
        if pod.metadata.uid != action.uid:
            self.gone.add(action.uid)

    async def _add_finalizer(self, action: actions.AddFinalizer) -> None:
        finalizers = [*action.claim.metadata.finalizers, CLAIM_FINALIZER]
        await self._patch_claim(action.claim, [_set("/metadata/finalizers", finalizers)], "")

    async def _remove_finalizer(self, action: actions.RemoveFinalizer) -> None:
        await self._without_finalizer(action.claim)

    async def _without_finalizer(self, claim: ResourceClaim) -> None:
        finalizers = [name for name in claim.metadata.finalizers if name != CLAIM_FINALIZER]
        await self._patch_claim(claim, [_set("/metadata/finalizers", finalizers)], "")
        if claim.metadata.deletion_timestamp is not None:
            await self._refresh_claim(claim)

    async def _allocate(self, action: actions.Allocate) -> None:
        allocation = action.allocation
        reserve = _set("/status/reservedFor", [*action.claim.status.reserved_for, action.consumer])
        if has_groups(allocation) and not await self._keeps_groups(action.claim, allocation, reserve):
            allocation = recorded_in_config(allocation)
        operations = [_set("/status/allocation", allocation), reserve]
        written = await self._patch_claim(action.claim, operations)
        if has_groups(allocation) and not (written.allocation and has_groups(written.allocation)):
            # One of several API servers has the gate off. The devices would be used without their record.
            raise DraError(
                "the API server drops compatibilityGroups of allocation results, and kept them a moment ago"
            )

    async def _keeps_groups(self, claim: ResourceClaim, allocation: Allocation, reserve: _Operation) -> bool:
        """Return whether the API server stores the groups of results (KEP-5963), by a dry run of the write.

        Kubernetes 1.37 drops them silently, and a gate may change while this process runs. So every such write
        is tried first. Few devices have groups.
        """
        operations = [_set("/status/allocation", allocation), reserve]
        try:
            answer = await self._send_claim(claim, operations, dry_run=True)
        except ApiError as error:
            if error.status not in _NOT_LIKE_THIS:
                raise
            return False  # the server rejects the field, or a webhook does not support dry runs
        return answer.allocation is not None and has_groups(answer.allocation)

    async def _reserve(self, action: actions.Reserve) -> None:
        consumers = [*action.claim.status.reserved_for, action.consumer]
        await self._patch_claim(action.claim, [_set("/status/reservedFor", consumers)])

    async def _release(self, action: actions.Release) -> None:
        operations = _consumers(action.claim, action.remaining)
        if action.deallocate and action.claim.allocation is not None:
            # The server also drops the entries of `status.devices`.
            operations.append(_REMOVE_ALLOCATION)
        released: ResourceClaim | None = await self._patch_claim(action.claim, operations)
        # A driver that detaches the devices also writes now. No other component would remove the finalizer
        # later.
        while released is not None and _only_protected(released):
            try:
                await self._without_finalizer(released)
            except Conflict:
                await self._refresh_claim(released)
                released = self._caches.claims.items.get(released.ref)
            else:
                return

    async def _nominate(self, action: actions.Nominate) -> None:
        await self._patch_pod(action.pod, {"nominatedNodeName": action.node})

    async def _bind(self, action: actions.Bind) -> None:
        meta = action.pod.metadata
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": action.node},
        }
        await self._client.create(
            PODS, binding, meta.namespace, into=bytes, subresource="binding", name=meta.name
        )
        message = f"Successfully assigned {action.pod.ref} to {action.node}"
        await self._recorder.emit(pod_reference(action.pod), "Normal", "Scheduled", message)

    async def _report(self, action: actions.ReportUnschedulable) -> None:
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": action.reason,
            "message": action.message,
            "lastTransitionTime": rfc3339(datetime.now(UTC)),
        }
        nominated = {"nominatedNodeName": None} if action.pod.status.nominated_node_name else {}
        await self._patch_pod(action.pod, {"conditions": [condition], **nominated})
        await self._recorder.emit(pod_reference(action.pod), "Warning", "FailedScheduling", action.message)

    async def _evict(self, action: actions.Evict) -> None:
        pod = action.pod
        reference = pod_reference(pod)
        await self._recorder.emit(reference, "Normal", "DeviceTaintManagerEviction", "Marking for deletion")
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByDeviceTaintManager",
            "message": "Device Taint manager: deleting due to NoExecute taint",
            "lastTransitionTime": rfc3339(datetime.now(UTC)),
        }
        await self._patch_pod(pod, {"conditions": [condition]})
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

    async def _say(self, action: actions.EmitEvent) -> None:
        await self._recorder.emit(action.regarding, action.type, action.reason, action.message)

    async def _patch_pod(self, pod: Pod, status: Mapping[str, object]) -> Pod:
        """Merge into the status of the pod with this UID; entries of the two lists are merged by name."""
        meta = pod.metadata
        body = {"metadata": {"uid": meta.uid}, "status": status}
        written = await self._client.patch(
            PODS, meta.name, meta.namespace, body, PatchKind.STRATEGIC, into=Pod, subresource="status"
        )
        self._caches.pods.apply_written(written)
        return written

    async def _patch_claim(
        self, claim: ResourceClaim, operations: Sequence[_Operation], subresource: str = "status"
    ) -> ResourceClaim:
        written = await self._send_claim(claim, operations, subresource)
        self._caches.claims.apply_written(written)
        return written

    async def _send_claim(
        self,
        claim: ResourceClaim,
        operations: Sequence[_Operation],
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


_NOT_LIKE_THIS: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY)
_REMOVE_ALLOCATION: Final[_Operation] = {"op": "remove", "path": "/status/allocation"}


def _set(path: str, value: object) -> _Operation:
    # "add" to a member that exists replaces it.
    return {"op": "add", "path": path, "value": value}


def _only_protected(claim: ResourceClaim) -> bool:
    """Return whether the claim has the finalizer, but no allocation or reservation that it protects."""
    return (
        claim.allocation is None
        and not claim.status.reserved_for
        and CLAIM_FINALIZER in claim.metadata.finalizers
    )


def _consumers(claim: ResourceClaim, remaining: Sequence[ConsumerReference]) -> list[_Operation]:
    if remaining:
        return [_set("/status/reservedFor", list(remaining))]
    return [{"op": "remove", "path": "/status/reservedFor"}] if claim.status.reserved_for else []
