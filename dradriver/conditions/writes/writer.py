"""Write conditions and data into `status.devices` of a claim, beside the entries of other writers.

The write is a JSON patch of one entry. It fails if the claim has changed since the decision (the patch contains
the resource version). The bytes of all other fields stay as they are, above all of opaque parameters. If the
process dies right after it, the value is stored, and the next process reads it.

An API server with DRAResourceClaimDeviceStatus off answers such a patch with 200 and drops the entry, unless
the claim already has `status.devices`. So the answer is compared with the sent value.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import replace

from dradriver.driver import AllocatedDevice, AllocationGone
from dradriver.errors import DraError
from dradriver.kube import CLAIMS, Client, Conflict, NotFound, PatchKind
from dradriver.kube.errors import ApiError
from dradriver.model.core.conditions import MAX_CONDITIONS, put
from dradriver.model.core.meta import Condition
from dradriver.model.encoding.codec import builtins, canonical
from dradriver.model.resource.claim import (
    DEVICE_DATA_LIMIT,
    AllocatedDeviceStatus,
    Allocation,
    ResourceClaim,
)

__all__ = ["ConditionWriter", "ConditionsDroppedError", "NodeConditionWriter"]

_MAX_ATTEMPTS: Final = 20


class ConditionsDroppedError(ApiError):
    """The API server accepted the write and did not store its conditions or data."""


class ConditionWriter:
    """The conditions of one allocation of one claim: the SDK's implementation of `claim.conditions`.

    Args:
        client: the API server.
        driver: the driver's name.
        claim: the claim as it was when the work began. If the claim is allocated again, nothing is written.
        on_read: called with the claim after a write, or if it has another allocation.
    """

    def __init__(
        self,
        client: Client,
        driver: str,
        claim: ResourceClaim,
        on_read: Callable[[ResourceClaim], None] = lambda _: None,
    ) -> None:
        self._client = client
        self._driver = driver
        self._claim = claim
        self._on_read = on_read

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
            keep: whether a condition that the device already has stays as it is.

        Raises:
            AllocationGone: nothing was written, because the allocation no longer exists.
            ConditionsDroppedError: the API server does not store conditions of devices.
            DraError: the conditions could not be written.
        """
        stored = await self._write(device, lambda claim: self._operations(claim, device, conditions, keep=keep))
        if stored is not None:
            self._check_stored(stored, device, conditions)
            self._on_read(stored)

    async def set_data(self, device: AllocatedDevice, data: Mapping[str, object]) -> None:
        """See `ClaimConditions.set_data`."""
        text = self._encode_data(device, data)
        stored = await self._write(device, lambda claim: self._data_operations(claim, device, text))
        if stored is not None:
            self._check_data_stored(stored, device)
            self._on_read(stored)

    async def _write(
        self, device: AllocatedDevice, decide: Callable[[ResourceClaim], list[dict[str, object]]]
    ) -> ResourceClaim | None:
        """Patch the claim with the decided operations; return it as stored, None if there is nothing to do."""
        for _ in range(_MAX_ATTEMPTS):
            claim = await self._current(device)
            operations = decide(claim)
            if not operations:
                return None
            try:
                return await self._patch(claim, operations)
            except Conflict:
                continue
            except NotFound as error:
                raise AllocationGone(f"claim {claim.ref}: deleted") from error
        raise ApiError(
            f"claim {self._claim.ref}: status.devices: nothing was written after {_MAX_ATTEMPTS} conflicts"
        )

    def _encode_data(self, device: AllocatedDevice, data: object) -> bytes:
        subject = f"claim {self._claim.ref}: data of device {device.id(self._driver)}"
        if not isinstance(data, Mapping):
            raise DraError(f"{subject}: {type(data).__name__}: must be a mapping (a JSON object)")
        try:
            text = canonical(data)
        except (TypeError, ValueError, OverflowError, NotImplementedError, RecursionError) as error:
            raise DraError(f"{subject}: has no JSON form: {error}") from error
        if len(text) > DEVICE_DATA_LIMIT:
            raise DraError(f"{subject}: must have at most {DEVICE_DATA_LIMIT} bytes as JSON, has {len(text)}")
        return text

    async def _current(self, device: AllocatedDevice) -> ResourceClaim:
        meta = self._claim.metadata
        try:
            claim = await self._client.get(CLAIMS, meta.name, meta.namespace, into=ResourceClaim)
        except NotFound as error:
            raise AllocationGone(f"claim {self._claim.ref}: deleted") from error
        allocated = {result.id for result in claim.results}
        same = claim.metadata.uid == meta.uid and _identity(claim.allocation) == _identity(
            self._claim.allocation
        )
        if not same or device.id(self._driver) not in allocated:
            self._on_read(claim)  # a cache that is behind would begin the same work again and again
            raise AllocationGone(
                f"claim {claim.ref}: status.allocation: changed since the conditions were decided"
            )
        return claim

    def _operations(
        self, claim: ResourceClaim, device: AllocatedDevice, new: list[Condition], *, keep: bool
    ) -> list[dict[str, object]]:
        entries = claim.status.devices
        device_id = device.id(self._driver)
        index = next((number for number, entry in enumerate(entries) if entry.id == device_id), None)
        before = entries[index].conditions if index is not None else []
        after = before
        now = datetime.now(UTC).replace(microsecond=0)
        kept = {each.type for each in before} if keep else set()
        for each in new:
            if each.type in kept:
                continue
            after = put(after, replace(each, reason=each.reason or "Reported"), now)
        if len(after) > MAX_CONDITIONS:
            types = ", ".join(each.type for each in before)
            raise DraError(
                f"claim {claim.ref}: conditions of device {device_id}: must have at most {MAX_CONDITIONS} "
                f"items, has {types}"
            )
        if after == before:
            return []
        if index is not None:
            return [{"op": "add", "path": f"/status/devices/{index}/conditions", "value": after}]
        return self._add_entry(claim, replace(self._new_entry(device), conditions=after))

    def _data_operations(
        self, claim: ResourceClaim, device: AllocatedDevice, text: bytes
    ) -> list[dict[str, object]]:
        entries = claim.status.devices
        device_id = device.id(self._driver)
        index = next((number for number, entry in enumerate(entries) if entry.id == device_id), None)
        if index is None:
            return self._add_entry(claim, replace(self._new_entry(device), data=msgspec.Raw(text)))
        before = entries[index].data_object
        if before is not None and canonical(before) == text:
            return []
        return [{"op": "add", "path": f"/status/devices/{index}/data", "value": msgspec.Raw(text)}]

    def _new_entry(self, device: AllocatedDevice) -> AllocatedDeviceStatus:
        return AllocatedDeviceStatus(
            driver=self._driver, pool=device.pool, device=device.name, share_id=device.share_id or None
        )

    @staticmethod
    def _add_entry(claim: ResourceClaim, entry: AllocatedDeviceStatus) -> list[dict[str, object]]:
        if claim.status.devices:
            return [{"op": "add", "path": "/status/devices/-", "value": entry}]
        return [{"op": "add", "path": "/status/devices", "value": [entry]}]

    def _check_stored(self, stored: ResourceClaim, device: AllocatedDevice, sent: list[Condition]) -> None:
        device_id = device.id(self._driver)
        kept = {c.type for entry in stored.status.devices if entry.id == device_id for c in entry.conditions}
        if any(condition.type not in kept for condition in sent):
            raise ConditionsDroppedError(
                f"claim {stored.ref}: status.devices: the API server does not store the conditions of device "
                f"{device_id}: the feature gate DRAResourceClaimDeviceStatus is off"
            )

    def _check_data_stored(self, stored: ResourceClaim, device: AllocatedDevice) -> None:
        device_id = device.id(self._driver)
        status = stored.device_status(device_id)
        if status is None or status.data is msgspec.UNSET:
            raise ConditionsDroppedError(
                f"claim {stored.ref}: status.devices: the API server does not store the data of device "
                f"{device_id}: the feature gate DRAResourceClaimDeviceStatus is off"
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


class NodeConditionWriter(ConditionWriter):
    """Writes conditions for a `NodeBindingDriver`; the data has one writer, the `BindingDriver`."""

    async def set_data(self, device: AllocatedDevice, data: Mapping[str, object]) -> None:  # noqa: ARG002
        """See `ClaimConditions.set_data`.

        Raises:
            DraError: always.
        """
        raise DraError(
            f"claim {self._claim.ref}: data of device {device.id(self._driver)}: "
            "must be set by a BindingDriver, a NodeBindingDriver can only read it"
        )


def _identity(allocation: Allocation | None) -> tuple[object, ...]:
    return () if allocation is None else (allocation.allocation_timestamp, allocation.node_selector)
