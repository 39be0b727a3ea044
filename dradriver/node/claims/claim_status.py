"""Write `status.devices` of claims: merge the driver's report on each device with entries of other writers.

The status is written in the background. It is only information for users, so a failed write never fails a
prepare. The writer first tries server-side apply, which changes only its own entries. During an apply, the API
server encodes the claim's opaque parameters again in Go's format, and compares them byte by byte with the
stored parameters. So it rejects every apply to a claim whose parameters are stored in another format. In this
case the writer reads the claim, and sends a merge patch of the whole list with the resource version that it has
read.

If a device spans several nodes, plugins on several nodes may have prepared its claim, and all of them write to
the device's single entry. Therefore each plugin is a field manager of its own. Conditions of different types
coexist: each condition keeps the value of the node that wrote it. For conditions of one type, and for data and
addresses, the last writer wins.
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
from dradriver.node.reporting.redaction import redact_text
from dradriver.node.state.records import ClaimRecord

__all__ = ["StatusWriter", "build_field_manager", "build_statuses", "merge_statuses"]

_log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = (0.5, 60.0)
_MAX_MANAGER: Final = 128
_MAX_CONDITIONS: Final = 8
"""`AllocatedDeviceStatusMaxConditions`"""


def build_statuses(driver: str, record: ClaimRecord, now: datetime) -> list[AllocatedDeviceStatus]:
    """Return the status entries of the claim's devices; devices without a report are omitted."""
    return [
        AllocatedDeviceStatus(
            driver=driver,
            pool=device.pool,
            device=device.device,
            share_id=device.share_id or None,
            conditions=[_fill_condition(condition, now) for condition in answer.conditions],
            data=answer.data,
            network_data=answer.network,
        )
        for device, answer in zip(record.devices, record.answers, strict=True)
        if answer.data is not msgspec.UNSET or answer.conditions or answer.network is not None
    ]


def build_field_manager(driver: str, node: str) -> str:
    """Return the field manager of one driver on one node; a name that is too long is cut and gets a hash."""
    name = f"dradriver/{driver}@{node}"
    if len(name) <= _MAX_MANAGER:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"{name[: _MAX_MANAGER - 17]}-{digest}"


def _fill_condition(condition: Condition, now: datetime) -> Condition:
    """Return the condition with the fields that the API requires and that authors may omit."""
    return msgspec.structs.replace(
        condition,
        reason=condition.reason or "Reported",
        last_transition_time=condition.last_transition_time or now,
    )


def merge_statuses(theirs: Iterable[dict[str, Any]], ours: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return `theirs` with the entries of `ours` merged in, matched by driver, pool, device and share ID.

    Other entries stay unchanged. Conditions in an entry are merged by type. If an entry already has the maximum
    number of conditions, conditions of new types are dropped.
    """
    entries = {_key(entry): entry for entry in theirs}
    for entry in ours:
        stored_entry = entries.get(_key(entry), {})
        conditions = _merge_conditions(stored_entry.get("conditions") or [], entry.get("conditions") or [])
        entries[_key(entry)] = {**stored_entry, **entry} | ({"conditions": conditions} if conditions else {})
    return list(entries.values())


def _merge_conditions(theirs: Iterable[dict[str, Any]], ours: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    conditions = {each["type"]: each for each in theirs}
    for each in ours:
        before = conditions.get(each["type"])
        if before is None and len(conditions) >= _MAX_CONDITIONS:
            continue
        conditions[each["type"]] = _keep_transition_time(each, before)
    return list(conditions.values())


def _keep_transition_time(condition: dict[str, Any], before: dict[str, Any] | None) -> dict[str, Any]:
    """Return the condition, with the stored transition time if its status is unchanged (`metav1.Condition`)."""
    if before is None or before["status"] != condition["status"] or not before.get("lastTransitionTime"):
        return condition
    return condition | {"lastTransitionTime": before["lastTransitionTime"]}


def _select_own(theirs: Iterable[dict[str, Any]], ours: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the entries of `ours`, with their conditions as they are in the merged list."""
    entries = {_key(entry): entry for entry in merge_statuses(theirs, ours)}

    def select(entry: dict[str, Any]) -> dict[str, Any]:
        types = {each["type"] for each in entry["conditions"]}
        conditions = [each for each in entries[_key(entry)]["conditions"] if each["type"] in types]
        return entry | {"conditions": conditions}

    return [select(entry) if entry.get("conditions") else entry for entry in ours]


def _key(entry: dict[str, Any]) -> tuple[str, str, str, str]:
    return entry["driver"], entry["pool"], entry["device"], entry.get("shareID", "")


class StatusWriter:
    """Writes device statuses in the background.

    Call `run()`, which runs until it is canceled. Call `schedule()` and `forget()` at any time.

    Args:
        client: the API server.
        driver: the driver's name.
        metrics: counts failures.
        node: the node's name.
        on_rejected: called with a message when the API server begins to reject the writes.
    """

    def __init__(
        self,
        client: Api,
        driver: str,
        metrics: NodeMetrics,
        node: str,
        on_rejected: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._client = client
        self._driver = driver
        self._manager = build_field_manager(driver, node)
        self._metrics = metrics
        self._on_rejected = on_rejected
        self._is_rejected = False
        self._repeats = Deduplicator()
        self._wanted: dict[str, ClaimRecord] = {}
        self._wake = asyncio.Event()

    def schedule(self, record: ClaimRecord) -> None:
        """Schedule a write of a prepared claim's status; returns immediately."""
        if build_statuses(self._driver, record, datetime.now(UTC)):
            self._wanted[record.uid] = record
            self._wake.set()

    def forget(self, uid: str) -> None:
        """Drop the pending write of a claim that is no longer prepared."""
        self._wanted.pop(uid, None)
        self._repeats.reset(uid)

    async def run(self) -> None:
        """Write the pending statuses; failures are retried with backoff."""
        wait, longest = _RETRY_SECONDS
        while True:
            await self._wake.wait()
            self._wake.clear()
            for record in list(self._wanted.values()):
                if await self._try_write(record) and self._wanted.get(record.uid) is record:
                    del self._wanted[record.uid]
            if not self._wanted:
                wait, longest = _RETRY_SECONDS
                continue
            await asyncio.sleep(wait)
            wait = min(wait * 2, longest)
            self._wake.set()

    async def _try_write(self, record: ClaimRecord) -> bool:
        """Write one claim's status, and return whether no retry is needed."""
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
        self._is_rejected = False
        self._repeats.reset(record.uid)
        return True

    def _report(self, record: ClaimRecord, error: DraError) -> None:
        self._metrics.background_error("status")
        text = f"claim {record.ref}: status.devices was not written: {redact_text(str(error), record)}"
        if message := self._repeats.select(record.uid, text):
            _log.warning("%s", message)
        if isinstance(error, Forbidden | Invalid) and not self._is_rejected:
            self._is_rejected = True  # all claims are probably rejected for the same reason
            self._on_rejected(text)

    async def _write(self, record: ClaimRecord) -> None:
        now = datetime.now(UTC)
        entries: list[dict[str, Any]] = builtins(build_statuses(self._driver, record, now))
        for entry in entries:
            for condition in entry.get("conditions", []):
                condition["lastTransitionTime"] = rfc3339(
                    datetime.fromisoformat(condition["lastTransitionTime"])
                )
        if any(entry.get("conditions") for entry in entries):
            # An apply replaces a whole condition, and only the API server has the time of its last transition.
            theirs = (await self._current(record)).get("status", {}).get("devices") or []
            entries = self._warn_of_omissions(record, entries, _select_own(theirs, entries))
        body = {
            "apiVersion": CLAIMS.api_version,
            "kind": CLAIMS.kind,
            "metadata": {"name": record.name, "namespace": record.namespace, "uid": record.uid},
            "status": {"devices": entries},
        }
        try:
            stored = await self._patch(record, body, PatchKind.APPLY)
        except Invalid:
            await self._merge(record, entries)
            return
        if not stored.get("status", {}).get("devices"):
            raise Invalid("the API server drops status.devices (DRAResourceClaimDeviceStatus)")

    def _warn_of_omissions(
        self, record: ClaimRecord, wanted: Iterable[dict[str, Any]], written: list[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        for one, other in zip(wanted, written, strict=True):
            types = {each["type"] for each in other.get("conditions", [])}
            for each in one.get("conditions", []):
                if each["type"] not in types:
                    _log.warning(
                        "claim %s: device %s/%s: condition %s is not written: a device has at most %d",
                        *(record.ref, one["pool"], one["device"], each["type"], _MAX_CONDITIONS),
                    )
        return written

    async def _current(self, record: ClaimRecord) -> dict[str, Any]:
        """Return the claim as it is now.

        Raises:
            NotFound: the claim does not exist, or another claim has its name now.
        """
        claim: dict[str, Any] = await self._client.get(CLAIMS, record.name, record.namespace, into=dict)
        if claim["metadata"]["uid"] != record.uid:
            raise NotFound(f"claim {record.ref} was replaced", status=404)
        return claim

    async def _patch(self, record: ClaimRecord, body: object, kind: PatchKind) -> dict[str, Any]:
        applies = kind is PatchKind.APPLY
        return await self._client.patch(
            CLAIMS,
            record.name,
            record.namespace,
            body,
            kind,
            into=dict,
            subresource="status",
            field_manager=self._manager if applies else "",
            force=applies,
        )

    async def _merge(self, record: ClaimRecord, entries: list[dict[str, Any]]) -> None:
        for last in (False, False, True):
            claim = await self._current(record)
            theirs = claim.get("status", {}).get("devices") or []
            body = {
                "metadata": {"resourceVersion": claim["metadata"]["resourceVersion"]},
                "status": {"devices": merge_statuses(theirs, entries)},
            }
            try:
                await self._patch(record, body, PatchKind.MERGE)
            except Conflict as error:
                if last:
                    raise ApiError(f"claim {record.ref} keeps changing: {error}") from error
            else:
                return
