"""Decides which changes of a pool must wait because a claim holds a device.

When the scheduler allocated a device, it used the counters and compatibility groups that were published then.
While a claim holds the device, they must stay as they were published (KEP-5963), whatever the slice contains
now; see `published_counters`. The counter set from which the device consumes must stay too, and so must all
other devices that consume from this set: the scheduler subtracts the consumption of all allocated devices from
the set, so old and new amounts must not be mixed.

A counter set is always kept as a whole. If a published device consumes from a kept set and is wanted or held,
all consumption of the device stays as it is published. Therefore the other counter sets of the device are kept
too. If a device does not consume from a kept set yet but is to do so in the wanted pool, it waits. The rest of
the pool is published.

If the server drops counters, a fallback is published instead of the wanted pool. The fallback's devices share
hardware with the wanted pool's devices and do not consume counters (KEP-4815, Rollback). These rules apply to a
change between the fallback and the wanted pool:

- A device of the fallback consumes no counters, so the scheduler does not count it. While a claim holds such a
  device and the wanted pool contains it, the counter sets that it will consume from are kept, and the devices
  that consume from these sets and are not published now wait, even if they were published earlier. If the
  wanted pool does not contain the held device, it is unknown which hardware the device uses. In this case the
  held device stays published. If no published device consumes from a counter set, the devices that want to
  consume from this set wait.
- If the fallback contains all held devices, it can be published beside them. While a claim holds a device that
  the fallback omits, no further device of the fallback is published; see `omitted_devices` and `pin_fallback`.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from msgspec.structs import replace

from dradriver.model.resource.counters import CounterSet
from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool, problems
from dradriver.publish.holds.published_counters import PublishedCounters

__all__ = ["PinnedPool", "affected_devices", "omitted_devices", "pin_fallback", "pin_pool"]


@dataclass(frozen=True, slots=True)
class PinnedPool:
    """The part of a pool that may be published while claims hold devices.

    Attributes:
        pool: the wanted pool, with the kept devices as they are published. None if this pool would be invalid:
            the whole wanted pool must then wait.
        held: the held devices whose counters stay. Empty if no change must wait.
        waiting: the wanted devices that are omitted while claims hold devices.
    """

    pool: Pool | None
    held: frozenset[str] = frozenset()
    waiting: frozenset[str] = frozenset()


def affected_devices(wanted: Pool, published: PublishedCounters) -> set[str]:
    """Return the published devices that make changes wait if a claim holds them."""
    change = _Change(wanted, published)
    return change.find_kept(change.old)[0]


def pin_pool(wanted: Pool, published: PublishedCounters, held: Collection[str]) -> PinnedPool:
    """Return the part of the wanted pool that may be published while claims hold these devices.

    Args:
        wanted: the wanted pool. It must be valid.
        published: the counters that the driver last published.
        held: the devices of `affected_devices` that claims hold.
    """
    change = _Change(wanted, published)
    kept, sets = change.find_kept(held)
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


def omitted_devices(fallback: Pool, wanted: Pool, published: PublishedCounters) -> set[str]:
    """Return the devices that the fallback does not offer and that must be free before it is published.

    The result is empty if the whole fallback is already published. The result also includes devices of the
    wanted pool that this process has not published, because an earlier process may have published them.
    """
    if all(_is_published(device, published) for device in fallback.devices):
        return set()
    names = {device.name for device in wanted.devices} | set(published.devices)
    return names - {device.name for device in fallback.devices}


def pin_fallback(fallback: Pool, published: PublishedCounters, held: Collection[str]) -> Pool:
    """Return the part of a fallback that may be published while claims hold devices that it omits.

    The result contains the devices of the fallback that are already published, and the held devices without
    counters. The latter stay published because a later process knows only the devices that it finds.

    Args:
        fallback: the fallback pool. It must be valid.
        published: the counters that the driver last published.
        held: the devices of `omitted_devices` that claims hold.
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
    """Return whether the device is published now with the consumption that it has here."""
    known = published.devices.get(device.name) if device.name in published.current else None
    return known is not None and known.consumes_counters == device.consumes_counters


class _Change:
    """The change from the published pool to the wanted pool."""

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

    def find_kept(self, held: Collection[str]) -> tuple[set[str], set[str]]:
        """Return the devices and counter sets that stay as published while claims hold these devices."""
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
        """Return whether a kept, unwanted device stays published, or is published again to be counted."""
        return name not in self.new and (name in self._current or bool(_consumed(self.old[name])))

    def sets_with(self, kept: Collection[str]) -> Iterable[CounterSet]:
        """Return the wanted counter sets. A kept set is as it is published, or omitted if it is not published.

        If published devices consume from a kept set, but the published counters of the set are unknown, the
        wanted set is used.
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
        """Return whether the change of this device must wait while a claim holds it.

        If the device is still wanted, its change must wait if its counters differ from those with which the
        scheduler allocated it. If the device is not wanted, it can be removed immediately if no wanted device
        consumes from its counter sets. Otherwise the scheduler would have to count a device that it does not
        see. A device that consumes no counters may belong to a fallback. It may use the hardware of each
        counter set that no published device uses yet.
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
