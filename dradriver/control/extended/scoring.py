"""How full a node would be with a pod, of the extended resources that a strategy names.

The part of `NodeResourcesFit`'s score that extended resources make up, whoever serves them: 0 to 100, the more
the better. Like kube-scheduler's, the default strategy names none of them, and every node scores the same.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

__all__ = ["ScoringStrategy", "Use"]

_BEST: Final = 100


@dataclass(frozen=True, slots=True)
class Use:
    """Of one resource on one node.

    Attributes:
        capacity: how much there is; with none the resource does not count.
        wanted: how much would be taken, the pod included.
    """

    capacity: int
    wanted: int


@dataclass(frozen=True, slots=True)
class ScoringStrategy:
    """Which nodes are better (`NodeResourcesFitArgs.scoringStrategy`).

    Attributes:
        type: `LeastAllocated` avoids full nodes, `MostAllocated` fills them up.
        resources: the resources that count, with their weights.
    """

    type: Literal["LeastAllocated", "MostAllocated"] = "LeastAllocated"
    resources: Mapping[str, int] = field(default_factory=dict)

    def counts(self, amounts: Mapping[str, int]) -> bool:
        """Whether it matters where a pod that asks for these amounts goes."""
        return any(name in self.resources for name in amounts)

    def score(self, uses: Mapping[str, Use]) -> int:
        """A node's score for a pod, from the resources that the pod asks for."""
        counted = {n: use for n, use in uses.items() if n in self.resources and use.capacity > 0}
        weights = sum(self.resources[name] for name in counted)
        rate = _RATES[self.type]
        total = sum(rate(use) * self.resources[name] for name, use in counted.items())
        return total // weights if weights else 0


def _least(use: Use) -> int:
    return 0 if use.wanted > use.capacity else (use.capacity - use.wanted) * _BEST // use.capacity


def _most(use: Use) -> int:
    return min(use.wanted, use.capacity) * _BEST // use.capacity


_RATES: Final[Mapping[str, Callable[[Use], int]]] = {"LeastAllocated": _least, "MostAllocated": _most}
