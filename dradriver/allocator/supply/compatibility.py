"""Compatibility groups: which devices may use a counter set at the same time (KEP-5963).

Devices that consume from one counter set at the same time must all share at least one group. A device without
groups is compatible only with other devices without groups. So the state of a counter set is the rolling
intersection of its users' groups.

Here a set of groups is an integer with one bit for each group, and "no groups" is a group of its own (bit 0).
The state starts as all ones. A device may join if `state & its bits` is not zero, and that value becomes the
new state.
"""

from collections.abc import Iterable
from typing import Final

from dradriver.model.resource.counters import CounterConsumption

__all__ = ["ANY", "GroupBits"]

ANY: Final = -1
"""The state of an unused counter set: every device may join."""

_NO_GROUPS: Final = 1


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
        return bits or _NO_GROUPS

    def text(self, bits: int) -> str:
        """Return the names behind the bits, for messages."""
        if bits == _NO_GROUPS:
            return "no groups"
        return ", ".join(self._named(bits)) or "none in common"

    def _named(self, bits: int) -> Iterable[str]:
        return (name for name, bit in self._bits.items() if bits & bit)
