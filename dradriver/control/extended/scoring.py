"""Score nodes by how full they would be with a pod, for the extended resources that a strategy names.

The score is the part of the score of `NodeResourcesFit` for extended resources, which device plugins or devices
serve: 0 to 100, higher is better. The default strategy names no extended resources, as in kube-scheduler, so
every node has the same score.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Self

from dradriver.errors import UsageError
from dradriver.model.extended_names import is_extended

__all__ = ["ResourceUse", "ScoringStrategy"]

_MAX_SCORE: Final = 100
_EXAMPLE: Final = "LeastAllocated:example.com/gpu=2,example.com/nic"


@dataclass(frozen=True, slots=True)
class ResourceUse:
    """The use of one resource on one node.

    Attributes:
        capacity: the total amount. If it is 0, the resource is ignored.
        wanted: the amount that is in use, plus the amount that the pod requests.
    """

    capacity: int
    wanted: int


@dataclass(frozen=True, slots=True)
class ScoringStrategy:
    """Prefers full or empty nodes (`NodeResourcesFitArgs.scoringStrategy`).

    Attributes:
        type: `LeastAllocated` prefers empty nodes, `MostAllocated` prefers full nodes.
        resources: the resources that the score depends on, with their weights.
    """

    type: Literal["LeastAllocated", "MostAllocated"] = "LeastAllocated"
    resources: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the strategy for the text of a command line option.

        Args:
            text: type, colon, and resources with weights, such as
                `LeastAllocated:example.com/gpu=2,example.com/nic`. The default weight is 1.

        Raises:
            UsageError: the text has another form.
        """
        kind, _, listed = text.partition(":")
        resources: dict[str, int] = {}
        for part in filter(None, listed.split(",")):
            name, _, weight = part.partition("=")
            if not is_extended(name) or not (weight or "1").isdecimal() or int(weight or "1") < 1:
                raise UsageError(
                    f"scoring {text!r}: {part!r}: must be an extended resource with a weight of at least 1"
                )
            resources[name] = int(weight or "1")
        if kind not in _RATES or not resources:
            raise UsageError(
                f"scoring {text!r}: must be {' or '.join(_RATES)}, a colon and resources, as in {_EXAMPLE}"
            )
        return cls(kind, resources)  # type: ignore[arg-type] # kind is a key of _RATES

    def applies_to(self, amounts: Mapping[str, int]) -> bool:
        """Return whether the strategy names one of these resources.

        Args:
            amounts: requested amounts by resource name.
        """
        return any(name in self.resources for name in amounts)

    def score(self, uses: Mapping[str, ResourceUse]) -> int:
        """Return a node's score for a pod, 0 to 100.

        Args:
            uses: the use of each resource that the pod requests, by resource name.
        """
        counted = {n: use for n, use in uses.items() if n in self.resources and use.capacity > 0}
        weights = sum(self.resources[name] for name in counted)
        rate = _RATES[self.type]
        total = sum(rate(use) * self.resources[name] for name, use in counted.items())
        return total // weights if weights else 0


def _rate_least(use: ResourceUse) -> int:
    return 0 if use.wanted > use.capacity else (use.capacity - use.wanted) * _MAX_SCORE // use.capacity


def _rate_most(use: ResourceUse) -> int:
    return min(use.wanted, use.capacity) * _MAX_SCORE // use.capacity


_RATES: Final[Mapping[str, Callable[[ResourceUse], int]]] = {
    "LeastAllocated": _rate_least,
    "MostAllocated": _rate_most,
}
