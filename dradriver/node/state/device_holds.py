"""The devices that claims hold on this node, as input of the conflict check."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from dradriver.model.quantity import Quantity
from dradriver.model.resource.claim import DeviceId
from dradriver.model.resource.counters import CounterConsumption, CounterSet

__all__ = ["CounterSets", "DeviceHold", "HoldingClaim"]

CounterSets: TypeAlias = Mapping[tuple[str, str], CounterSet]
"""Counter sets by pool and name."""


@dataclass(frozen=True, slots=True)
class DeviceHold:
    """One device that a claim has or wants.

    Attributes:
        id: the device, with its share.
        admin_access: the claim only monitors.
        consumes: its consumption of the pool's counter sets, with the effective compatibility groups. None:
            unknown, because the driver did not offer the device.
        consumed_capacity: the part of the device's capacities that a share uses (KEP-5075).
    """

    id: DeviceId
    admin_access: bool = False
    consumes: Sequence[CounterConsumption] | None = ()
    consumed_capacity: Mapping[str, Quantity] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HoldingClaim:
    """A claim and its devices; `claim` is its name in messages."""

    claim: str
    holds: Sequence[DeviceHold]
