"""Changes that must wait because a claim holds the device.

The scheduler counted with the published counters and compatibility groups of an allocated device. While a claim
holds the device they stay as they were published (KEP-5963), whatever the slice says now; see
`published_counters`. The counter set that the device consumes from stays too, and everything else that consumes
from it: the rest of the old amount says nothing about new consumption.

A kept counter set is kept as a whole. Each published device that consumes from it stays as it is published as
long as it is wanted or held, with all its consumption, so the other sets of these devices are kept too. A
device that would newly consume from a kept set waits. The rest of the pool is published.

If the server drops counters, a fallback is published instead. Its devices share hardware with the pool's
devices and do not consume counters (KEP-4815, Rollback). Between the two layouts these rules hold:

- A held device of the fallback is not counted. If the wanted pool has it, the counter sets that it will consume
  are kept, and a device that is not published now waits, whatever was published of it before. If the wanted
  pool does not have it, its hardware is unknown: the device stays, and devices wait that consume from counter
  sets from which no published device consumes.
- A fallback that offers each held device was laid out beside them. While a claim holds a device that the
  fallback omits, nothing new is published of the fallback: see `left_out`, `hold_fallback`.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from msgspec.structs import replace

from dradriver.model.resource.counters import CounterSet
from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool, problems
from dradriver.publish.holds.published_counters import PublishedCounters

__all__ = ["PinnedPool", "affected_devices", "hold_back", "hold_fallback", "left_out"]


@dataclass(frozen=True, slots=True)
class PinnedPool:
    """The part of a pool that may be published while claims hold devices.

    Attributes:
        pool: the wanted pool, with the kept devices as they are published. None if that breaks a rule of pools:
            the whole pool then has to wait.
        held: the held devices whose counters stay. Empty if nothing has to wait.
        waiting: the wanted devices that are omitted until then.
    """

    pool: Pool | None
    held: frozenset[str] = frozenset()
    waiting: frozenset[str] = frozenset()


def affected_devices(wanted: Pool, published: PublishedCounters) -> set[str]:
    """Return the published devices whose holders matter; empty if nothing could have to wait."""
    change = _Change(wanted, published)
    return change.kept(change.old)[0]


def hold_back(wanted: Pool, published: PublishedCounters, held: Collection[str]) -> PinnedPool:
    """Return the part of the wanted pool that may be published while claims hold these devices.

    Args:
        wanted: the pool, without problems.
        published: the counters that the driver last published.
        held: the held ones of `affected_devices`.
    """
    change = _Change(wanted, published)
    kept, sets = change.kept(held)
    if not kept:
        return PinnedPool(wanted)
    waiting = {d.name for d in wanted.devices if d.name not in kept and _consumed(d) & sets}
    devices = [
        replace(device, consumes_counters=change.old[device.name].consumes_counters)
        if device.name in kept
        else device
        for device in wanted.devices
        if device.name not in waiting
    ]
    devices += [device for name, device in change.old.items() if name in kept and change.stays(name)]
    merged = replace(wanted, devices=tuple(devices), counter_sets=tuple(change.sets_with(sets)))
    return PinnedPool(
        None if problems(merged) else merged, frozenset(kept) & frozenset(held), frozenset(waiting)
    )


def left_out(fallback: Pool, wanted: Pool, published: PublishedCounters) -> set[str]:
    """Return the devices that must be free before a fallback is published, because it does not offer them.

    Empty if all of the fallback is already published. The wanted pool's devices are included, because a process
    that was started while the server dropped their counters has not published any.
    """
    if all(_is_published(device, published) for device in fallback.devices):
        return set()
    names = {device.name for device in wanted.devices} | set(published.devices)
    return names - {device.name for device in fallback.devices}


def hold_fallback(fallback: Pool, published: PublishedCounters, held: Collection[str]) -> Pool:
    """Return the part of a fallback that may be published while claims hold devices that it omits.

    It is the part that is already published, and the held devices without counters, because a later process
    must find them in order to know them.

    Args:
        fallback: the pool, without problems.
        published: the counters that the driver last published.
        held: the held ones of `left_out`.
    """
    devices = [device for device in fallback.devices if _is_published(device, published)]
    kept = [
        device
        for name, device in published.devices.items()
        if name in held and name in published.current and not device.consumes_counters
    ]
    merged = replace(fallback, devices=(*devices, *kept))
    return replace(fallback, devices=tuple(devices)) if problems(merged) else merged


def _is_published(device: Device, published: PublishedCounters) -> bool:
    """Return whether the device is published now, with the same consumption."""
    known = published.devices.get(device.name) if device.name in published.current else None
    return known is not None and known.consumes_counters == device.consumes_counters


class _Change:
    """The change from the published pool to the wanted one."""

    def __init__(self, wanted: Pool, published: PublishedCounters) -> None:
        self.old = published.devices
        self.new = {device.name: device for device in wanted.devices}
        self._old_sets = published.counter_sets
        self._new_sets = {s.name: s for s in wanted.counter_sets}
        self._still_used = {name for device in wanted.devices for name in _consumed(device)}
        self._current = published.current
        self._users: dict[str, list[str]] = {}
        for device in self.old.values():
            for name in _consumed(device):
                self._users.setdefault(name, []).append(device.name)
        self._unpublished = {
            name for name in self._still_used if self._current.isdisjoint(self._users.get(name, ()))
        }

    def kept(self, held: Collection[str]) -> tuple[set[str], set[str]]:
        """Return the devices and counter sets that stay as they are published while these devices are held."""
        devices: set[str] = set()
        sets: set[str] = set()
        reached = [name for name in held if self._must_wait(name)]
        uncounted = {used for name in reached for used in self._sets_of(name) - _consumed(self.old[name])}
        while reached:
            name = reached.pop()
            if name in devices:
                continue
            devices.add(name)
            for used in self._sets_of(name) - sets:
                sets.add(used)
                users = self._users.get(used, ())
                known = self._current if used in uncounted else self.old
                reached += (user for user in users if user in held or (user in self.new and user in known))
        return devices, sets

    def stays(self, name: str) -> bool:
        """Return whether a kept, unwanted device stays published, or is published again for counting."""
        return name not in self.new and (name in self._current or bool(_consumed(self.old[name])))

    def sets_with(self, kept: Collection[str]) -> Iterable[CounterSet]:
        """Return the wanted counter sets, with the kept ones as they are published; an unpublished one waits.

        If published devices consume from a set, but its published counters are unknown, the wanted set is used.
        """
        for name, counter_set in self._new_sets.items():
            if name not in kept or (name in self._users and name not in self._old_sets):
                yield counter_set
            elif name in self._old_sets:
                yield self._old_sets[name]
        for name in sorted(kept):
            if name not in self._new_sets and name in self._old_sets:
                yield self._old_sets[name]

    def _must_wait(self, name: str) -> bool:
        """Return whether the wanted pool has other counters than the scheduler used to allocate this device.

        A device that is no longer wanted is removed immediately if the counter sets that it consumes go out of
        use with it. Otherwise a scheduler that does not see the device would have to count it. A device that
        consumes none may be a fallback's, and share the hardware of each counter set that newly comes into use.
        """
        old, new = self.old.get(name), self.new.get(name)
        if old is None:
            return False
        if new is None:
            return bool(_consumed(old) & self._still_used if _consumed(old) else self._unpublished)
        return old.consumes_counters != new.consumes_counters or any(
            used in self._old_sets and self._old_sets[used] != self._new_sets.get(used)
            for used in _consumed(old)
        )

    def _sets_of(self, name: str) -> set[str]:
        old, new = _consumed(self.old[name]), self.new.get(name)
        if new is None:
            return old or self._unpublished
        return old | _consumed(new)


def _consumed(device: Device) -> set[str]:
    return {consumption.counter_set for consumption in device.consumes_counters}
