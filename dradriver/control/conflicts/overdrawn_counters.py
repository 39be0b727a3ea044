"""Decide which claim gives way if devices of several claims overdraw a counter of their pool (KEP-4815).

Two schedulers that choose on one GPU often choose different devices that overlap, such as the whole GPU and a
partition of it. The counters of the pool show this.

The allocator's own accounting (`allocator.supply`) is not used, because it compiles and checks whole pools.
Here only the counter sets of the claim's own devices are summed. The counter sets of one GPU have some dozens
of devices, and most of the devices are free.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self, TypeAlias

from dradriver.control.conflicts.double_allocations import (
    DeviceKey,
    DoubleAllocation,
    Holders,
    Precedence,
    device_key,
)
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.slices import ResourceSlice

__all__ = ["CountersOf", "PoolCounters", "find_overdraft", "find_overdrawing"]

CounterName: TypeAlias = tuple[str, str]
"""Counter set and counter."""


@dataclass(frozen=True, slots=True)
class PoolCounters:
    """The counters of a pool, and their consumption by devices, in nanos.

    Attributes:
        available: the amount of each counter.
        consumed: the consumption of each device that consumes counters.
        consumers: the devices that consume from each counter set.
    """

    available: Mapping[CounterName, int]
    consumed: Mapping[DeviceKey, Mapping[CounterName, int]]
    consumers: Mapping[str, Sequence[DeviceKey]]

    @classmethod
    def of(cls, slices: Iterable[ResourceSlice]) -> Self | None:
        """Return the counters of the newest generation; None if it has no counters, or if a slice is missing.

        Args:
            slices: all slices of the pool.
        """
        listed = list(slices)
        newest = max((each.spec.pool.generation for each in listed), default=0)
        current = [each for each in listed if each.spec.pool.generation == newest]
        if {each.spec.pool.resource_slice_count for each in current} != {len(current)}:
            return None
        available = {
            (counter_set.name, name): counter.value.nano
            for each in current
            for counter_set in each.spec.shared_counters
            for name, counter in counter_set.counters.items()
        }
        if not available:
            return None
        consumed: dict[DeviceKey, dict[CounterName, int]] = {}
        consumers: defaultdict[str, list[DeviceKey]] = defaultdict(list)
        for each in current:
            for device in each.spec.devices:
                key = f"{each.spec.driver}/{each.spec.pool.name}/{device.name}"
                for consumption in device.consumes_counters:
                    consumers[consumption.counter_set].append(key)
                    amounts = consumed.setdefault(key, {})
                    for name, counter in consumption.counters.items():
                        amounts[consumption.counter_set, name] = counter.value.nano
        return cls(available, consumed, dict(consumers))


CountersOf: TypeAlias = Callable[[str, str], PoolCounters | None]
"""Function that takes driver and pool, and returns the counters of the pool."""


def find_overdraft(
    claim: ResourceClaim,
    counters_of: CountersOf,
    holders: Holders,
    precedence_of: Callable[[ResourceClaim], Precedence],
) -> DoubleAllocation | None:
    """Return why a claim must give way to claims that consume the same counter; None if it keeps its devices.

    A claim gives way if its devices overdraw a counter together with the devices of the claims that take
    precedence. If a claim overdraws a counter alone, the driver has changed the pool, and the claim keeps its
    devices.

    Args:
        claim: the claim.
        counters_of: returns the counters of a pool.
        holders: returns the claims that hold a device.
        precedence_of: returns the key by which claims are compared.
    """
    overdrawn = _overdrawn(claim, counters_of, holders)
    if not overdrawn:
        return None
    own = precedence_of(claim)

    def preceding(key: DeviceKey) -> list[ResourceClaim]:
        return [
            each
            for each in holders(key)
            if each.metadata.uid == claim.metadata.uid or precedence_of(each) < own
        ]

    for (counter_set, name), others in _overdrawn(claim, counters_of, preceding):
        last = max(others, key=precedence_of)
        return DoubleAllocation(f"counter {name} of counter set {counter_set}", last.ref, is_bound=not own[0])
    return None


def find_overdrawing(claim: ResourceClaim, counters_of: CountersOf, holders: Holders) -> list[ResourceClaim]:
    """Return the other claims that consume a counter that the claim and they overdraw together.

    Args:
        claim: the claim.
        counters_of: returns the counters of a pool.
        holders: returns the claims that hold a device.
    """
    found = (each for _, others in _overdrawn(claim, counters_of, holders) for each in others)
    return list({each.metadata.uid: each for each in found}.values())


def _overdrawn(
    claim: ResourceClaim, counters_of: CountersOf, holders: Holders
) -> list[tuple[CounterName, list[ResourceClaim]]]:
    """Return the counters that the claim and other claims overdraw together, with the other claims."""
    own: defaultdict[tuple[str, str], set[DeviceKey]] = defaultdict(set)
    for result in claim.results:
        if not result.admin_access:
            own[result.driver, result.pool].add(device_key(result))
    return [
        each
        for pool, devices in own.items()
        if (counters := counters_of(*pool)) is not None
        for each in _overdrawn_of_pool(devices, counters, holders)
    ]


def _overdrawn_of_pool(
    devices: Collection[DeviceKey], counters: PoolCounters, holders: Holders
) -> Iterator[tuple[CounterName, list[ResourceClaim]]]:
    wanted = {name for device in devices for name, nano in counters.consumed.get(device, {}).items() if nano}
    total: Counter[CounterName] = Counter()
    others: defaultdict[CounterName, list[ResourceClaim]] = defaultdict(list)
    held = {key for counter_set in {name for name, _ in wanted} for key in counters.consumers[counter_set]}
    for key in held:
        claims = holders(key)
        if not claims:
            continue
        for name, nano in counters.consumed[key].items():
            if name in wanted and nano:
                total[name] += nano
                # All shares of a device consume its counters once, so a claim with another share takes nothing.
                others[name] += () if key in devices else claims
    for name in sorted(wanted & counters.available.keys()):
        if total[name] > counters.available[name] and others[name]:
            yield name, others[name]
