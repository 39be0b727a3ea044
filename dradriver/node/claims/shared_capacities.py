"""Shares of one device together take no more of a capacity than the device has (KEP-5075).

Added up are the `consumedCapacity` of the allocation results, as they were recorded: the scheduler has rounded
them by the capacity's request policy.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from dradriver.model.names import qualify
from dradriver.model.quantity import Quantity
from dradriver.model.resource.device import Capacity
from dradriver.node.claims.device_holds import Hold, Holder

__all__ = ["Capacities", "capacity_refusals"]

Capacities: TypeAlias = Mapping[tuple[str, str], Mapping[str, Capacity]]
"""What devices have, by pool and device."""


def capacity_refusals(wanted: Holder, others: Sequence[Holder], capacities: Capacities) -> Iterator[str]:
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
        for name, uses in _uses((*others, wanted), pool, device).items():
            if any(claim == wanted.claim for claim, _ in uses):
                yield from _overdrawn(wanted.claim, f"{pool}/{device}", name, uses, known.get(name))


def _is_share(hold: Hold) -> bool:
    return bool(hold.id.share_id) and not hold.admin_access


def _uses(holders: Iterable[Holder], pool: str, device: str) -> dict[str, list[tuple[str, Quantity]]]:
    """Which claim takes how much of each capacity of the device."""
    uses: dict[str, list[tuple[str, Quantity]]] = {}
    for holder in holders:
        for hold in holder.holds:
            if _is_share(hold) and (hold.id.pool, hold.id.device) == (pool, device):
                for name, amount in hold.consumed_capacity.items():
                    uses.setdefault(qualify(name, hold.id.driver), []).append((holder.claim, amount))
    return uses


def _overdrawn(
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
