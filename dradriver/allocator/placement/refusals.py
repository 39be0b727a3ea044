"""Why no node can have a pod's claims, told for many nodes at once."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from dradriver.allocator.explain.refusal import Kind, Refusal
from dradriver.errors import DraError

__all__ = ["NoNodeFits", "RefusedNodes", "grouped"]

_ASKED: Final = 32
"""So many kinds of nodes are asked why, the most frequent first."""


@dataclass(frozen=True, slots=True)
class RefusedNodes:
    """Nodes that refuse for the same reasons.

    Attributes:
        refusal: that of one of them; the devices and claims that it names are that node's. It has no reasons
            where there are so many kinds of nodes that these were not asked.
        nodes: their names, sorted.
    """

    refusal: Refusal
    nodes: tuple[str, ...]


class NoNodeFits(DraError):  # noqa: N818 - an answer more than an error
    """No node can have the claims.

    Attributes:
        kind: `undecided` when the search gave up on a node, else `node`.
        nodes: how many nodes there are.
    """

    def __init__(self, kind: Kind, nodes: int, explain: Callable[[], Iterable[RefusedNodes]]) -> None:
        self.kind: Kind = kind
        self.nodes = nodes
        self._explain = explain
        super().__init__(f"0/{nodes} nodes are available: cannot allocate all claims")

    @cached_property
    def groups(self) -> tuple[RefusedNodes, ...]:
        """The nodes that were tried, those with equal reasons together, the largest group first.

        Found out when first asked for, by trying a node of each kind once more, so ask before the next event.
        """
        return tuple(sorted(self._explain(), key=lambda group: (-len(group.nodes), group.nodes)))

    def text(self) -> str:
        """The sentence with the reasons of each group."""
        told = (f"{len(group.nodes)} {group.refusal.brief()}" for group in self.groups)
        return f"0/{self.nodes} nodes are available: {', '.join(told)}"


def grouped(alike: Sequence[Sequence[str]], ask: Callable[[str], object]) -> Iterable[RefusedNodes]:
    """The nodes by their reasons.

    Args:
        alike: names of nodes that are alike, each kind sorted.
        ask: raises the refusal of a node.
    """
    kinds = sorted(alike, key=lambda names: (-len(names), names))
    found: dict[object, tuple[Refusal, list[str]]] = {}
    for names in kinds[:_ASKED]:
        refusal = _refusal(names[0], ask)
        if refusal is not None:
            _, together = found.setdefault(_gist(refusal), (refusal, []))
            together += names
    others = [name for names in kinds[_ASKED:] for name in names]
    for refusal, together in found.values():
        yield RefusedNodes(refusal, tuple(sorted(together)))
    if others:
        yield RefusedNodes(Refusal("node", "cannot allocate all claims"), tuple(sorted(others)))


def _refusal(name: str, ask: Callable[[str], object]) -> Refusal | None:
    try:
        ask(name)
    except Refusal as refusal:
        return refusal
    return None  # an event made room meanwhile


def _gist(refusal: Refusal) -> object:
    """Equal for refusals that differ in the devices and holders that they name only."""
    return refusal.kind, refusal.claim, refusal.request, refusal.brief()
