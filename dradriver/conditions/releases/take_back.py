"""On a node, revert each `attach` without a `prepare` whose allocation is gone or has changed.

The prepared state has a record of each such claim, so the next process reverts the same attaches. A claim that
is prepared is left to the kubelet, because its containers may run.
"""

import asyncio
import logging
from collections.abc import Mapping

from dradriver.errors import DraError
from dradriver.kube.backoff import Backoff
from dradriver.kube.errors import NotFound
from dradriver.kube.object_tasks import RETRY_SECONDS
from dradriver.model.resource.claim import ResourceClaim
from dradriver.node.claims.context import ClaimContext
from dradriver.node.claims.lookup import ClaimLookup
from dradriver.node.claims.unprepare import unprepare
from dradriver.node.state.claim_states import ClaimState
from dradriver.node.state.records import ClaimRecord, ClaimRef
from dradriver.node.state.rows import Rows
from dradriver.node.usage.allocations import has_allocation

__all__ = ["TakeBack"]

_log = logging.getLogger(__name__)


class TakeBack:
    """Reverts attaches: `await start()` once, `serve()` for each changed claim, `await end()` at the end.

    Args:
        context: the parts of the node.
        lookup: reads claims from the API server.
        claims: the claims as they are now, by namespace and name.
    """

    def __init__(self, context: ClaimContext, lookup: ClaimLookup, claims: Mapping[str, ResourceClaim]) -> None:
        self._context = context
        self._lookup = lookup
        self._claims = claims
        self._refs: dict[str, ClaimRef] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._changes: dict[str, asyncio.Event] = {}

    async def start(self) -> None:
        """Begin with the claims that an earlier process attached and did not prepare."""
        rows = await self._context.stores.state.read(Rows.all)
        for row in rows:
            is_shared = self._context.inventory.select_shared(row.record.pools)
            if row.state is not ClaimState.PREPARED and is_shared:
                self.add(row.record.ref)

    def add(self, ref: ClaimRef) -> None:
        """Add a claim for which `attach` was called, and check it now."""
        self._refs[ref.uid] = ref
        self.serve(ref.uid)

    def serve(self, uid: str) -> None:
        """Handle a changed claim; no-op for a claim that was not added."""
        if changed := self._changes.get(uid):
            changed.set()
        elif ref := self._refs.get(uid):
            self._changes[uid] = asyncio.Event()
            self._tasks[uid] = asyncio.create_task(self._work(ref), name=f"take back {ref}")

    async def end(self) -> None:
        """Cancel the running tasks."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(self, ref: ClaimRef) -> None:
        backoff, changed = Backoff(*RETRY_SECONDS), self._changes[ref.uid]
        try:
            while True:
                changed.clear()
                try:
                    await self._take_back(ref)
                except DraError as error:
                    _log.warning("claim %s: its attach is not reverted yet: %s", ref, error)
                    await asyncio.sleep(backoff.next())
                else:
                    if not changed.is_set():
                        return
        finally:
            del self._changes[ref.uid], self._tasks[ref.uid]

    async def _take_back(self, ref: ClaimRef) -> None:
        record = await self._find_record(ref.uid)
        if record is None:
            self._refs.pop(ref.uid, None)
            return
        current = self._claims.get(f"{record.namespace}/{record.name}")
        if current is not None and self._has_allocation(current, record):
            return

        async def is_wanted() -> bool:
            latest = await self._find_record(ref.uid)
            return latest is None or await self._is_allocated(latest)

        _log.info("claim %s: its allocation is gone, taking back its devices", record.ref)
        await unprepare(self._context, record.ref, unless=is_wanted)

    async def _find_record(self, uid: str) -> ClaimRecord | None:
        """Return the record of a claim that is attached but not prepared."""
        row = await self._context.stores.state.read(lambda rows: rows.get(uid))
        return None if row is None or row.state is ClaimState.PREPARED else row.record

    async def _is_allocated(self, record: ClaimRecord) -> bool:
        try:
            claim = await self._lookup.get(record.ref)
        except NotFound:
            return False
        return self._has_allocation(claim, record)

    def _has_allocation(self, claim: ResourceClaim, record: ClaimRecord) -> bool:
        return has_allocation(claim, record, self._context.driver.name, self._context.node)
