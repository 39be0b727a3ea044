"""The node's own check of which devices may be prepared beside the prepared ones.

It holds whatever the control plane has allocated:

- No device is prepared for two claims.
- No counter set is overdrawn (KEP-4815).
- Devices that consume from one counter set share a compatibility group (KEP-5963).

The counters and groups of a held device are those that were recorded when it was prepared. Admin access only
monitors. Shares of one device (KEP-5075) are distinguished by their share IDs. They consume counters once, and
together they must not exceed the device's capacity.

The capacities of shares are the recorded `consumedCapacity` of the allocation results. The scheduler has
rounded them by the capacity's request policy.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType
from typing import TypeAlias

from dradriver.model.names import qualify
from dradriver.model.quantity import Quantity
from dradriver.model.resource.claim import DeviceId
from dradriver.model.resource.counters import CounterConsumption
from dradriver.model.resource.device import Capacity
from dradriver.node.state.device_holds import CounterSets, DeviceHold, HoldingClaim

__all__ = ["Capacities", "refusals", "unknowns"]

Capacities: TypeAlias = Mapping[tuple[str, str], Mapping[str, Capacity]]
"""Capacities of devices, by pool and device."""


@dataclass(frozen=True, slots=True)
class _Use:
    """The consumption of one device from one counter set."""

    claim: str
    device: DeviceId
    consumption: CounterConsumption


def refusals(
    wanted: HoldingClaim,
    held: Sequence[HoldingClaim],
    counter_sets: CounterSets,
    capacities: Capacities = MappingProxyType({}),
) -> list[str]:
    """Return the reasons why the wanted devices cannot be prepared now, one sentence each; empty if they can.

    Args:
        wanted: the claim to prepare.
        held: every other recorded claim of this node.
        counter_sets: the counter sets of the pools, now or when they were last seen.
        capacities: the capacities of the devices, now or when they were last seen.
    """
    return [
        *_taken(wanted, held),
        *chain.from_iterable(
            chain(_overdrawn(wanted.claim, key, uses, counter_sets), _incompatible(wanted.claim, key, uses))
            for key, uses in _uses(wanted, held).items()
        ),
        *_capacities_overdrawn(wanted, held, capacities),
    ]


def unknowns(wanted: HoldingClaim, held: Sequence[HoldingClaim], counter_sets: CounterSets) -> list[str]:
    """Return the facts that are missing to exclude an overdrawn or mixed counter set; empty if none is.

    An unknown device may consume any counter. The claim waits until the driver offers the device again.
    """
    counting = {pool for pool, _ in counter_sets}
    counting |= {hold.id.pool for holder in (*held, wanted) for hold in holder.holds if hold.consumes}
    taken_from = {hold.id.pool for hold in wanted.holds if hold.consumes and not hold.admin_access}
    return [
        *(
            f"the driver offers no device {hold.id}, and it is not known what that takes of the counter sets "
            f"of pool {hold.id.pool!r}: claim {wanted.claim} can't be prepared"
            for hold in wanted.holds
            if hold.consumes is None and not hold.admin_access and hold.id.pool in counting
        ),
        *(
            f"it is not known what device {hold.id} of claim {holder.claim} takes of the counter sets of pool "
            f"{hold.id.pool!r}: claim {wanted.claim}, which takes from them too, can't be prepared"
            for holder in (held if taken_from else ())
            for hold in holder.holds
            if hold.consumes is None and not hold.admin_access and hold.id.pool in taken_from
        ),
        *(
            f"the driver offers no counter set {key[1]!r} in pool {key[0]!r}, and it is not known what it "
            f"holds: claim {wanted.claim}, which takes from it, can't be prepared"
            for key in sorted(_uses(wanted, ()))
            if key not in counter_sets
        ),
    ]


def _taken(wanted: HoldingClaim, others: Iterable[HoldingClaim]) -> Iterator[str]:
    seen: dict[tuple[str, str], list[tuple[str, DeviceId]]] = {_device(hold): [] for hold in wanted.holds}
    for holder in (*others, wanted):
        for hold in holder.holds:
            users = None if hold.admin_access else seen.get(_device(hold))
            if users is None:
                continue
            if holder is wanted:
                yield from (
                    f"device {hold.id} is prepared for claim {claim}, so not for claim {wanted.claim}"
                    for claim, other in users
                    if not _separate_shares(hold.id, other)
                )
            users.append((holder.claim, hold.id))


def _device(hold: DeviceHold) -> tuple[str, str]:
    return hold.id.pool, hold.id.device


def _separate_shares(one: DeviceId, other: DeviceId) -> bool:
    return bool(one.share_id and other.share_id and one.share_id != other.share_id)


def _uses(wanted: HoldingClaim, others: Iterable[HoldingClaim]) -> dict[tuple[str, str], list[_Use]]:
    """Return the uses of each counter set that the wanted devices consume; a shared device counts once."""
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
            device = _device(hold)
            if hold.admin_access or device in counted:
                continue
            counted.add(device)
            for consumption in hold.consumes or ():
                if (key := (hold.id.pool, consumption.counter_set)) in touched:
                    uses[key].append(_Use(holder.claim, hold.id, consumption))
    return uses


def _overdrawn(
    claim: str, key: tuple[str, str], uses: Sequence[_Use], counter_sets: CounterSets
) -> Iterator[str]:
    counter_set = counter_sets.get(key)
    if counter_set is None:
        return  # one of the `unknowns`
    for name, counter in counter_set.counters.items():
        users = [use for use in uses if name in use.consumption.counters]
        if not any(use.claim == claim for use in users):
            continue
        # The sum starts with the first value, because the total is printed in its unit.
        first, *rest = (use.consumption.counters[name].value for use in users)
        total = sum(rest, first)
        if total > counter.value:
            others = ", ".join(sorted({use.claim for use in users} - {claim})) or "no other claim"
            yield (
                f"counter {name!r} of counter set {key[1]!r} in pool {key[0]!r} would be overdrawn: "
                f"claim {claim} and {others} together take {total} of {counter.value}"
            )


def _incompatible(claim: str, key: tuple[str, str], uses: Sequence[_Use]) -> Iterator[str]:
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
                f"{_groups(groups)} against {_groups(common)}, so claim {claim} can't be prepared"
            )
            return
        common &= groups


def _groups(groups: set[str]) -> str:
    return ", ".join(sorted(groups)) or "none"


def _capacities_overdrawn(
    wanted: HoldingClaim, others: Sequence[HoldingClaim], capacities: Capacities
) -> Iterator[str]:
    """Yield why the wanted shares cannot be prepared beside those of other claims, one sentence a reason.

    If a capacity is unknown, one share of it is prepared as allocated, and a second one is rejected.
    """
    for pool, device in sorted({(h.id.pool, h.id.device) for h in wanted.holds if _is_share(h)}):
        # A capacity's name may include the driver's domain; one spelling for each is enough for a comparison.
        known = {
            qualify(name, wanted.holds[0].id.driver): capacity.value
            for name, capacity in capacities.get((pool, device), {}).items()
        }
        for name, uses in _capacity_uses((*others, wanted), pool, device).items():
            if any(claim == wanted.claim for claim, _ in uses):
                yield from _capacity_overdrawn(wanted.claim, f"{pool}/{device}", name, uses, known.get(name))


def _is_share(hold: DeviceHold) -> bool:
    return bool(hold.id.share_id) and not hold.admin_access


def _capacity_uses(
    holders: Iterable[HoldingClaim], pool: str, device: str
) -> dict[str, list[tuple[str, Quantity]]]:
    """Return the claims that use each capacity of the device, with the amount."""
    uses: dict[str, list[tuple[str, Quantity]]] = {}
    for holder in holders:
        for hold in holder.holds:
            if _is_share(hold) and (hold.id.pool, hold.id.device) == (pool, device):
                for name, amount in hold.consumed_capacity.items():
                    uses.setdefault(qualify(name, hold.id.driver), []).append((holder.claim, amount))
    return uses


def _capacity_overdrawn(
    claim: str, device: str, name: str, uses: Sequence[tuple[str, Quantity]], available: Quantity | None
) -> Iterator[str]:
    others = ", ".join(sorted({each for each, _ in uses} - {claim})) or "no other claim"
    first, *rest = (amount for _, amount in uses)
    total = sum(rest, first)
    if available is None:
        if rest:
            yield (
                f"it is not known how much capacity {name} device {device} has, of which claim {claim} and "
                f"{others} together take {total}: claim {claim} can't be prepared"
            )
    elif total > available:
        yield (
            f"capacity {name} of device {device} would be overdrawn: "
            f"claim {claim} and {others} together take {total} of {available}"
        )
