"""Write the objects of classic DRA (KEP-3063): contexts, and requests to deallocate."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from dradriver.control.runtime import actions
from dradriver.control.runtime.allocation_writer import Operation
from dradriver.control.runtime.caches import Caches
from dradriver.errors import DraError
from dradriver.kube import CONTROLLER_ALLOCATIONS, SCHEDULING_CONTEXTS, Client, NotFound, PatchKind
from dradriver.model.classic.allocation_records import ControllerAllocation
from dradriver.model.classic.names import DEALLOCATION_REQUESTED
from dradriver.model.classic.scheduling import PodSchedulingContext, SchedulingSpec
from dradriver.model.core.meta import Condition, ObjectMeta, OwnerReference
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import AllocatedDeviceStatus, ConsumerReference, ResourceClaim

__all__ = ["ClassicWriter"]

_REASON: Final = "PodUnschedulable"
_DEFAULT_MESSAGE: Final = "the pod of the claim fits no node while the claim is allocated there"


class ClassicWriter:
    """Carries out `WriteContext`, `DeleteContext` and `RequestDeallocation`.

    Args:
        client: the API server.
        caches: the cached objects of the cluster.
        patch_claim: sends operations on the status of a claim. The write fails if the claim has changed.
    """

    def __init__(
        self,
        client: Client,
        caches: Caches,
        patch_claim: Callable[[ResourceClaim, Sequence[Operation]], Awaitable[ResourceClaim]],
    ) -> None:
        self._client = client
        self._contexts, self._records = caches.contexts, caches.records
        self._check_served = caches.check_served
        self._patch_claim = patch_claim

    async def write_context(self, action: actions.WriteContext) -> None:
        """Create or change a context.

        Raises:
            ApiError: the API server rejected the write, or did not answer.
        """
        pod, context = action.pod, action.context
        if context is not None and not context.is_for(pod.metadata.uid):
            await self.delete_context(actions.DeleteContext(context))
            context = None
        if context is None:
            created = await self._client.create(
                SCHEDULING_CONTEXTS,
                _new_context(pod, action.spec),
                pod.metadata.namespace,
                into=PodSchedulingContext,
            )
            self._contexts.apply_written(created)
            return
        spec = {
            "selectedNode": action.spec.selected_node or None,
            "potentialNodes": action.spec.potential_nodes or None,
        }
        meta = context.metadata
        body = {"metadata": {"uid": meta.uid}, "spec": spec}
        written = await self._client.patch(
            SCHEDULING_CONTEXTS,
            meta.name,
            meta.namespace,
            body,
            PatchKind.MERGE,
            into=PodSchedulingContext,
        )
        self._contexts.apply_written(written)

    async def delete_context(self, action: actions.DeleteContext) -> None:
        """Delete a context; a no-op if it is gone.

        Raises:
            Conflict: another object has the name now.
            ApiError: the API server rejected the write, or did not answer.
        """
        meta = action.context.metadata
        with suppress(NotFound):
            await self._client.delete(SCHEDULING_CONTEXTS, meta.name, meta.namespace, uid=meta.uid)
        self._contexts.apply_deleted(action.context)

    async def refresh_context(self, namespace: str, name: str) -> None:
        """Read a context again, because it has changed since the decision, or its definition was removed."""
        known = self._contexts.items.get(f"{namespace}/{name}")
        try:
            current = await self._client.get(SCHEDULING_CONTEXTS, name, namespace, into=PodSchedulingContext)
        except NotFound:
            if known is not None:
                self._contexts.apply_deleted(known)
            await self._check_served()
        else:
            self._contexts.apply_written(current)

    async def request_deallocation(self, action: actions.RequestDeallocation) -> None:
        """Ask a controller to deallocate a claim.

        Raises:
            DraError: the claim has no devices, and its controller has written no record.
            ApiError: the API server rejected the write, or did not answer.
        """
        claim = action.claim
        operations = _consumers(claim, action.remaining)
        if claim.results:
            operations = [*_request(claim, action.message or _DEFAULT_MESSAGE), *operations]
        else:
            await self._mark_record(claim, action.record)
        if operations:
            await self._patch_claim(claim, operations)

    async def _mark_record(self, claim: ResourceClaim, record: ControllerAllocation | None) -> None:
        if record is None:
            rule = "its allocation has no devices, and its controller has no record of it"
            raise DraError(f"ResourceClaim {claim.ref}: status.allocation: {rule}")
        meta = record.metadata
        body = {"metadata": {"uid": meta.uid}, "status": {"deallocationRequested": True}}
        written = await self._client.patch(
            CONTROLLER_ALLOCATIONS,
            meta.name,
            meta.namespace,
            body,
            PatchKind.MERGE,
            into=ControllerAllocation,
            subresource="status",
        )
        self._records.apply_written(written)


def _new_context(pod: Pod, spec: SchedulingSpec) -> PodSchedulingContext:
    meta = pod.metadata
    owner = OwnerReference(api_version="v1", kind="Pod", name=meta.name, uid=meta.uid)
    metadata = ObjectMeta(name=meta.name, namespace=meta.namespace, owner_references=[owner])
    return PodSchedulingContext(metadata=metadata, spec=spec)


def _request(claim: ResourceClaim, message: str) -> list[Operation]:
    """Return the operations that set the condition DeallocationRequested on the claim's first device."""
    first = claim.results[0]
    condition = Condition(
        type=DEALLOCATION_REQUESTED,
        status="True",
        reason=_REASON,
        message=message,
        last_transition_time=datetime.now(UTC).replace(microsecond=0),
    )
    for index, entry in enumerate(claim.status.devices):
        if entry.id == first.id:
            others = [each for each in entry.conditions if each.type != DEALLOCATION_REQUESTED]
            return [_add(f"/status/devices/{index}/conditions", [*others, condition])]
    entry = AllocatedDeviceStatus(
        driver=first.driver,
        pool=first.pool,
        device=first.device,
        share_id=first.share_id,
        conditions=[condition],
    )
    if claim.status.devices:
        return [_add("/status/devices/-", entry)]
    return [_add("/status/devices", [entry])]


def _consumers(claim: ResourceClaim, remaining: Sequence[ConsumerReference]) -> list[Operation]:
    if len(remaining) == len(claim.status.reserved_for):
        return []
    if remaining:
        return [_add("/status/reservedFor", list(remaining))]
    return [{"op": "remove", "path": "/status/reservedFor"}]


def _add(path: str, value: object) -> Operation:
    return {"op": "add", "path": path, "value": value}
