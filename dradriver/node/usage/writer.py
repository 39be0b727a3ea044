"""Keep the node's usage note equal to the prepared state, and let a claim use its devices.

| side effect                          | if the process dies right after it                                 |
|--------------------------------------|--------------------------------------------------------------------|
| claim recorded in the prepared state | the next process writes the note before it calls the driver        |
| note written with a new entry        | the next process reads the claim before it calls the driver        |
| record deleted after `unprepare`     | the note still lists the devices; the next process calls           |
|                                      | `unprepare` once more, and writes the note                         |
| note written without the entry       | nothing is left to do                                              |

Each write contains the resource version of the note. The version is read before the prepared state. So a write
never removes an entry that another instance of the driver has added: such an entry is in the prepared state
before it is in the note. A use always writes the note, although the note may list it already: an earlier write
without the entry, of another instance or with a lost answer, can still be on its way, and fails after this
write.

The note is also read at intervals, because it can be deleted or changed. It is not watched: a watch needs the
right to list every ConfigMap in the namespace. Until a deleted note is written again, nothing is detached.
"""

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import ClassVar, Final

from msgspec.structs import replace

from dradriver.driver.health import NodeReport
from dradriver.errors import DraError, InvalidObjectError
from dradriver.kube.backoff import Backoff
from dradriver.kube.client import Client
from dradriver.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from dradriver.kube.resources import CONFIG_MAPS
from dradriver.model.core.config_map import ConfigMap
from dradriver.model.core.meta import ObjectMeta
from dradriver.model.resource.claim import ResourceClaim
from dradriver.node.claims.context import ClaimContext
from dradriver.node.claims.lookup import ClaimLookup
from dradriver.node.claims.unprepare import unprepare
from dradriver.node.errors import AllocationEndedError, ClaimError, StateError
from dradriver.node.state.records import ClaimRecord, ClaimRef, PreparedClaimRecord
from dradriver.node.state.rows import Rows
from dradriver.node.state.store import StateStore
from dradriver.node.usage.allocations import find_changed_attachments, has_allocation
from dradriver.node.usage.note import (
    UsageEntry,
    UsageNote,
    decode_note,
    encode_note,
    find_other_driver,
    note_label,
    note_name,
)

__all__ = ["NoteWriter"]

_log = logging.getLogger(__name__)

_ATTEMPTS: Final = 20
_RETRY_SECONDS: Final = (0.2, 10.0)
_NO_REPORT: Final = NodeReport(problem="the driver on the node has not reported its state yet")


class NoteWriter:
    """Writes the usage note of one driver on one node; `await run()` works until it is canceled.

    Args:
        client: the API server. It needs `get`, `create` and `update` on ConfigMaps in its namespace, and `get`
            on claims.
        driver: the driver's name.
        node: the node's name.
        state: the prepared state.
        is_shared: returns whether another process publishes this pool, or may publish it.
        on_error: called for each failed write.

    Attributes:
        check_seconds: interval in which a deleted or changed note is found.
        use_seconds: time limit of the write in `note_use`. While the prepared state is rebuilt, nothing is
            written, and rebuilding needs the locks of claims.
    """

    check_seconds: ClassVar[float] = 60.0
    use_seconds: ClassVar[float] = 60.0

    def __init__(
        self,
        client: Client,
        driver: str,
        node: str,
        *,
        state: StateStore,
        is_shared: Callable[[str], bool],
        on_error: Callable[[], None] = lambda: None,
    ) -> None:
        self._client = client
        self._lookup = ClaimLookup(client)
        self._driver = driver
        self._node = node
        self._name = note_name(driver, node)
        self._state = state
        self._is_shared = is_shared
        self._on_error = on_error
        self._report: NodeReport | None = None
        self._waiting: list[asyncio.Future[frozenset[UsageEntry]]] = []
        self._wanted = asyncio.Event()
        self._unrecorded: dict[str, list[UsageEntry]] = {}
        self._is_compared = False
        self._problem = ""

    def __str__(self) -> str:
        return f"ConfigMap {self._client.namespace}/{self._name}"

    def wake(self) -> None:
        """Write the note soon, because the prepared state has changed."""
        self._wanted.set()

    def set_report(self, report: NodeReport | None) -> None:
        """Replace the report in the note; None: keep the report of another instance in the same boot."""
        if report != self._report:
            self._report = report
            self.wake()

    async def note_use(self, record: ClaimRecord, seen: ResourceClaim) -> None:
        """Return when the note lists the claim's devices of shared pools, and the allocation still stands.

        The claim must be recorded in the prepared state, and its lock must be held, so that its record is not
        deleted meanwhile. The driver may use the devices when this method returns.

        Args:
            record: the record of the claim.
            seen: the claim for which it was recorded. Its devices must be attached as they were then.

        Raises:
            AllocationEndedError: the allocation does not exist any more. The driver must not use the devices.
            DraError: the note cannot be written, or the claim cannot be read.
        """
        entries = frozenset(self._entries(record))
        if not entries:
            return
        written: asyncio.Future[frozenset[UsageEntry]] = asyncio.get_running_loop().create_future()
        self._waiting.append(written)
        self.wake()
        try:
            async with asyncio.timeout(self.use_seconds):
                noted = await written
        except TimeoutError:
            raise DraError(f"{self} is not written within {self.use_seconds:g} s") from None
        if not entries <= noted:
            raise StateError(f"claim {record.ref}: its record was deleted while {self} was written")
        try:
            claim = await self._lookup.get_by_uid(record.ref)
        except ClaimError as error:
            raise AllocationEndedError(str(error)) from error
        if not has_allocation(claim, record, self._driver, self._node):
            raise AllocationEndedError(f"claim {record.ref} no longer has the allocation of {record.allocated}")
        if changed := find_changed_attachments(seen, claim, self._driver):
            names = ", ".join(changed)
            raise AllocationEndedError(f"claim {record.ref}: devices {names} are attached anew")

    async def run(self, context: ClaimContext) -> None:
        """Write the note when it must change, and check it at intervals, until canceled.

        Args:
            context: unprepares claims that are in the note, but not in the prepared state.
        """
        backoff = Backoff(*_RETRY_SECONDS)
        async with asyncio.TaskGroup() as group:
            while True:
                await context.state_complete.wait()
                self._wanted.clear()
                is_first = not self._is_compared
                if await self._try_write():
                    pause = self.check_seconds
                    backoff.reset()
                else:
                    pause = backoff.next()
                if is_first:
                    for uid in self._unrecorded:
                        group.create_task(self._end_unrecorded(uid, context), name=f"unrecorded use by {uid}")
                try:
                    async with asyncio.timeout(pause):
                        await self._wanted.wait()
                except TimeoutError:
                    continue

    async def _try_write(self) -> bool:
        waiting, self._waiting = self._waiting, []
        try:
            entries = await self._write(for_use=bool(waiting))
        except DraError as error:
            self._on_error()
            if self._problem != str(error):
                self._problem = str(error)
                _log.warning("%s cannot be written, retrying: %s", self, error)
            for each in waiting:
                if not each.done():
                    each.set_exception(DraError(f"{self} cannot be written: {error}"))
            return False
        except BaseException:
            for each in waiting:
                each.cancel()
            raise
        self._problem = ""
        for each in waiting:
            if not each.done():
                each.set_result(entries)
        return True

    async def _write(self, *, for_use: bool) -> frozenset[UsageEntry]:
        """Make the note equal to the prepared state, and return its entries.

        Args:
            for_use: write the note in any case, so that each earlier write fails that is still on its way.

        Raises:
            DraError: the API server or the prepared state did not answer, or the state is not complete, or the
                note belongs to another driver. The stored note stays.
        """
        for _ in range(_ATTEMPTS):
            stored = await self._read()
            if stored is not None and (other := find_other_driver(stored, self._driver)):
                raise StateError(f"it belongs to driver {other}, use another namespace for one of the drivers")
            rows = await self._state.read(_complete_rows)
            metadata, note = self._compute(stored, rows)
            wanted = ConfigMap(metadata=metadata, data=encode_note(note))
            if stored is not None and wanted == stored and not for_use:
                return frozenset(note.entries)
            wanted = replace(wanted, data=encode_note(dataclasses.replace(note, writes=note.writes + 1)))
            try:
                await self._store(wanted, exists=stored is not None)
            except (AlreadyExists, Conflict, NotFound):
                continue  # another instance has written it, or it was deleted
            return frozenset(note.entries)
        raise ApiError(f"{self} keeps changing")

    async def _read(self) -> ConfigMap | None:
        try:
            return await self._client.get(CONFIG_MAPS, self._name, self._client.namespace, into=ConfigMap)
        except NotFound:
            return None

    async def _store(self, wanted: ConfigMap, *, exists: bool) -> None:
        write = self._client.replace if exists else self._client.create
        await write(CONFIG_MAPS, wanted, self._client.namespace, into=ConfigMap)

    def _compute(
        self, stored: ConfigMap | None, rows: Iterable[PreparedClaimRecord]
    ) -> tuple[ObjectMeta, UsageNote]:
        old = self._decode(stored)
        recorded = {row.uid: list(self._entries(row.record)) for row in rows}
        if not self._is_compared:
            # The state may have lost a claim. Its device counts as in use until the driver has released it.
            self._is_compared = True
            for entry in old.entries if old else ():
                if entry.claim_uid not in recorded:
                    self._unrecorded.setdefault(entry.claim_uid, []).append(entry)
        in_use = [entry for each in (recorded, self._unrecorded) for some in each.values() for entry in some]
        key, value = note_label(self._driver)
        metadata = stored.metadata if stored else ObjectMeta(name=self._name, namespace=self._client.namespace)
        # Without an owner: the note must not be deleted with the DaemonSet while devices are in use.
        metadata = replace(metadata, labels={**metadata.labels, key: value}, owner_references=[])
        report = self._report or self._keep_report(old)
        writes = old.writes if old else 0
        return metadata, UsageNote(self._node, self._state.boot_id, frozenset(in_use), report, writes)

    def _decode(self, stored: ConfigMap | None) -> UsageNote | None:
        try:
            return decode_note(stored) if stored else None
        except InvalidObjectError as error:
            _log.warning("%s; it is written again", error)
            return None

    def _keep_report(self, old: UsageNote | None) -> NodeReport:
        return old.report if old and old.boot_id == self._state.boot_id else _NO_REPORT

    def _entries(self, record: ClaimRecord) -> Iterable[UsageEntry]:
        for device in record.devices:
            if not device.admin_access and self._is_shared(device.pool):
                yield UsageEntry(
                    claim_uid=record.uid,
                    pool=device.pool,
                    device=device.device,
                    share_id=device.share_id,
                    allocated=record.allocated,
                )

    async def _end_unrecorded(self, uid: str, context: ClaimContext) -> None:
        """Unprepare a claim that is in the note, but not in the prepared state.

        The previous process died before it wrote the note, or the prepared state has lost a claim. If the
        process dies here, the next one finds the same claim in the note.
        """
        backoff = Backoff(*_RETRY_SECONDS)
        while uid in self._unrecorded:
            try:
                await unprepare(context, ClaimRef(uid), unless=partial(self._is_recorded, uid))
            except DraError as error:
                self._on_error()
                _log.warning("claim UID %s is in %s, but not recorded here: %s", uid, self, error)
                await asyncio.sleep(backoff.next())
            else:
                del self._unrecorded[uid]
                self.wake()

    async def _is_recorded(self, uid: str) -> bool:
        return await self._state.read(lambda rows: rows.get(uid)) is not None


def _complete_rows(rows: Rows) -> list[PreparedClaimRecord]:
    """Return every row.

    Raises:
        StateError: the state may lack claims, so the note must not be computed from it.
    """
    if not rows.is_complete():
        raise StateError("the prepared state is being checked or rebuilt")
    return rows.all()
