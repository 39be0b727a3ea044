"""How full a node would be with a pod, for the extended resources that a strategy names.

This is the part of `NodeResourcesFit`'s score that concerns extended resources, served by device plugins or by
devices: 0 to 100, higher is better. Like kube-scheduler's, the default strategy names none of them, so every
node scores the same.
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
    """The use of one resource on one node.

    Attributes:
        capacity: the total amount; with 0 the resource does not count.
        wanted: the amount in use, the pod included.
    """

    capacity: int
    wanted: int


@dataclass(frozen=True, slots=True)
class ScoringStrategy:
    """The preference between nodes (`NodeResourcesFitArgs.scoringStrategy`).

    Attributes:
        type: `LeastAllocated` avoids full nodes, `MostAllocated` fills them.
        resources: the resources that count, with their weights.
    """

    type: Literal["LeastAllocated", "MostAllocated"] = "LeastAllocated"
    resources: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `LeastAllocated:example.com/gpu=2,example.com/nic`; a missing weight is 1.

        Raises:
            UsageError: the text has another form.
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
        """Return whether the strategy names one of these amounts' resources."""
        return any(name in self.resources for name in amounts)

    def score(self, uses: Mapping[str, ResourceUse]) -> int:
        """Return a node's score for a pod, from the resources that the pod asks for."""
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
