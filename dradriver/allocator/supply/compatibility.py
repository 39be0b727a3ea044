"""Compatibility groups: who may share a counter set with whom (KEP-5963).

Devices that consume from one counter set at the same time must all share at least one group; a device
without groups goes only with others without groups. So the state of a counter set is the rolling
intersection of its users' groups. Here a set of groups is an integer with one bit a group, "no groups" is a
group of its own (bit 0), and the rule becomes: the state starts as all ones, a device may join if
`state & its bits` is not zero, and then the state becomes that.
"""

from collections.abc import Iterable
from typing import Final

from dradriver.model.resource.counters import CounterConsumption

__all__ = ["ANY", "GroupBits"]

ANY: Final = -1
"""The state of a counter set that nobody uses: every device may join."""

_NO_GROUPS: Final = 1


class GroupBits:
    """The names of the groups of one pool and their bits."""

    def __init__(self) -> None:
        self._bits: dict[str, int] = {}

    def bits(self, consumption: CounterConsumption) -> int:
        """The groups that a device declares for one counter set."""
        return self.named(consumption.compatibility_groups)

    def named(self, groups: Iterable[str] | None) -> int:
        """The groups of these names, which may be new."""
        bits = 0
        for name in groups or ():
            bits |= self._bits.setdefault(name, 1 << (len(self._bits) + 1))
        return bits or _NO_GROUPS

    def text(self, bits: int) -> str:
        """The names behind the bits, for messages."""
        if bits == _NO_GROUPS:
            return "no groups"
        return ", ".join(self._named(bits)) or "none in common"

    def _named(self, bits: int) -> Iterable[str]:
        return (name for name, bit in self._bits.items() if bits & bit)
