"""Finds the claims that hold what a refused device needs: counters and compatibility groups.

The allocator reports how much of a counter is left. The claims that took the rest are computed here, for the
explanation only, from the same use of the pools.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from dradriver.allocator import PooledDevice, PoolView
from dradriver.allocator.explain.refusal import Reason
from dradriver.allocator.supply.devices_in_use import PoolUse
from dradriver.allocator.supply.node_supply import Offer, compute_held_resources
from dradriver.model.resource.claim import DeviceId, ResourceClaim

__all__ = ["HELD_CODES", "ResourceHolder", "find_holders", "pods_by_claim"]

HELD_CODES: Final = ("counter", "groups")
"""Codes of the reasons for which holders are found."""


@dataclass(frozen=True, slots=True)
class ResourceHolder:
    """A device in use that takes what a refused device needs.

    Attributes:
        device: the device in use.
        claims: claims (`namespace/name`) that hold the device.
        pods: pods (`namespace/name`) for which the claims are reserved.
        counter_set: the counter set from which both devices consume.
        counters: amounts of the missing counters that the device takes, by counter; empty for groups.
        groups: the compatibility groups with which the device uses the counter set; None for counters.
    """

    device: DeviceId
    claims: tuple[str, ...]
    pods: tuple[str, ...]
    counter_set: str
    counters: Mapping[str, str]
    groups: tuple[str, ...] | None = None

    def __str__(self) -> str:
        pods = f" (pod {', '.join(self.pods)})" if self.pods else ""
        head = f"claim {', '.join(self.claims)}{pods} holds {self.device}"
        if self.groups is not None:
            groups = f"groups {', '.join(self.groups)}" if self.groups else "no groups"
            return f"{head}, which uses counter set {self.counter_set} with {groups}"
        taken = ", ".join(f"{amount} of {name}" for name, amount in self.counters.items())
        return f"{head}, which takes {taken} from counter set {self.counter_set}"

    def document(self) -> dict[str, object]:
        """Return the document for programs."""
        return {
            "device": str(self.device),
            "claims": list(self.claims),
            "pods": list(self.pods),
            "counterSet": self.counter_set,
            "counters": dict(self.counters),
            "groups": None if self.groups is None else list(self.groups),
        }


def pods_by_claim(claims: Iterable[ResourceClaim]) -> dict[str, tuple[str, ...]]:
    """Return, for each allocated claim (`namespace/name`), the pods for which it is reserved."""
    return {
        claim.ref: tuple(
            f"{claim.metadata.namespace}/{user.name}"
            for user in claim.status.reserved_for
            if user.resource == "pods"
        )
        for claim in claims
        if claim.allocation is not None
    }


def find_holders(
    reasons: Iterable[Reason], offers: Iterable[Offer], pods: Mapping[str, tuple[str, ...]]
) -> tuple[ResourceHolder, ...]:
    """Return the devices in use that take the counters and compatibility groups that refused devices need.

    Args:
        reasons: the obstacles to one request on one node. Only obstacles of counters and groups are considered.
        offers: the pools as the node sees them, with their use.
        pods: the pods of each claim.

    Returns:
        The holders in the order of the pools and devices. A holder that only the pod's own other requests
        would be is not included.
    """
    refused: Mapping[str, set[DeviceId]] = defaultdict(set)
    for reason in reasons:
        if reason.code in HELD_CODES:
            refused[reason.code].update(reason.devices)
    if not refused:
        return ()
    return tuple(
        holder
        for pool, use in offers
        if use.claims
        for code in HELD_CODES
        for holder in _of_pool(pool.view, use, code, refused[code], pods)
    )


def _of_pool(
    pool: PoolView, use: PoolUse, code: str, refused: set[DeviceId], pods: Mapping[str, tuple[str, ...]]
) -> Iterator[ResourceHolder]:
    wanted = [device for device in pool.devices if device.id in refused]
    if not wanted:
        return
    find_missing = _missing_counters if code == "counter" else _conflicting_sets
    missing = find_missing(pool, use, wanted)
    for device in pool.devices:
        claims = use.claims.get(device.id.device, ())
        for consumed in device.device.consumes_counters if claims else ():
            if consumed.counter_set not in missing:
                continue
            users = tuple(dict.fromkeys(pod for claim in claims for pod in pods.get(claim, ())))
            names = missing[consumed.counter_set]
            taken = {name: str(each.value) for name, each in consumed.counters.items() if name in names}
            if code == "groups":
                recorded = use.groups.get(device.id.device, {}).get(consumed.counter_set)
                groups = tuple(recorded if recorded is not None else consumed.compatibility_groups or ())
                yield ResourceHolder(device.id, claims, users, consumed.counter_set, {}, groups)
            elif taken:
                yield ResourceHolder(device.id, claims, users, consumed.counter_set, taken)


def _missing_counters(pool: PoolView, use: PoolUse, wanted: Iterable[PooledDevice]) -> dict[str, set[str]]:
    """Return, by counter set, the counters of which these devices need more than claims have left.

    A counter that is overdrawn is missing too, because it blocks all devices of the pool that consume counters.
    """
    table, (taken, _) = pool.counters, compute_held_resources(pool, use)
    left = [amount - nano for amount, nano in zip(table.amounts, taken, strict=True)]
    short = {at for device in wanted for at, nano in device.consumption.counters if left[at] < nano}
    short |= {at for at, nano in enumerate(left) if nano < 0}
    missing: dict[str, set[str]] = defaultdict(set)
    for at in short:
        counter_set, name = table.names[at]
        missing[counter_set].add(name)
    return missing


def _conflicting_sets(pool: PoolView, use: PoolUse, wanted: Iterable[PooledDevice]) -> dict[str, set[str]]:
    """Return the counter sets that claims use with other groups than these devices."""
    table, (_, allowed) = pool.counters, compute_held_resources(pool, use)
    return {
        table.sets[at]: set()
        for device in wanted
        for at, bits in device.consumption.groups
        if not allowed[at] & bits
    }
