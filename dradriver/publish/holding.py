"""Changes that have to wait because a claim holds the device.

Counters and compatibility groups of an allocated device are what the scheduler counted with: while a claim
holds the device they stay as they are published (KEP-5963). So does the counter set that they are taken from,
and then everything else that is taken from it: what is left of the old amount says nothing about new
consumption.

A kept counter set is kept whole. Each published device that consumes from it stays as it is published as long
as it is wanted or held, with all that it consumes, so the other sets of these devices are kept too. A device
that would newly consume from a kept set waits. The rest of the pool goes on.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from msgspec.structs import replace

from dradriver.model.counters import CounterSet
from dradriver.model.device import Device
from dradriver.model.pool import Pool, problems
from dradriver.model.slices import ResourceSlice

__all__ = ["Hold", "affected_devices", "current_slices", "hold_back"]


@dataclass(frozen=True, slots=True)
class Hold:
    """What may be published while claims hold devices.

    Attributes:
        pool: the wanted pool with what is kept as it is published; None if that breaks a rule of pools: then
            the whole pool has to wait.
        held: the held devices whose counters stay, empty if nothing has to wait.
        waiting: the wanted devices that are left out until then.
    """

    pool: Pool | None
    held: frozenset[str] = frozenset()
    waiting: frozenset[str] = frozenset()


def current_slices(seen: Iterable[ResourceSlice]) -> list[ResourceSlice]:
    """The slices of the newest generation, by name."""
    known = sorted(seen, key=lambda item: item.metadata.name)
    newest = max((item.spec.pool.generation for item in known), default=0)
    return [item for item in known if item.spec.pool.generation == newest]


def affected_devices(wanted: Pool, seen: Iterable[ResourceSlice]) -> set[str]:
    """Published devices of which it matters whether a claim holds them, none if nothing could have to wait."""
    change = _Change(wanted, seen)
    return change.kept(change.old)[0]


def hold_back(wanted: Pool, seen: Iterable[ResourceSlice], held: Collection[str]) -> Hold:
    """What may be published of the wanted pool while claims hold these devices.

    Args:
        wanted: the pool, without problems.
        seen: its slices on the server.
        held: the held ones of `affected_devices`.
    """
    change = _Change(wanted, seen)
    kept, sets = change.kept(held)
    if not kept:
        return Hold(wanted)
    waiting = {d.name for d in wanted.devices if d.name not in kept and _consumed(d) & sets}
    devices = [
        replace(device, consumes_counters=change.old[device.name].consumes_counters)
        if device.name in kept
        else device
        for device in wanted.devices
        if device.name not in waiting
    ]
    devices += [device for name, device in change.old.items() if name in kept and name not in change.new]
    merged = replace(wanted, devices=tuple(devices), counter_sets=tuple(change.sets_with(sets)))
    return Hold(None if problems(merged) else merged, frozenset(kept) & frozenset(held), frozenset(waiting))


class _Change:
    """From the published pool to the wanted one."""

    def __init__(self, wanted: Pool, seen: Iterable[ResourceSlice]) -> None:
        slices = _believed(seen)
        self.old = {device.name: device for item in slices for device in item.spec.devices}
        self.new = {device.name: device for device in wanted.devices}
        self._old_sets = {s.name: s for item in slices for s in item.spec.shared_counters}
        self._new_sets = {s.name: s for s in wanted.counter_sets}
        self._still_used = {name for device in wanted.devices for name in _consumed(device)}
        self._users: dict[str, list[str]] = {}
        for device in self.old.values():
            for name in _consumed(device):
                self._users.setdefault(name, []).append(device.name)

    def kept(self, held: Collection[str]) -> tuple[set[str], set[str]]:
        """The devices and the counter sets that stay as they are published while these devices are held."""
        devices: set[str] = set()
        sets: set[str] = set()
        reached = [name for name in held if self._must_wait(name)]
        while reached:
            name = reached.pop()
            if name in devices:
                continue
            devices.add(name)
            for used in self._sets_of(name) - sets:
                sets.add(used)
                users = self._users.get(used, ())
                reached += (user for user in users if user in self.new or user in held)
        return devices, sets

    def sets_with(self, kept: Collection[str]) -> Iterable[CounterSet]:
        """The wanted counter sets, the kept ones as they are published; one that is not published waits."""
        for name, counter_set in self._new_sets.items():
            if name not in kept:
                yield counter_set
            elif name in self._old_sets:
                yield self._old_sets[name]
        for name in sorted(kept):
            if name not in self._new_sets and name in self._old_sets:
                yield self._old_sets[name]

    def _must_wait(self, name: str) -> bool:
        """Whether the wanted pool counts otherwise than the scheduler did when this device was allocated.

        A device that is not wanted any more goes at once if the counter sets that it consumes go out of use
        with it. Otherwise it would have to be counted by a scheduler that does not see it.
        """
        old, new = self.old.get(name), self.new.get(name)
        if old is None:
            return False
        if new is None:
            return bool(_consumed(old) & self._still_used)
        return old.consumes_counters != new.consumes_counters or any(
            self._old_sets.get(used) != self._new_sets.get(used) for used in _consumed(old)
        )

    def _sets_of(self, name: str) -> set[str]:
        new = self.new.get(name)
        return _consumed(self.old[name]) | (_consumed(new) if new is not None else set())


def _consumed(device: Device) -> set[str]:
    return {consumption.counter_set for consumption in device.consumes_counters}


def _believed(seen: Iterable[ResourceSlice]) -> list[ResourceSlice]:
    """The slices that allocations were made from, the later ones in the list win.

    While a new generation is incomplete nothing is allocated from it; what it lacks is still in older ones.
    """
    known = list(seen)
    newest = current_slices(known)
    if newest and len(newest) == newest[0].spec.pool.resource_slice_count:
        return newest
    return sorted(known, key=lambda item: (item.spec.pool.generation, item.metadata.name))
