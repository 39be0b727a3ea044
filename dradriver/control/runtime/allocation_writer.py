"""Write the allocations of claims, and check that the API server stores all their fields.

If the API server dropped a field from a write, the next write with this field is first sent as a dry run.
Otherwise each attempt for a waiting pod would write an allocation and revert it, and drivers would attach and
detach its devices.
"""

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Final, Protocol, TypeAlias

from dradriver.control.runtime.gated_fields import GatedField, dropped_field_error, find_gated, find_missing
from dradriver.kube import ApiError
from dradriver.model.resource.claim import Allocation, ResourceClaim
from dradriver.model.resource.recorded_groups import has_groups, record_groups_in_config

__all__ = ["AllocationWriter", "Operation", "SendClaim"]

Operation: TypeAlias = Mapping[str, object]
"""An operation of a JSON patch."""

_FIELD_REJECTED: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY)


class SendClaim(Protocol):
    """Sends operations on the status of a claim, and returns the claim in the answer."""

    async def __call__(
        self, claim: ResourceClaim, operations: Sequence[Operation], *, dry_run: bool = False
    ) -> ResourceClaim:
        """Send the operations."""


class AllocationWriter:
    """Writes allocations.

    Args:
        send: sends the operations of a write.
        note_written: called with the claim that a write has returned.
    """

    def __init__(self, send: SendClaim, note_written: Callable[[ResourceClaim], None]) -> None:
        self._send = send
        self._note_written = note_written
        self._dropped: set[GatedField] = set()

    async def write(self, claim: ResourceClaim, allocation: Allocation, reserve: Operation) -> None:
        """Write an allocation and a reservation.

        If the process dies after the write, the claim is allocated and reserved (`actions.Allocate`). If the
        error is about a dropped field, the allocation may be stored without the field; the caller must revert
        it.

        Args:
            claim: the claim, which has no allocation.
            allocation: the allocation.
            reserve: the operation that reserves the claim.

        Raises:
            DraError: the API server does not store a field of the allocation. The message names the claim, the
                field and the feature gate.
            ApiError: the API server rejected the write, or did not answer.
        """
        if has_groups(allocation) and not await self._stores_groups(claim, allocation, reserve):
            allocation = record_groups_in_config(allocation)
        operations = [_set_allocation(allocation), reserve]
        if not self._dropped.isdisjoint(find_gated(allocation)):
            await self._try_write(claim, allocation, operations)
        written = await self._send(claim, operations)
        self._note_written(written)
        self._check_stored(claim, allocation, written)

    async def _try_write(
        self, claim: ResourceClaim, allocation: Allocation, operations: Sequence[Operation]
    ) -> None:
        try:
            stored = await self._send(claim, operations, dry_run=True)
        except ApiError as error:
            if error.status not in _FIELD_REJECTED:
                raise
            return  # a webhook does not support dry runs, so only the write shows what is stored
        self._check_stored(claim, allocation, stored)

    def _check_stored(self, claim: ResourceClaim, sent: Allocation, stored: ResourceClaim) -> None:
        missing = find_missing(sent, stored.allocation)
        self._dropped.difference_update(find_gated(sent))
        self._dropped.update(missing)
        if missing:
            raise dropped_field_error(f"claim {claim.ref}", missing[0])

    async def _stores_groups(self, claim: ResourceClaim, allocation: Allocation, reserve: Operation) -> bool:
        """Return whether the API server stores compatibility groups of results (KEP-5963), by a dry run.

        Kubernetes 1.37 drops the groups silently, and a feature gate may change while this process runs. So
        each write with groups is first sent as a dry run. Few devices have groups.
        """
        try:
            stored = await self._send(claim, [_set_allocation(allocation), reserve], dry_run=True)
        except ApiError as error:
            if error.status not in _FIELD_REJECTED:
                raise
            return False  # the server rejects the field, or a webhook does not support dry runs
        return stored.allocation is not None and has_groups(stored.allocation)


def _set_allocation(allocation: Allocation) -> Operation:
    return {"op": "add", "path": "/status/allocation", "value": allocation}
