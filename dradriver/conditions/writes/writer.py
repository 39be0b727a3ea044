"""Write conditions into `status.devices` of a claim, beside the entries of other writers.

The write is a JSON patch of one entry, bound to the resource version of the decision. The bytes of everything
else stay as they are, especially opaque parameters. If the process dies right after it, the condition is
stored, and the next process reads it.

An API server with DRAResourceClaimDeviceStatus off answers such a patch with 200 and drops the entry, unless
the claim already has `status.devices`. So the answer is compared with the sent value.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, Literal

from msgspec.structs import replace

from dradriver.driver import AllocatedDevice, AllocationGone
from dradriver.errors import DraError
from dradriver.kube import CLAIMS, Client, Conflict, NotFound, PatchKind
from dradriver.kube.errors import ApiError
from dradriver.model.core.conditions import MAX_CONDITIONS, put
from dradriver.model.core.meta import Condition
from dradriver.model.encoding.codec import builtins
from dradriver.model.resource.claim import AllocatedDeviceStatus, Allocation, ResourceClaim

__all__ = ["ConditionWriter", "ConditionsDroppedError"]

_TRIES: Final = 20


class ConditionsDroppedError(ApiError):
    """The API server accepted the write and did not store its conditions."""


class ConditionWriter:
    """The conditions of one allocation of one claim: the SDK's implementation of `claim.conditions`.

    Args:
        client: the API server.
        driver: the driver's name.
        claim: the claim as it was when the work began. Another allocation is not written to.
        wrote: called with the written claim.
    """

    def __init__(
        self,
        client: Client,
        driver: str,
        claim: ResourceClaim,
        wrote: Callable[[ResourceClaim], None] = lambda _: None,
    ) -> None:
        self._client = client
        self._driver = driver
        self._claim = claim
        self._wrote = wrote

    async def set(
        self,
        device: AllocatedDevice,
        kind: str,
        status: Literal["True", "False", "Unknown"] | bool,  # noqa: FBT001 - as the protocol has it
        reason: str = "",
        message: str = "",
    ) -> None:
        """See `ClaimConditions.set`."""
        await self.set_all(device, [Condition(type=kind, status=str(status), reason=reason, message=message)])

    async def set_all(
        self, device: AllocatedDevice, conditions: list[Condition], *, keep: bool = False
    ) -> None:
        """Set several conditions of a device in one write.

        Args:
            device: one of the claim's devices.
            conditions: the conditions.
            keep: whether existing conditions of the device stay as they are.

        Raises:
            AllocationGone: nothing was written, because the allocation no longer exists.
            ConditionsDroppedError: the API server does not store conditions of devices.
            DraError: the conditions could not be written.
        """
        for _ in range(_TRIES):
            claim = await self._current(device)
            operations = self._change(claim, device, conditions, keep=keep)
            if not operations:
                return
            try:
                stored = await self._patch(claim, operations)
            except Conflict:
                continue
            except NotFound as error:
                raise AllocationGone(f"claim {claim.ref} is gone") from error
            self._check_stored(stored, device, conditions)
            self._wrote(stored)
            return
        raise ApiError(f"claim {self._claim.ref} keeps changing: no condition was written")

    async def _current(self, device: AllocatedDevice) -> ResourceClaim:
        meta = self._claim.metadata
        try:
            claim = await self._client.get(CLAIMS, meta.name, meta.namespace, into=ResourceClaim)
        except NotFound as error:
            raise AllocationGone(f"claim {self._claim.ref} is gone") from error
        held = {result.id for result in claim.results}
        same = claim.metadata.uid == meta.uid and _identity(claim.allocation) == _identity(
            self._claim.allocation
        )
        if not same or device.id(self._driver) not in held:
            raise AllocationGone(f"claim {claim.ref} is not allocated any more as it was")
        return claim

    def _change(
        self, claim: ResourceClaim, device: AllocatedDevice, new: list[Condition], *, keep: bool
    ) -> list[dict[str, object]]:
        entries = claim.status.devices
        ours = device.id(self._driver)
        at = next((number for number, entry in enumerate(entries) if entry.id == ours), None)
        before = entries[at].conditions if at is not None else []
        after = before
        now = datetime.now(UTC).replace(microsecond=0)
        said = {each.type for each in before} if keep else set()
        for each in new:
            if each.type in said:
                continue
            after = put(after, _complete(each), now)
        if len(after) > MAX_CONDITIONS:
            told = ", ".join(each.type for each in before)
            raise DraError(
                f"device {ours} of claim {claim.ref} has {MAX_CONDITIONS} conditions at most: {told}"
            )
        if after == before:
            return []
        if at is not None:
            return [{"op": "add", "path": f"/status/devices/{at}/conditions", "value": after}]
        entry = AllocatedDeviceStatus(
            driver=self._driver,
            pool=device.pool,
            device=device.name,
            share_id=device.share_id or None,
            conditions=after,
        )
        if entries:
            return [{"op": "add", "path": "/status/devices/-", "value": entry}]
        return [{"op": "add", "path": "/status/devices", "value": [entry]}]

    def _check_stored(self, stored: ResourceClaim, device: AllocatedDevice, sent: list[Condition]) -> None:
        ours = device.id(self._driver)
        kept = {c.type for entry in stored.status.devices if entry.id == ours for c in entry.conditions}
        if any(condition.type not in kept for condition in sent):
            raise ConditionsDroppedError(
                f"the API server does not store the conditions of device {ours} in status.devices of claim "
                f"{stored.ref}: DRAResourceClaimDeviceStatus is off there"
            )

    async def _patch(self, claim: ResourceClaim, operations: list[dict[str, object]]) -> ResourceClaim:
        meta = claim.metadata
        locked: list[dict[str, Any]] = [
            {"op": "add", "path": "/metadata/resourceVersion", "value": meta.resource_version},
            *builtins(operations),
        ]
        return await self._client.patch(
            *(CLAIMS, meta.name, meta.namespace, locked, PatchKind.JSON),
            into=ResourceClaim,
            subresource="status",
        )


def _identity(allocation: Allocation | None) -> tuple[object, ...]:
    return () if allocation is None else (allocation.allocation_timestamp, allocation.node_selector)


def _complete(condition: Condition) -> Condition:
    return replace(condition, reason=condition.reason or "Reported")
