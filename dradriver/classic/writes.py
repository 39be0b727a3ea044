"""The writes of a controller: finalizer and allocation of claims, and its own records.

Each write of a claim is a JSON patch that fails if the claim has changed. `allocating` and `releasing` list
what follows if the process dies after a write.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from dradriver.classic.state import ControllerState
from dradriver.classic.steps.claim_steps import find_other_controller
from dradriver.errors import DraError
from dradriver.kube import (
    CLAIMS,
    CONTROLLER_ALLOCATIONS,
    AlreadyExists,
    Client,
    Conflict,
    Invalid,
    NotFound,
    PatchKind,
    Unavailable,
)
from dradriver.model.classic.allocation_records import ControllerAllocation, RecordedAllocation
from dradriver.model.classic.names import (
    LEASE_ANNOTATION,
    NODE_ANNOTATION,
    RELEASE_ANNOTATION,
    WITHDRAWAL_ANNOTATION,
    finalizer,
)
from dradriver.model.core.meta import ObjectMeta
from dradriver.model.resource.claim import Allocation, ConsumerReference, ResourceClaim

__all__ = ["ClaimChangedError", "ClaimWrites"]


class ClaimChangedError(DraError):
    """The claim was deleted, replaced or allocated by others meanwhile, so the attempt ends."""


class ClaimWrites:
    """Writes the claims and records of one controller, and stores the answers in the caches.

    Args:
        client: the API server.
        state: the caches.
    """

    def __init__(self, client: Client, state: ControllerState) -> None:
        self._client = client
        self._state = state
        self._finalizer = finalizer(state.controller)

    async def read(self, claim: ResourceClaim) -> ResourceClaim | None:
        """Return the claim as the API server has it now; None if it is gone or was replaced."""
        meta = claim.metadata
        try:
            current = await self._client.get(CLAIMS, meta.name, meta.namespace, into=ResourceClaim)
        except NotFound:
            self._state.claims.apply_deleted(claim)
            return None
        self._state.claims.apply_written(current)
        return current if current.metadata.uid == meta.uid else None

    async def read_uid(self, namespace: str, name: str, uid: str) -> ResourceClaim | None:
        """Return the claim with this key and UID as the API server has it now; None if there is none."""
        return await self.read(ResourceClaim(metadata=ObjectMeta(name=name, namespace=namespace, uid=uid)))

    async def read_record(self, claim: ResourceClaim) -> bool:
        """Return whether the claim has a record now, by this process or a rival; the cache gets the record.

        Raises:
            ApiError: the API server did not answer.
        """
        uid, namespace = claim.metadata.uid, claim.metadata.namespace
        try:
            record = await self._client.get(CONTROLLER_ALLOCATIONS, uid, namespace, into=ControllerAllocation)
        except NotFound:
            return False
        self._state.records.apply_written(record)
        return self._state.record(uid) is not None

    async def add_finalizer(self, claim: ResourceClaim) -> ResourceClaim:
        """Add the finalizer of the controller to a claim, before any side effect (KEP-3063).

        The finalizer is `status.controllerName` of KEP-3063. The API server refuses it on a claim that is being
        deleted.

        Returns:
            The claim as stored.

        Raises:
            ClaimChangedError: the claim is gone, being deleted, released or allocated, or another controller
                has begun to allocate it.
            ApiError: the write failed.
        """
        current: ResourceClaim | None = claim
        if self._finalizer in claim.metadata.finalizers:  # no write shows that the claim is not being deleted
            current = await self.read(claim)
        while True:
            current = _check_unallocated(claim, current, self._state.controller)
            if self._finalizer in current.metadata.finalizers:
                _check_not_released(current)
                return current
            try:
                return await self._set_finalizers(current, [*current.metadata.finalizers, self._finalizer])
            except (Conflict, Invalid, NotFound) as error:
                reread = await self.read(claim)
                if isinstance(error, Invalid) and reread is not None:
                    if reread.metadata.deletion_timestamp is None:
                        raise
                    raise ClaimChangedError(f"claim {claim.ref} is being deleted") from error
                current = reread

    async def remove_finalizer(self, claim: ResourceClaim, *, allocated: bool = False) -> None:
        """Remove the finalizer of the controller from a claim. No-op if the claim is gone.

        Args:
            claim: the claim.
            allocated: True: the finalizer is also removed from a claim that others have allocated. False: an
                allocated claim is not changed.
        """
        current: ResourceClaim | None = claim
        while current is not None and (allocated or current.allocation is None):
            rest = [each for each in current.metadata.finalizers if each != self._finalizer]
            is_marked = RELEASE_ANNOTATION in current.metadata.annotations
            if len(rest) == len(current.metadata.finalizers) and not is_marked:
                return
            operations = [{"op": "add", "path": "/metadata/finalizers", "value": rest}]
            if is_marked:
                operations.append(_set_annotations(current, {}))
            try:
                stored = await self._patch(current, operations, "")
            except (Conflict, NotFound):
                current = await self.read(claim)
                continue
            if stored.metadata.deletion_timestamp is not None and not rest:
                self._state.claims.apply_deleted(stored)
            return

    async def settle(self, claim: ResourceClaim) -> bool:
        """Make sure that no earlier write can allocate a claim any more, before the driver deallocates it.

        The answer of such a write may have been lost, also in a process that was killed. It fails if the claim
        has changed, so this write changes the claim.

        Args:
            claim: the unallocated claim.

        Returns:
            Whether the claim had not changed before. Otherwise it was read, and the caller must decide again.

        Raises:
            ApiError: the write failed.
        """
        if claim.metadata.uid in self._state.settled:
            return True
        try:
            await self._patch(
                claim, [_set_annotations(claim, {RELEASE_ANNOTATION: claim.metadata.resource_version})], ""
            )
        except (Conflict, NotFound):
            await self.read(claim)
            return False
        return True

    async def protect(self, claim: ResourceClaim) -> None:
        """Add the finalizer to an allocated claim, from which others have removed it.

        If the claim has changed, it is read, and the caller must decide again.

        Raises:
            ApiError: the write failed.
        """
        try:
            await self._set_finalizers(claim, [*claim.metadata.finalizers, self._finalizer])
        except (Conflict, NotFound):
            await self.read(claim)

    async def create_record(self, claim: ResourceClaim, node: str) -> None:
        """Record that the controller allocates a claim.

        Args:
            claim: the claim.
            node: the node for which it is allocated; empty if it is allocated immediately.

        Raises:
            ClaimChangedError: a process with another Lease, or an attempt for another node, has recorded the
                claim.
            ApiError: the write failed.
        """
        meta = claim.metadata
        spec = RecordedAllocation(
            claim_name=meta.name, claim_uid=meta.uid, controller_name=self._state.controller, node=node
        )
        annotations = {LEASE_ANNOTATION: self._state.lease} if self._state.lease else {}
        record = ControllerAllocation(
            metadata=ObjectMeta(name=meta.uid, namespace=meta.namespace, annotations=annotations), spec=spec
        )
        try:
            stored = await self._client.create(
                CONTROLLER_ALLOCATIONS, record, meta.namespace, into=ControllerAllocation
            )
        except AlreadyExists:
            stored = await self._client.get(
                CONTROLLER_ALLOCATIONS, meta.uid, meta.namespace, into=ControllerAllocation
            )
        self._state.records.apply_written(stored)
        lease = stored.metadata.annotations.get(LEASE_ANNOTATION, self._state.lease)
        if stored.spec != spec or lease != self._state.lease:
            held = f"node {stored.spec.node!r} and Lease {lease!r}"
            raise ClaimChangedError(f"claim {claim.ref}: its record is of an attempt for {held}")

    async def record_node(self, claim: ResourceClaim, node: str) -> None:
        """Add the node of an immediate claim to its record, before the allocation is written.

        With `node_releases`, the claim is deallocated only after this node has released it. If the process dies
        after this write, no pod has used the claim.

        Args:
            claim: the claim, with its record.
            node: the only node on which the claim is allocated.

        Raises:
            ClaimChangedError: others have deleted the record.
            ApiError: the write failed.
        """
        try:
            await self._annotate_record(claim, NODE_ANNOTATION, node)
        except NotFound as error:
            raise ClaimChangedError(f"claim {claim.ref}: its record was deleted") from error

    async def record_withdrawal(self, claim: ResourceClaim) -> None:
        """Record that others have allocated a claim, before the driver deallocates it.

        If others have deleted the record, nothing is recorded.

        Args:
            claim: the claim.

        Raises:
            ApiError: the write failed.
        """
        with suppress(NotFound):
            await self._annotate_record(claim, WITHDRAWAL_ANNOTATION, "true")

    async def _annotate_record(self, claim: ResourceClaim, annotation: str, value: str) -> None:
        meta = claim.metadata
        body = {"metadata": {"annotations": {annotation: value}}}
        stored = await self._client.patch(
            *(CONTROLLER_ALLOCATIONS, meta.uid, meta.namespace, body, PatchKind.MERGE),
            into=ControllerAllocation,
        )
        self._state.records.apply_written(stored)

    async def delete_record(self, record: ControllerAllocation) -> None:
        """Delete a record."""
        meta = record.metadata
        try:
            await self._client.delete(CONTROLLER_ALLOCATIONS, meta.name, meta.namespace, uid=meta.uid)
        except Conflict:
            return  # another record of this name exists, so this one is gone
        self._state.records.apply_deleted(record)

    async def write_allocation(
        self, claim: ResourceClaim, allocation: Allocation, consumer: ConsumerReference | None
    ) -> None:
        """Write the allocation and the reservation for the pod, in one write (KEP-3063, ReservedFor).

        If the answer is lost or the claim has changed, the claim is read. If it has these devices, the write
        was carried out. If it is unallocated, the write is repeated, after a lost answer by the caller.

        The write is not repeated for a claim that is being released: `settle` precedes `deallocate`, so what
        the driver has just allocated may be released already. A process of this controller with another Lease
        releases a claim if it does not know the record yet.

        Args:
            claim: the claim, with the finalizer.
            allocation: the allocation.
            consumer: the pod; None if the claim is allocated immediately.

        Raises:
            ClaimChangedError: the claim is gone, being deleted or released, or allocated by others.
            ApiError: the write failed.
        """
        reserved = [consumer] if consumer is not None else []
        operations: list[Mapping[str, Any]] = [
            {"op": "add", "path": "/status/allocation", "value": allocation},
            {"op": "add", "path": "/status/reservedFor", "value": reserved},
        ]
        current: ResourceClaim | None = claim
        while True:
            current = _check_unallocated(claim, current, self._state.controller)
            if self._finalizer not in current.metadata.finalizers:
                raise ClaimChangedError(f"claim {claim.ref}: its finalizer {self._finalizer} was removed")
            _check_not_released(current)
            try:
                await self._patch_status(current, operations if reserved else operations[:1])
            except (Conflict, NotFound, Unavailable) as error:
                current = await self.read(claim)
                if current is not None and _has_same_devices(current.allocation, allocation):
                    return
                if isinstance(error, Unavailable):
                    raise
            else:
                return

    async def clear_allocation(self, claim: ResourceClaim) -> None:
        """Clear the allocation of a claim that no pod has reserved.

        The write fails if a pod has reserved the claim meanwhile. So no pod can run with an allocation that the
        driver releases afterwards. The server removes the condition `DeallocationRequested` in the same write.

        If the claim has changed, it is read, and the caller must decide again.

        Raises:
            ApiError: the write failed.
        """
        try:
            await self._patch_status(claim, [{"op": "remove", "path": "/status/allocation"}])
            self._state.settled.add(claim.metadata.uid)
        except (Conflict, NotFound):
            await self.read(claim)

    async def _set_finalizers(self, claim: ResourceClaim, finalizers: Sequence[str]) -> ResourceClaim:
        operations: list[Mapping[str, Any]] = [
            {"op": "add", "path": "/metadata/finalizers", "value": finalizers}
        ]
        if RELEASE_ANNOTATION in claim.metadata.annotations:
            operations.append(_set_annotations(claim, {}))  # of a release that has ended with the finalizer
        return await self._patch(claim, operations, "")

    async def _patch_status(self, claim: ResourceClaim, operations: Sequence[Mapping[str, Any]]) -> None:
        await self._patch(claim, operations, "status")

    async def _patch(
        self, claim: ResourceClaim, operations: Sequence[Mapping[str, Any]], subresource: str
    ) -> ResourceClaim:
        meta = claim.metadata
        body = [
            {"op": "add", "path": "/metadata/resourceVersion", "value": meta.resource_version},
            *operations,
        ]
        stored = await self._client.patch(
            *(CLAIMS, meta.name, meta.namespace, body, PatchKind.JSON),
            into=ResourceClaim,
            subresource=subresource,
        )
        self._state.claims.apply_written(stored)
        return stored


def _set_annotations(claim: ResourceClaim, added: Mapping[str, str]) -> dict[str, Any]:
    """Return the operation that sets the annotation of a release to `added`, which may be empty."""
    others = {k: v for k, v in claim.metadata.annotations.items() if k != RELEASE_ANNOTATION}
    return {"op": "add", "path": "/metadata/annotations", "value": {**others, **added}}


def _has_same_devices(one: Allocation | None, other: Allocation) -> bool:
    """Return whether two writes of the controller differ at most in their time."""
    return one is not None and replace(one, allocation_timestamp=None) == replace(
        other, allocation_timestamp=None
    )


def _check_unallocated(claim: ResourceClaim, current: ResourceClaim | None, controller: str) -> ResourceClaim:
    """Return the claim as it is now, if it can be allocated.

    Raises:
        ClaimChangedError: it is gone, being deleted or allocated, or another controller allocates it.
    """
    if current is None:
        raise ClaimChangedError(f"claim {claim.ref} is gone")
    if current.metadata.deletion_timestamp is not None:
        raise ClaimChangedError(f"claim {claim.ref} is being deleted")
    if current.allocation is not None:
        raise ClaimChangedError(f"claim {claim.ref} was allocated meanwhile")
    if other := find_other_controller(current, controller):
        raise ClaimChangedError(f"claim {claim.ref}: controller {other} has begun to allocate it")
    return current


def _check_not_released(claim: ResourceClaim) -> None:
    """Check that no process of this controller releases the claim.

    Raises:
        ClaimChangedError: one does.
    """
    if RELEASE_ANNOTATION in claim.metadata.annotations:
        raise ClaimChangedError(f"claim {claim.ref} is being released")
