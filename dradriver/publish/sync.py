"""One pool, once: from what is wanted and what is there to the writes, and what came of them."""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from dradriver.errors import DraError
from dradriver.kube import SLICES, Conflict, NotFound
from dradriver.kube.backoff import Backoff
from dradriver.model.resource.claim import DeviceId
from dradriver.model.resource.pool import Pool
from dradriver.model.resource.slices import ResourceSlice, ResourceSliceSpec
from dradriver.publish.context import Desk
from dradriver.publish.features.dropped_fields import (
    TAINTS,
    DroppedField,
    fields_of,
    keeps_claims_away,
    safe_part,
    unsafe,
)
from dradriver.publish.features.fallback import Choice, FallbackChooser
from dradriver.publish.holds.pinned_changes import affected_devices, hold_back, hold_fallback, left_out
from dradriver.publish.holds.published_counters import PublishedCounters
from dradriver.publish.layout import layout
from dradriver.publish.plan import Action, Create, Delete, Update, plan, same_spec
from dradriver.publish.status import PoolState, Writes

__all__ = ["Outcome", "PoolSync"]

_log = logging.getLogger(__name__)

_HELD_SECONDS: Final = (1.0, 15.0)
"""First and longest wait before it is asked again whether a held device is free."""


_FEW: Final = 8


@dataclass(frozen=True, slots=True)
class Outcome:
    """Where a pool stands after a try.

    Attributes:
        state: the state.
        message: why it is not simply published.
        dropped: what the server drops of the wanted pool.
        held_by: claims that are waited for.
        again: seconds after which to look again, None if only a change makes that necessary.
    """

    state: PoolState
    message: str = ""
    dropped: frozenset[DroppedField] = frozenset()
    held_by: tuple[str, ...] = ()
    again: float | None = None


class PoolSync:
    """Makes the server agree with what is wanted of one pool.

    If the process dies after any write, the next one plans from what it finds; see `plan`.

    Attributes:
        writes: what it has cost so far.
    """

    def __init__(self, name: str, desk: Desk, wake: Callable[[], None]) -> None:
        self.writes = Writes()
        self._name = name
        self._desk = desk
        self._chooser = FallbackChooser(name, desk, wake)
        self._held = Backoff(*_HELD_SECONDS)
        self._echoes: dict[str, tuple[ResourceSliceSpec, ResourceSliceSpec]] = {}

    async def close(self) -> None:
        """Stops what runs beside a try."""
        await self._chooser.close()

    async def remove(self) -> None:
        """Deletes all slices of the pool.

        Raises:
            ApiError: a write failed; those before it are done.
        """
        published = self._recall()
        await self._execute([Delete(item) for item in self._desk.slices.of(self._name)])
        published.settled(())
        if not published.uses_counters:
            del self._desk.published[self._name]

    async def publish(self, wanted: Pool) -> Outcome:
        """Publishes a pool that has no problems, as far as the server and the claims let it.

        Raises:
            DraError: it can't be done now; writes before the failure are done.
        """
        features = self._desk.features
        if not wanted.node_local:
            await self._desk.slices.open_shared()
            await self._desk.slices.synced()
        self._recall()
        if features.due(fields_of(wanted), self._desk.slices.cuts):
            specs = await self._layout(wanted)
            if await features.probe_again(specs, self._desk.slices.cuts):
                _log.info("pool %s: the API server stores now what it dropped before", self._name)
                self._desk.wake_all()
        cuts = self._desk.slices.cuts
        if any(map(keeps_claims_away, wanted.devices)) and not features.knows(TAINTS, cuts):
            # A scheduler whose gate went off hands out what is stored with its taint: look also if nothing is
            # to be written. (It passes over devices with counters or binding conditions.)
            await features.probe(await self._layout(wanted), cuts)
        while True:
            # Ends: every round but the last has learned of another field that is dropped.
            outcome = await self._converge(wanted, await self._chooser.choose(wanted))
            if outcome is not None:
                return outcome

    async def _converge(self, wanted: Pool, choice: Choice) -> Outcome | None:
        """One round; None when the server dropped something that it was not known to drop."""
        if choice.pool is None:
            await self.remove()
            return self._outcome(choice)
        pool: Pool | None = choice.pool
        held_by: tuple[str, ...] = ()
        message = choice.message
        reason = ""
        if not unsafe(choice.dropped):
            pool, held_by, reason = await self._hold(choice.pool)
        elif choice.state is PoolState.FALLBACK:
            pool, held_by, reason = await self._hold_fallback(choice.pool, wanted)
        message = "; ".join(filter(None, (message, reason)))
        if pool is not None and await self._write(wanted, pool):
            return None
        if held_by:
            return Outcome(PoolState.HELD, message, choice.dropped, held_by, again=self._held.next())
        self._held.reset()
        return self._outcome(choice)

    def _outcome(self, choice: Choice) -> Outcome:
        again = self._desk.features.due_in(choice.dropped) if choice.dropped else None
        return Outcome(choice.state, choice.message, choice.dropped, again=again)

    async def _hold(self, pool: Pool) -> tuple[Pool | None, tuple[str, ...], str]:
        """The pool with what is held as it is published (None: all of it waits), by whom, and the words."""
        published = self._recall()
        if published.adopted and affected_devices(pool, published):
            await self._look_at_writers(published)
        affected = affected_devices(pool, published)
        if not affected:
            return pool, (), ""
        try:
            holders = await self._desk.holders(
                {DeviceId(self._desk.driver, self._name, device) for device in affected}
            )
        except DraError as error:
            hold = hold_back(pool, published, affected)
            reason = f"it can't be told who holds {_few(hold.held)}: {error}"
            return self._storable(hold.pool), ("unknown",), reason
        claims = {device.device: claim for device, claim in holders.items()}
        hold = hold_back(pool, published, claims)
        published.forget(affected - set(claims) - {device.name for device in pool.devices})
        if not hold.held:
            return pool, (), ""
        reason = (
            f"counters or groups of {_few(hold.held)} stay as they are while claims hold them, "
            "and so does what else is in these counter sets"
        )
        if hold.waiting:
            reason += f"; not published until then: {_few(hold.waiting)}"
        return self._storable(hold.pool), tuple(sorted({claims[name] for name in hold.held})), reason

    async def _hold_fallback(self, fallback: Pool, wanted: Pool) -> tuple[Pool | None, tuple[str, ...], str]:
        """What may be published of a fallback, which claims the rest waits for, and the words."""
        published = self._recall()
        if published.adopted and left_out(fallback, wanted, published):
            await self._look_at_writers(published)
        asked = left_out(fallback, wanted, published)
        if not asked:
            return fallback, (), ""
        try:
            holders = await self._desk.holders(
                {DeviceId(self._desk.driver, self._name, device) for device in asked}
            )
        except DraError as error:
            reason = f"it can't be told who holds {_few(asked)}: {error}"
            return self._storable(hold_fallback(fallback, published, asked)), ("unknown",), reason
        if not holders:
            return fallback, (), ""
        held = {device.device for device in holders}
        reason = (
            f"the fallback leaves out {_few(held)} and is not published while claims hold what it leaves out"
        )
        pool = self._storable(hold_fallback(fallback, published, held))
        return pool, tuple(sorted(set(holders.values()))), reason

    def _recall(self) -> PublishedCounters:
        """What was last published; before the first write of this process, by the one before it."""
        known = self._desk.published.get(self._name)
        if known is None:
            known = self._desk.published[self._name] = PublishedCounters(self._desk.slices.of(self._name))
        return known

    async def _look_at_writers(self, published: PublishedCounters) -> None:
        """Tells slices of an earlier process from those that somebody else changed after it.

        The caches leave `managedFields` out, and they are needed once at most: so they are listed.
        """
        slices = await self._desk.slices.list_raw(self._name)
        if foreign := published.distrust(slices, self._desk.client.field_manager):
            _log.warning(
                "pool %s: slices %s were changed by others while no driver ran, so they do not say what claims "
                "hold; the driver's own counters are published",
                self._name,
                _few(foreign),
            )

    def _storable(self, pool: Pool | None) -> Pool | None:
        """What is kept may use fields that the server stored once and drops now."""
        return safe_part(pool, self._desk.features.dropped) if pool is not None else None

    async def _write(self, wanted: Pool, pool: Pool) -> bool:
        """Writes what is different; True when the server dropped something new: then decide again."""
        specs = await self._layout(pool)
        owner = await self._desk.owner.reference()
        seen = [self._as_sent(item) for item in self._desk.slices.of(self._name)]
        actions = plan(specs, seen, owner=owner, generation=wanted.generation)
        unwritten = any(not isinstance(action, Delete) for action in actions)
        # Before anything unsafe is stored, not after.
        if unwritten and await self._desk.features.probe(specs, self._desk.slices.cuts):
            return True
        if await self._execute(actions):
            return True
        self._recall().settled(pool.devices)
        return False

    async def _layout(self, pool: Pool) -> list[ResourceSliceSpec]:
        """The slices of a pool. A quarter of a second for 5000 devices, which the loop can't spare."""
        return await asyncio.to_thread(layout, pool, self._desk.driver, self._desk.node)

    async def _execute(self, actions: Sequence[Action]) -> bool:
        """Writes, in order; True, and no further, when the server dropped something."""
        for action in actions:
            if isinstance(action, Delete):
                await self._delete(action.old)
                continue
            stored = await (self._create(action.new) if isinstance(action, Create) else self._update(action))
            if self._stored(action.new, stored):
                return True
        return False

    async def _create(self, new: ResourceSlice) -> ResourceSlice:
        stored = await self._desk.client.create(SLICES, new, into=ResourceSlice)
        self.writes = replace(self.writes, creates=self.writes.creates + 1)
        return stored

    async def _update(self, action: Update) -> ResourceSlice:
        try:
            stored = await self._desk.client.replace(SLICES, action.new, into=ResourceSlice)
        except (Conflict, NotFound):
            await self._desk.slices.refresh(action.old)
            raise
        self.writes = replace(self.writes, updates=self.writes.updates + 1)
        return stored

    async def _delete(self, old: ResourceSlice) -> None:
        meta = old.metadata
        try:
            await self._desk.client.delete(
                SLICES, meta.name, uid=meta.uid, resource_version=meta.resource_version
            )
        except Conflict:
            await self._desk.slices.refresh(old)
            raise
        self.writes = replace(self.writes, deletes=self.writes.deletes + 1)
        self._desk.slices.deleted(old)

    def _stored(self, sent: ResourceSlice, stored: ResourceSlice) -> bool:
        """Takes note of what a write left behind; True when something was dropped."""
        self._desk.slices.written(stored)
        self._echoes.pop(stored.metadata.name, None)
        if self._desk.features.learn(sent.spec, stored.spec):
            return True
        self._recall().stored(stored.spec)
        if not same_spec(sent.spec, stored.spec):
            # An admission webhook, or a field that is too new: believe the server, or this would never end.
            _log.warning("slice %s: the API server changed it while storing it", stored.metadata.name)
            self._echoes[stored.metadata.name] = (stored.spec, sent.spec)
        return False

    def _as_sent(self, item: ResourceSlice) -> ResourceSlice:
        stored, sent = self._echoes.get(item.metadata.name, (None, item.spec))
        return msgspec.structs.replace(item, spec=sent) if stored == item.spec else item


def _few(names: Collection[str]) -> str:
    """Names for a message; a pool has thousands."""
    rest = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
    return ", ".join(sorted(names)[:_FEW]) + rest
