"""The addresses of a bed, out of ranges that no network routes; they are on `lo`, so no packet leaves."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Network:
    """One bed's share of 198.18.0.0/15 (benchmarks, RFC 2544) and 100.64.0.0/10 (RFC 6598).

    Attributes:
        number: 1 to 254, another one for each bed of a machine.
    """

    number: int

    @property
    def services(self) -> str:
        """The range of Services."""
        return f"198.18.{self.number}.0/24"

    @property
    def api(self) -> str:
        """Where the API server listens: the address of the Service `kubernetes`, so that no proxy is needed."""
        return f"198.18.{self.number}.1"

    def node(self, index: int) -> str:
        """The address of a node, counted from 1."""
        return f"198.19.{self.number}.{index}"

    def pods(self, index: int) -> str:
        """The range of a node's pods."""
        return f"100.{64 + index}.{self.number}.0/24"


def free_number(taken: Iterable[int]) -> int:
    """The lowest number that no other bed has."""
    used = set(taken)
    return next(number for number in range(1, 255) if number not in used)
