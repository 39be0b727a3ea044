"""How full a node would be with a pod, of the extended resources that a strategy names.

The part of `NodeResourcesFit`'s score that extended resources make up, whoever serves them: 0 to 100, the more
the better. Like kube-scheduler's, the default strategy names none of them, and every node scores the same.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Self

from dradriver.control.extended.names import is_extended
from dradriver.errors import UsageError

__all__ = ["ResourceUse", "ScoringStrategy"]

_BEST: Final = 100
_EXAMPLE: Final = "LeastAllocated:example.com/gpu=2,example.com/nic"


@dataclass(frozen=True, slots=True)
class ResourceUse:
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

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads `LeastAllocated:example.com/gpu=2,example.com/nic`; a weight that is not given is 1.

        Raises:
            UsageError: it does not look like that.
        """
        kind, _, listed = text.partition(":")
        resources: dict[str, int] = {}
        for part in filter(None, listed.split(",")):
            name, _, weight = part.partition("=")
            if not is_extended(name) or not (weight or "1").isdecimal() or int(weight or "1") < 1:
                raise UsageError(
                    f"scoring {text!r}: {part!r} is no extended resource with a weight of at least 1"
                )
            resources[name] = int(weight or "1")
        if kind not in _RATES or not resources:
            raise UsageError(
                f"scoring {text!r}: write {' or '.join(_RATES)}, a colon and resources: {_EXAMPLE}"
            )
        return cls(kind, resources)  # type: ignore[arg-type] # it is one of the two

    def counts(self, amounts: Mapping[str, int]) -> bool:
        """Whether it matters where a pod that asks for these amounts goes."""
        return any(name in self.resources for name in amounts)

    def score(self, uses: Mapping[str, ResourceUse]) -> int:
        """A node's score for a pod, from the resources that the pod asks for."""
        counted = {n: use for n, use in uses.items() if n in self.resources and use.capacity > 0}
        weights = sum(self.resources[name] for name in counted)
        rate = _RATES[self.type]
        total = sum(rate(use) * self.resources[name] for name, use in counted.items())
        return total // weights if weights else 0


def _least(use: ResourceUse) -> int:
    return 0 if use.wanted > use.capacity else (use.capacity - use.wanted) * _BEST // use.capacity


def _most(use: ResourceUse) -> int:
    return min(use.wanted, use.capacity) * _BEST // use.capacity


_RATES: Final[Mapping[str, Callable[[ResourceUse], int]]] = {"LeastAllocated": _least, "MostAllocated": _most}
