"""Compatibility groups: they decide which devices may use a counter set at the same time (KEP-5963).

All devices that consume from one counter set at the same time must have at least one group in common. A device
without groups is compatible only with other devices without groups. So the state of a counter set is the
intersection of the groups of all devices that currently consume from it.

This module represents a set of groups as an integer with one bit for each group. "No groups" is a group of its
own (bit 0). The state starts as all ones. A device may join if `state & bits` of the device is not zero. This
value becomes the new state.
"""

from collections.abc import Iterable
from typing import Final

from dradriver.model.resource.counters import CounterConsumption

__all__ = ["ANY", "NO_GROUPS", "GroupBits"]

ANY: Final = -1
"""The state of an unused counter set: every device may join."""

NO_GROUPS: Final = 1
"""The bits of a device without groups."""


class GroupBits:
    """Assigns bits to the group names of one pool."""

    def __init__(self) -> None:
        self._bits: dict[str, int] = {}

    def bits(self, consumption: CounterConsumption) -> int:
        """Return the groups that a device declares for one counter set."""
        return self.named(consumption.compatibility_groups)

    def named(self, groups: Iterable[str] | None) -> int:
        """Return the bits of these group names. A new name gets a new bit."""
        bits = 0
        for name in groups or ():
            bits |= self._bits.setdefault(name, 1 << (len(self._bits) + 1))
        return bits or NO_GROUPS

    def text(self, bits: int) -> str:
        """Return the names of the groups whose bits are set, for messages."""
        if bits == NO_GROUPS:
            return "no groups"
        return ", ".join(self._named(bits)) or "none in common"

    def _named(self, bits: int) -> Iterable[str]:
        return (name for name, bit in self._bits.items() if bits & bit)
