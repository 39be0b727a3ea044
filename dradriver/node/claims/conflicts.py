"""The last line of defense: which devices may be prepared beside those that already are.

Whatever the control plane allocated, no device is prepared for two claims, no counter set is overdrawn
(KEP-4815), and devices that consume from one counter set share a compatibility group (KEP-5963). What a held
device consumes, and its groups, are those recorded when it was prepared. Admin access only looks, and shares
of one device (KEP-5075) are told apart by their share IDs, consume counters once, and together take no more of
a capacity than the device has.

The capacities of shares are the `consumedCapacity` of the allocation results, as they were recorded: the
scheduler has rounded them by the capacity's request policy.
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
"""What devices have, by pool and device."""


@dataclass(frozen=True, slots=True)
class _Use:
    """What one device takes of one counter set."""

    claim: str
    device: DeviceId
    consumption: CounterConsumption


def refusals(
    wanted: HoldingClaim,
    held: Sequence[HoldingClaim],
    counter_sets: CounterSets,
    capacities: Capacities = MappingProxyType({}),
) -> list[str]:
    """Why the wanted devices can't be prepared now, one sentence a reason; empty when they can.

    Args:
        wanted: the claim to prepare.
        held: every other claim that is recorded on this node.
        counter_sets: what the counter sets of the pools hold now, or held when they were last seen.
        capacities: the same of the devices' capacities.
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
    """What would have to be known to say that nothing is overdrawn or mixed; empty when all of it is.

    Not to know is not to consume nothing: such a claim waits until the driver offers the device again.
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
    """What is taken of each counter set that the wanted devices take from; a shared device counts once."""
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
        # Added up from the first, whose unit the total is then printed in.
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
        # No groups at all go only with others that have none.
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
    """Why the wanted shares can't be prepared beside those of other claims, one sentence a reason.

    A capacity that is not known can't be added up to: one share of it is prepared, as it was allocated, and a
    second one is refused.
    """
    for pool, device in sorted({(h.id.pool, h.id.device) for h in wanted.holds if _is_share(h)}):
        # Capacities may be named with and without the driver's domain: once each is enough to compare.
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
    """Which claim takes how much of each capacity of the device."""
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
