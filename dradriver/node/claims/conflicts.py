"""Check on the node whether devices may be prepared together with the devices that are prepared already.

These rules hold even if the control plane allocates incorrectly:

- No device is prepared for two claims.
- No counter set is overdrawn (KEP-4815).
- Devices that consume from one counter set share a compatibility group (KEP-5963).

For a held device, the check uses the counters and groups that were recorded when the device was prepared.
Devices with admin access are ignored, because admin access only monitors. Shares of one device (KEP-5075) are
distinguished by their share IDs. All shares together consume the device's counters once, and must not exceed
the device's capacity. Several claims may use a device if a controller has allocated it to each of them as
shareable (KEP-3063).

The capacity of a share is the recorded `consumedCapacity` of its allocation result. The scheduler has already
rounded this value according to the capacity's request policy.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from dradriver.model.names import qualify
from dradriver.model.quantity import Quantity
from dradriver.model.resource.claim import DeviceId
from dradriver.model.resource.counters import CounterConsumption
from dradriver.model.resource.device import Capacity
from dradriver.node.state.records import CounterSets, DeviceHold, HoldingClaim

__all__ = ["Capacities", "find_conflicts", "find_unknowns"]

Capacities: TypeAlias = Mapping[tuple[str, str], Mapping[str, Capacity]]
"""Capacities of devices, by pool and device."""


@dataclass(frozen=True, slots=True)
class _Use:
    """The consumption of one device from one counter set."""

    claim: str
    device: DeviceId
    consumption: CounterConsumption


def find_conflicts(
    wanted: HoldingClaim,
    held: Sequence[HoldingClaim],
    counter_sets: CounterSets,
    capacities: Capacities = MappingProxyType({}),
) -> list[str]:
    """Return why the wanted devices cannot be prepared now, one sentence for each reason; empty if they can.

    Args:
        wanted: the claim to prepare.
        held: every other recorded claim of this node.
        counter_sets: the counter sets of the pools, as the driver last offered them.
        capacities: the capacities of the devices, as the driver last offered them.
    """
    reasons = list(_check_devices(wanted, held))
    for key, uses in _find_counter_uses(wanted, held).items():
        reasons += _check_counters(wanted.claim, key, uses, counter_sets)
        reasons += _check_groups(wanted.claim, key, uses)
    return [*reasons, *_check_capacities(wanted, held, capacities)]


def find_unknowns(wanted: HoldingClaim, held: Sequence[HoldingClaim], counter_sets: CounterSets) -> list[str]:
    """Return why counters and groups cannot be checked, one sentence for each unknown fact; empty if they can.

    A device that the driver does not offer may consume any counter. The claim waits until the driver offers the
    device again.
    """
    pools_with_counters = {pool for pool, _ in counter_sets}
    pools_with_counters |= {
        hold.id.pool for holder in (*held, wanted) for hold in holder.holds if hold.consumes
    }
    counted_pools = {hold.id.pool for hold in wanted.holds if hold.consumes and not hold.admin_access}
    return [
        *(
            f"claim {wanted.claim} can't be prepared: device {hold.id} is not offered by the driver, and its "
            f"consumption from the counter sets of pool {hold.id.pool!r} is unknown"
            for hold in wanted.holds
            if hold.consumes is None and not hold.admin_access and hold.id.pool in pools_with_counters
        ),
        *(
            f"claim {wanted.claim} can't be prepared: it consumes from counter sets of pool "
            f"{hold.id.pool!r}, and the consumption of device {hold.id} of claim {holder.claim} is unknown"
            for holder in (held if counted_pools else ())
            for hold in holder.holds
            if hold.consumes is None and not hold.admin_access and hold.id.pool in counted_pools
        ),
        *(
            f"claim {wanted.claim} can't be prepared: it consumes from counter set {key[1]!r} of pool "
            f"{key[0]!r}, which is not offered by the driver, and its counters are unknown"
            for key in sorted(_find_counter_uses(wanted, ()))
            if key not in counter_sets
        ),
    ]


def _check_devices(wanted: HoldingClaim, others: Iterable[HoldingClaim]) -> Iterator[str]:
    seen: dict[tuple[str, str], list[tuple[str, DeviceHold]]] = {_device_key(hold): [] for hold in wanted.holds}
    for holder in (*others, wanted):
        for hold in holder.holds:
            users = None if hold.admin_access else seen.get(_device_key(hold))
            if users is None:
                continue
            if holder is wanted:
                yield from (
                    f"device {hold.id} is prepared for claim {claim} and can't be prepared for claim "
                    f"{wanted.claim}"
                    for claim, other in users
                    if not _are_separate_shares(hold.id, other.id) and not (hold.shareable and other.shareable)
                )
            users.append((holder.claim, hold))


def _device_key(hold: DeviceHold) -> tuple[str, str]:
    return hold.id.pool, hold.id.device


def _are_separate_shares(one: DeviceId, other: DeviceId) -> bool:
    return bool(one.share_id and other.share_id and one.share_id != other.share_id)


def _find_counter_uses(
    wanted: HoldingClaim, others: Iterable[HoldingClaim]
) -> dict[tuple[str, str], list[_Use]]:
    """Return the uses of each counter set that the wanted devices consume; shares of a device count once."""
    touched = {
        (hold.id.pool, consumption.counter_set)
        for hold in wanted.holds
        if not hold.admin_access
        for consumption in hold.consumes or ()
    }
    uses: dict[tuple[str, str], list[_Use]] = {key: [] for key in touched}
    counted: set[tuple[str, str]] = set()
    for holder in (*others, wanted) if touched else ():
        for hold in holder.holds:
            device = _device_key(hold)
            if hold.admin_access or device in counted:
                continue
            counted.add(device)
            for consumption in hold.consumes or ():
                if (key := (hold.id.pool, consumption.counter_set)) in touched:
                    uses[key].append(_Use(holder.claim, hold.id, consumption))
    return uses


def _check_counters(
    claim: str, key: tuple[str, str], uses: Sequence[_Use], counter_sets: CounterSets
) -> Iterator[str]:
    counter_set = counter_sets.get(key)
    if counter_set is None:
        return  # reported by `find_unknowns`
    for name, counter in counter_set.counters.items():
        users = [use for use in uses if name in use.consumption.counters]
        if not any(use.claim == claim for use in users):
            continue
        # The sum starts with the first value, because messages print the total in the unit of that value.
        first, *rest = (use.consumption.counters[name].value for use in users)
        total = sum(rest, first)
        if total > counter.value:
            others = ", ".join(sorted({use.claim for use in users} - {claim})) or "no other claim"
            yield (
                f"counter {name!r} of counter set {key[1]!r} in pool {key[0]!r} would be overdrawn: "
                f"claim {claim} and {others} together consume {total} of {counter.value}"
            )


def _check_groups(claim: str, key: tuple[str, str], uses: Sequence[_Use]) -> Iterator[str]:
    if not uses:
        return
    first, *rest = uses
    common = set(first.consumption.compatibility_groups)
    for use in rest:
        groups = set(use.consumption.compatibility_groups)
        # A device without groups is compatible only with devices without groups.
        if bool(groups) != bool(first.consumption.compatibility_groups) or (groups and not common & groups):
            yield (
                f"device {use.device} of claim {use.claim} has no compatibility group in common with device "
                f"{first.device} of claim {first.claim} on counter set {key[1]!r} in pool {key[0]!r}: "
                f"{_format_groups(groups)} and {_format_groups(common)}; claim {claim} can't be prepared"
            )
            return
        common &= groups


def _format_groups(groups: set[str]) -> str:
    return ", ".join(sorted(groups)) or "none"


def _check_capacities(
    wanted: HoldingClaim, others: Sequence[HoldingClaim], capacities: Capacities
) -> Iterator[str]:
    """Yield a sentence for each reason why the wanted shares cannot be prepared with other claims' shares.

    If the amount of a capacity is unknown, the first share that uses the capacity is accepted, and a second
    share is rejected.
    """
    for pool, device in sorted({(h.id.pool, h.id.device) for h in wanted.holds if _is_share(h)}):
        # A capacity's name may include the driver's domain, or omit it. Both spellings are compared in the same
        # form.
        known = {
            qualify(name, wanted.holds[0].id.driver): capacity.value
            for name, capacity in capacities.get((pool, device), {}).items()
        }
        for name, uses in _find_capacity_uses((*others, wanted), pool, device).items():
            if any(claim == wanted.claim for claim, _ in uses):
                yield from _check_capacity(wanted.claim, f"{pool}/{device}", name, uses, known.get(name))


def _is_share(hold: DeviceHold) -> bool:
    return bool(hold.id.share_id) and not hold.admin_access


def _find_capacity_uses(
    holders: Iterable[HoldingClaim], pool: str, device: str
) -> dict[str, list[tuple[str, Quantity]]]:
    """Return the claims that use each capacity of the device, and the amount that each claim uses."""
    uses: dict[str, list[tuple[str, Quantity]]] = {}
    for holder in holders:
        for hold in holder.holds:
            if _is_share(hold) and (hold.id.pool, hold.id.device) == (pool, device):
                for name, amount in hold.consumed_capacity.items():
                    uses.setdefault(qualify(name, hold.id.driver), []).append((holder.claim, amount))
    return uses


def _check_capacity(
    claim: str, device: str, name: str, uses: Sequence[tuple[str, Quantity]], available: Quantity | None
) -> Iterator[str]:
    others = ", ".join(sorted({each for each, _ in uses} - {claim})) or "no other claim"
    first, *rest = (amount for _, amount in uses)
    total = sum(rest, first)
    if available is None:
        if rest:
            yield (
                f"claim {claim} can't be prepared: it consumes capacity {name} of device {device}, whose "
                f"amount is unknown; together with {others} it consumes {total}"
            )
    elif total > available:
        yield (
            f"capacity {name} of device {device} would be overdrawn: "
            f"claim {claim} and {others} together consume {total} of {available}"
        )
