"""`status.devices` of claims: what the driver says of each device, merged into what others say.

Written in the background: it informs, nothing depends on it, so its failure never fails a prepare. First by
server-side apply, which touches nothing but our own entries. A claim whose opaque parameters are not stored as
Go writes them refuses that (the server compares them byte by byte): then by a merge patch of the list as it is
now, bound to the resource version.
"""

import asyncio
import logging
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from dradriver.errors import DraError
from dradriver.kube.client import PatchKind
from dradriver.kube.errors import ApiError, Conflict, Invalid, NotFound
from dradriver.kube.resources import CLAIMS
from dradriver.model.claim import AllocatedDeviceStatus
from dradriver.model.codec import builtins, rfc3339
from dradriver.model.meta import Condition
from dradriver.node.api import Api
from dradriver.node.metrics import Metrics
from dradriver.node.records import ClaimRecord

__all__ = ["StatusWriter", "device_statuses", "merged"]

_log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = (0.5, 60.0)
_MAX_MANAGER: Final = 128


def device_statuses(driver: str, record: ClaimRecord, now: datetime) -> list[AllocatedDeviceStatus]:
    """What is to be said of the claim's devices; those of which the driver says nothing are left out."""
    return [
        AllocatedDeviceStatus(
            driver=driver,
            pool=device.pool,
            device=device.device,
            share_id=device.share_id or None,
            conditions=[_complete(condition, now) for condition in answer.conditions],
            data=answer.data,
            network_data=answer.network,
        )
        for device, answer in zip(record.devices, record.answers, strict=True)
        if answer.data is not msgspec.UNSET or answer.conditions or answer.network is not None
    ]


def _complete(condition: Condition, now: datetime) -> Condition:
    """The condition with what the API requires and authors leave out."""
    return msgspec.structs.replace(
        condition,
        reason=condition.reason or "Reported",
        last_transition_time=condition.last_transition_time or now,
    )


def merged(theirs: Iterable[dict[str, Any]], ours: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The list with our entries in it: by driver, pool, device and share ID; others stay as they are."""
    entries = {_key(entry): entry for entry in theirs}
    for entry in ours:
        entries[_key(entry)] = {**entries.get(_key(entry), {}), **entry}
    return list(entries.values())


def _key(entry: dict[str, Any]) -> tuple[str, str, str, str]:
    return entry["driver"], entry["pool"], entry["device"], entry.get("shareID", "")


class StatusWriter:
    """Writes device statuses: `run()` until cancelled, `want()` at any time.

    Args:
        client: the API server.
        driver: whose devices they are.
        metrics: counts failures.
    """

    def __init__(self, client: Api, driver: str, metrics: Metrics) -> None:
        self._client = client
        self._driver = driver
        self._manager = f"dradriver/{driver}"[:_MAX_MANAGER]
        self._metrics = metrics
        self._wanted: dict[str, ClaimRecord] = {}
        self._wake = asyncio.Event()

    def want(self, record: ClaimRecord) -> None:
        """The claim has been prepared like this; returns at once."""
        if device_statuses(self._driver, record, datetime.now(UTC)):
            self._wanted[record.uid] = record
            self._wake.set()

    async def run(self) -> None:
        """Writes what is wanted; what fails is tried again, less and less often."""
        wait, longest = _RETRY_SECONDS
        while True:
            await self._wake.wait()
            self._wake.clear()
            for record in list(self._wanted.values()):
                if await self._written(record) and self._wanted.get(record.uid) is record:
                    del self._wanted[record.uid]
            if not self._wanted:
                wait, longest = _RETRY_SECONDS
                continue
            await asyncio.sleep(wait)
            wait = min(wait * 2, longest)
            self._wake.set()

    async def _written(self, record: ClaimRecord) -> bool:
        """Whether nothing is left to do for this claim."""
        try:
            await self._write(record)
        except NotFound:
            return True
        except (Conflict, Invalid) as error:
            # Replaced by another claim, or no longer allocated like this: asking again won't help.
            self._report(record, error)
            return True
        except DraError as error:
            self._report(record, error)
            return False
        return True

    def _report(self, record: ClaimRecord, error: DraError) -> None:
        self._metrics.background_error("status")
        _log.warning("claim %s: status.devices was not written: %s", record.ref, error)

    async def _write(self, record: ClaimRecord) -> None:
        now = datetime.now(UTC)
        entries: list[dict[str, Any]] = builtins(device_statuses(self._driver, record, now))
        for entry in entries:
            for condition in entry.get("conditions", []):
                condition["lastTransitionTime"] = rfc3339(
                    datetime.fromisoformat(condition["lastTransitionTime"])
                )
        meta = {"name": record.name, "namespace": record.namespace, "uid": record.uid}
        try:
            await self._client.patch(
                CLAIMS,
                record.name,
                record.namespace,
                {
                    "apiVersion": CLAIMS.api_version,
                    "kind": CLAIMS.kind,
                    "metadata": meta,
                    "status": {"devices": entries},
                },
                PatchKind.APPLY,
                into=dict,
                subresource="status",
                field_manager=self._manager,
                force=True,
            )
        except Invalid:
            await self._merge(record, entries)

    async def _merge(self, record: ClaimRecord, entries: list[dict[str, Any]]) -> None:
        for last in (False, False, True):
            claim: dict[str, Any] = await self._client.get(CLAIMS, record.name, record.namespace, into=dict)
            meta = claim["metadata"]
            if meta["uid"] != record.uid:
                return
            theirs = claim.get("status", {}).get("devices") or []
            body = {
                "metadata": {"resourceVersion": meta["resourceVersion"]},
                "status": {"devices": merged(theirs, entries)},
            }
            try:
                await self._client.patch(
                    CLAIMS,
                    record.name,
                    record.namespace,
                    body,
                    PatchKind.MERGE,
                    into=dict,
                    subresource="status",
                )
            except Conflict as error:
                if last:
                    raise ApiError(f"claim {record.ref} keeps changing: {error}") from error
            else:
                return
