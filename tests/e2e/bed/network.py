"""Addresses of a bed on `lo`, from ranges that no network routes."""

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
        """Return the address range of Services."""
        return f"198.18.{self.number}.0/24"

    @property
    def api(self) -> str:
        """Return the API server's address: that of the Service `kubernetes`, so that no proxy is needed."""
        return f"198.18.{self.number}.1"

    def node(self, index: int) -> str:
        """Return the address of a node; indices begin at 1."""
        return f"198.19.{self.number}.{index}"

    def pods(self, index: int) -> str:
        """Return the address range of a node's pods."""
        return f"100.{64 + index}.{self.number}.0/24"


def free_number(taken: Iterable[int]) -> int:
    """Return the lowest number that no other bed has."""
    used = set(taken)
    return next(number for number in range(1, 255) if number not in used)
