"""Write `status.devices` of claims: merge the driver's report on each device with other writers' entries.

The status is written in the background. It only informs, so a failed write never fails a prepare. The first
method is server-side apply, which touches only our own entries. If a claim's opaque parameters are not stored
in Go's format, the server rejects an apply, because it compares them byte by byte. The second method is then a
merge patch of the current list, bound to the resource version.

Plugins of several nodes may have prepared one claim (a device that spans nodes), and each device has one entry
for all of them. Therefore each plugin is a field manager of its own. Conditions of different types coexist:
each type keeps the value of the node that wrote it. For conditions of one type, and for data and addresses, the
last writer wins.
"""

import asyncio
import hashlib
import logging
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from dradriver.errors import DraError
from dradriver.kube.client import PatchKind
from dradriver.kube.errors import ApiError, Conflict, Forbidden, Invalid, NotFound
from dradriver.kube.resources import CLAIMS
from dradriver.model.core.meta import Condition
from dradriver.model.encoding.codec import builtins, rfc3339
from dradriver.model.resource.claim import AllocatedDeviceStatus
from dradriver.node.api import Api
from dradriver.node.reporting.deduplicate import Deduplicator
from dradriver.node.reporting.metrics import NodeMetrics
from dradriver.node.reporting.redaction import hidden
from dradriver.node.state.records import ClaimRecord

__all__ = ["StatusWriter", "device_statuses", "field_manager", "merged"]

_log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = (0.5, 60.0)
_MAX_MANAGER: Final = 128
_MAX_CONDITIONS: Final = 8
"""`AllocatedDeviceStatusMaxConditions`"""


def device_statuses(driver: str, record: ClaimRecord, now: datetime) -> list[AllocatedDeviceStatus]:
    """Return the status entries of the claim's devices; devices without a report are omitted."""
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


def field_manager(driver: str, node: str) -> str:
    """Return the field manager of one driver on one node; it stays unique if the names are too long."""
    name = f"dradriver/{driver}@{node}"
    if len(name) <= _MAX_MANAGER:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"{name[: _MAX_MANAGER - 17]}-{digest}"


def _complete(condition: Condition, now: datetime) -> Condition:
    """Return the condition with the fields that the API requires and authors omit."""
    return msgspec.structs.replace(
        condition,
        reason=condition.reason or "Reported",
        last_transition_time=condition.last_transition_time or now,
    )


def merged(theirs: Iterable[dict[str, Any]], ours: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the list with our entries, merged by driver, pool, device and share ID; others stay unchanged.

    Conditions in an entry are merged by type. A new condition of ours is dropped if the entry has no room for
    it.
    """
    entries = {_key(entry): entry for entry in theirs}
    for entry in ours:
        there = entries.get(_key(entry), {})
        conditions = _conditions(there.get("conditions") or [], entry.get("conditions") or [])
        entries[_key(entry)] = {**there, **entry} | ({"conditions": conditions} if conditions else {})
    return list(entries.values())


def _conditions(theirs: Iterable[dict[str, Any]], ours: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    conditions = {each["type"]: each for each in theirs}
    for each in ours:
        before = conditions.get(each["type"])
        if before is None and len(conditions) >= _MAX_CONDITIONS:
            continue
        conditions[each["type"]] = _in_time(each, before)
    return list(conditions.values())


def _in_time(condition: dict[str, Any], before: dict[str, Any] | None) -> dict[str, Any]:
    """Return the condition with the time of its last status change (`metav1.Condition`)."""
    if before is None or before["status"] != condition["status"] or not before.get("lastTransitionTime"):
        return condition
    return condition | {"lastTransitionTime": before["lastTransitionTime"]}


def _own(theirs: Iterable[dict[str, Any]], ours: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return our entries with only our conditions, as they are in the merged list."""
    entries = {_key(entry): entry for entry in merged(theirs, ours)}

    def own(entry: dict[str, Any]) -> dict[str, Any]:
        types = {each["type"] for each in entry["conditions"]}
        conditions = [each for each in entries[_key(entry)]["conditions"] if each["type"] in types]
        return entry | {"conditions": conditions}

    return [own(entry) if entry.get("conditions") else entry for entry in ours]


def _key(entry: dict[str, Any]) -> tuple[str, str, str, str]:
    return entry["driver"], entry["pool"], entry["device"], entry.get("shareID", "")


class StatusWriter:
    """Writes device statuses: `run()` until canceled, `want()` and `forget()` at any time.

    Args:
        client: the API server.
        driver: the driver's name.
        metrics: counts failures.
        node: the node's name.
        on_refused: called when the API server begins to reject the writes.
    """

    def __init__(
        self,
        client: Api,
        driver: str,
        metrics: NodeMetrics,
        node: str,
        on_refused: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._client = client
        self._driver = driver
        self._manager = field_manager(driver, node)
        self._metrics = metrics
        self._on_refused = on_refused
        self._refused = False
        self._repeats = Deduplicator()
        self._wanted: dict[str, ClaimRecord] = {}
        self._wake = asyncio.Event()

    def want(self, record: ClaimRecord) -> None:
        """Schedule a write of a prepared claim's status; returns immediately."""
        if device_statuses(self._driver, record, datetime.now(UTC)):
            self._wanted[record.uid] = record
            self._wake.set()

    def forget(self, uid: str) -> None:
        """Drop the pending write of a claim that is no longer prepared."""
        self._wanted.pop(uid, None)
        self._repeats.over(uid)

    async def run(self) -> None:
        """Write the pending statuses; failures are retried with backoff."""
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
        """Write one claim's status, and return whether nothing is left to do for it."""
        try:
            await self._write(record)
        except NotFound:
            return True
        except (Conflict, Invalid) as error:
            # The claim was replaced, or its allocation has changed: a retry cannot succeed.
            self._report(record, error)
            return True
        except DraError as error:
            self._report(record, error)
            return False
        self._refused = False
        self._repeats.over(record.uid)
        return True

    def _report(self, record: ClaimRecord, error: DraError) -> None:
        self._metrics.background_error("status")
        text = f"claim {record.ref}: status.devices was not written: {hidden(str(error), record)}"
        if news := self._repeats.news(record.uid, text):
            _log.warning("%s", news)
        if isinstance(error, Forbidden | Invalid) and not self._refused:
            self._refused = True  # probably for all claims, for one reason
            self._on_refused(text)

    async def _write(self, record: ClaimRecord) -> None:
        now = datetime.now(UTC)
        entries: list[dict[str, Any]] = builtins(device_statuses(self._driver, record, now))
        for entry in entries:
            for condition in entry.get("conditions", []):
                condition["lastTransitionTime"] = rfc3339(
                    datetime.fromisoformat(condition["lastTransitionTime"])
                )
        if any(entry.get("conditions") for entry in entries):
            # An apply writes the whole condition, and only the server knows when its status changed.
            theirs = (await self._current(record)).get("status", {}).get("devices") or []
            entries = self._told(record, entries, _own(theirs, entries))
        meta = {"name": record.name, "namespace": record.namespace, "uid": record.uid}
        try:
            stored = await self._client.patch(
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
            return
        if not stored.get("status", {}).get("devices"):
            raise Invalid("the API server drops status.devices (DRAResourceClaimDeviceStatus)")

    def _told(
        self, record: ClaimRecord, wanted: Iterable[dict[str, Any]], written: list[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        for one, other in zip(wanted, written, strict=True):
            types = {each["type"] for each in other.get("conditions", [])}
            for each in one.get("conditions", []):
                if each["type"] not in types:
                    _log.warning(
                        "claim %s: condition %s of device %s/%s is not written, a device has at most %d",
                        *(record.ref, each["type"], one["pool"], one["device"], _MAX_CONDITIONS),
                    )
        return written

    async def _current(self, record: ClaimRecord) -> dict[str, Any]:
        """Return the claim as it is now.

        Raises:
            NotFound: the claim is gone. Another claim with its name does not count.
        """
        claim: dict[str, Any] = await self._client.get(CLAIMS, record.name, record.namespace, into=dict)
        if claim["metadata"]["uid"] != record.uid:
            raise NotFound(f"claim {record.ref} was replaced", status=404)
        return claim

    async def _merge(self, record: ClaimRecord, entries: list[dict[str, Any]]) -> None:
        for last in (False, False, True):
            claim = await self._current(record)
            theirs = claim.get("status", {}).get("devices") or []
            body = {
                "metadata": {"resourceVersion": claim["metadata"]["resourceVersion"]},
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
