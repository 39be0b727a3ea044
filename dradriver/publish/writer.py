"""Execute the planned writes of one pool, and record what the API server stored.

If the process dies after any write, the next process plans from the slices that it finds; see `plan`.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

import msgspec

from dradriver.kube import SLICES, Conflict, NotFound
from dradriver.model.resource.slices import ResourceSlice, ResourceSliceSpec
from dradriver.publish.context import PublishContext
from dradriver.publish.plan import Action, Create, Delete, Update, same_spec
from dradriver.publish.status import Writes

__all__ = ["SliceWriter"]

_log = logging.getLogger(__name__)


class SliceWriter:
    """Writes the slices of one pool.

    Args:
        pool: the pool's name.
        context: the values that the publisher's pools share.

    Attributes:
        writes: the number of writes so far.
    """

    def __init__(self, pool: str, context: PublishContext) -> None:
        self.writes = Writes()
        self._pool = pool
        self._context = context
        self._changed_by_server: dict[str, tuple[ResourceSliceSpec, ResourceSliceSpec]] = {}

    def list_stored(self) -> list[ResourceSlice]:
        """Return the slices on the server, for the comparison in `plan`.

        If the server changed a slice while it stored the slice, the slice is returned as it was sent, until
        another writer changes it. Otherwise the slice would be written again and again.
        """
        return [self._restore_sent(item) for item in self._context.slices.of(self._pool)]

    async def execute(self, actions: Sequence[Action]) -> bool:
        """Execute the writes in order.

        Returns:
            True if a write showed that the server drops a field that was not known to be dropped. The writes
            after this write are not executed.

        Raises:
            ApiError: a write failed. The writes before it are done.
        """
        for action in actions:
            match action:
                case Create():
                    stored = await self._create(action.new)
                case Update():
                    stored = await self._update(action)
                case Delete():
                    await self._delete(action.old)
                    continue
                case _:
                    assert_never(action)
            if self._record(action.new, stored):
                return True
        return False

    async def remove(self) -> None:
        """Delete all slices of the pool.

        Raises:
            ApiError: a write failed. The writes before it are done.
        """
        published = self._context.recall(self._pool)
        await self.execute([Delete(item) for item in self._context.slices.of(self._pool)])
        published.set_current(())
        if not published.uses_counters:
            self._context.published.pop(self._pool, None)

    async def _create(self, new: ResourceSlice) -> ResourceSlice:
        stored = await self._context.client.create(SLICES, new, into=ResourceSlice)
        self.writes = replace(self.writes, creates=self.writes.creates + 1)
        return stored

    async def _update(self, action: Update) -> ResourceSlice:
        try:
            stored = await self._context.client.replace(SLICES, action.new, into=ResourceSlice)
        except (Conflict, NotFound):
            await self._context.slices.refresh(action.old)
            raise
        self.writes = replace(self.writes, updates=self.writes.updates + 1)
        return stored

    async def _delete(self, old: ResourceSlice) -> None:
        meta = old.metadata
        try:
            await self._context.client.delete(
                SLICES, meta.name, uid=meta.uid, resource_version=meta.resource_version
            )
        except Conflict:
            await self._context.slices.refresh(old)
            raise
        self.writes = replace(self.writes, deletes=self.writes.deletes + 1)
        self._context.slices.apply_deleted(old)

    def _record(self, sent: ResourceSlice, stored: ResourceSlice) -> bool:
        """Record the answer to a write; True if the server dropped a field."""
        self._context.slices.apply_written(stored)
        self._changed_by_server.pop(stored.metadata.name, None)
        if self._context.features.learn(sent.spec, stored.spec):
            return True
        self._context.recall(self._pool).record_stored(stored.spec)
        if not same_spec(sent.spec, stored.spec):
            # The cause is an admission webhook, or a field that is too new for the server. The server's value
            # is accepted. Otherwise the slice would be written again and again.
            _log.warning("slice %s: the API server changed it while storing it", stored.metadata.name)
            self._changed_by_server[stored.metadata.name] = (stored.spec, sent.spec)
        return False

    def _restore_sent(self, item: ResourceSlice) -> ResourceSlice:
        stored, sent = self._changed_by_server.get(item.metadata.name, (None, item.spec))
        return msgspec.structs.replace(item, spec=sent) if stored == item.spec else item
