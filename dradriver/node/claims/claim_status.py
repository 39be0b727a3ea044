"""`status.devices` of claims: what the driver says of each device, merged into what others say.

Written in the background: it informs, nothing depends on it, so its failure never fails a prepare. First by
server-side apply, which touches nothing but our own entries. A claim whose opaque parameters are not stored as
Go writes them refuses that (the server compares them byte by byte): then by a merge patch of the list as it is
now, bound to the resource version.

Plugins of several nodes may have prepared one claim (a device that spans nodes), and each device has one entry
for all of them. So each plugin is a field manager of its own: conditions of different types stand side by side,
each the last word of the node that has it; of one type, and of data and addresses, the last word of all stays.
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


def field_manager(driver: str, node: str) -> str:
    """Who writes: the plugin of one driver on one node, told apart also where the names are too long."""
    name = f"dradriver/{driver}@{node}"
    if len(name) <= _MAX_MANAGER:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"{name[: _MAX_MANAGER - 17]}-{digest}"


def _complete(condition: Condition, now: datetime) -> Condition:
    """The condition with what the API requires and authors leave out."""
    return msgspec.structs.replace(
        condition,
        reason=condition.reason or "Reported",
        last_transition_time=condition.last_transition_time or now,
    )


def merged(theirs: Iterable[dict[str, Any]], ours: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The list with our entries in it: by driver, pool, device and share ID; others stay as they are.

    Conditions in an entry are merged by type; a new one of ours for which there is no room is left out.
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
    """With the time at which the status became what it is (`metav1.Condition`)."""
    if before is None or before["status"] != condition["status"] or not before.get("lastTransitionTime"):
        return condition
    return condition | {"lastTransitionTime": before["lastTransitionTime"]}


def _own(theirs: Iterable[dict[str, Any]], ours: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Our entries with no more than our conditions, as they are in the merged list."""
    entries = {_key(entry): entry for entry in merged(theirs, ours)}

    def own(entry: dict[str, Any]) -> dict[str, Any]:
        types = {each["type"] for each in entry["conditions"]}
        conditions = [each for each in entries[_key(entry)]["conditions"] if each["type"] in types]
        return entry | {"conditions": conditions}

    return [own(entry) if entry.get("conditions") else entry for entry in ours]


def _key(entry: dict[str, Any]) -> tuple[str, str, str, str]:
    return entry["driver"], entry["pool"], entry["device"], entry.get("shareID", "")


class StatusWriter:
    """Writes device statuses: `run()` until cancelled, `want()` and `forget()` at any time.

    Args:
        client: the API server.
        driver: whose devices they are.
        metrics: counts failures.
        node: whose plugin it is.
        on_refused: is told when the API server begins to refuse what is written.
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
        """The claim has been prepared like this; returns at once."""
        if device_statuses(self._driver, record, datetime.now(UTC)):
            self._wanted[record.uid] = record
            self._wake.set()

    def forget(self, uid: str) -> None:
        """The claim is prepared no more: there is nothing left to say, and nobody to wait for."""
        self._wanted.pop(uid, None)
        self._repeats.over(uid)

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
        self._refused = False
        self._repeats.over(record.uid)
        return True

    def _report(self, record: ClaimRecord, error: DraError) -> None:
        self._metrics.background_error("status")
        text = f"claim {record.ref}: status.devices was not written: {hidden(str(error), record)}"
        if news := self._repeats.news(record.uid, text):
            _log.warning("%s", news)
        if isinstance(error, Forbidden | Invalid) and not self._refused:
            self._refused = True  # most likely for all claims, and for one reason
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
            # An apply writes all of a condition, and when it changed is known to the server only.
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
        """The claim as it is now.

        Raises:
            NotFound: it is gone; another one of its name is not it.
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
