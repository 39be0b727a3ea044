"""Explains why no node can serve a pod's claims, for many nodes at once."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from dradriver.allocator.explain.refusal import Kind, Refusal
from dradriver.errors import DraError

__all__ = ["NoNodeFits", "RefusedNodes", "grouped"]

_ASKED: Final = 32
"""Number of kinds of nodes that are tried for an explanation, the most frequent first."""


@dataclass(frozen=True, slots=True)
class RefusedNodes:
    """Nodes that refuse for the same reasons.

    Attributes:
        refusal: the refusal of one of them; the devices and claims in it are those of that node. It has no
            reasons if there are so many kinds of nodes that these were not tried.
        nodes: their names, sorted.
    """

    refusal: Refusal
    nodes: tuple[str, ...]


class NoNodeFits(DraError):  # noqa: N818 - an answer more than an error
    """No node can serve the claims.

    Attributes:
        kind: `undecided` if the search gave up on a node, else `node`.
        nodes: the number of nodes.
    """

    def __init__(self, kind: Kind, nodes: int, explain: Callable[[], Iterable[RefusedNodes]]) -> None:
        self.kind: Kind = kind
        self.nodes = nodes
        self._explain = explain
        super().__init__(f"0/{nodes} nodes are available: cannot allocate all claims")

    @cached_property
    def groups(self) -> tuple[RefusedNodes, ...]:
        """Return the nodes that were tried, grouped by equal reasons, the largest group first.

        The groups are computed on the first call, by one more attempt on a node of each kind. So call it before
        the next event.
        """
        return tuple(sorted(self._explain(), key=lambda group: (-len(group.nodes), group.nodes)))

    def text(self) -> str:
        """Return the sentence with the reasons of each group."""
        told = (f"{len(group.nodes)} {group.refusal.brief()}" for group in self.groups)
        return f"0/{self.nodes} nodes are available: {', '.join(told)}"


def grouped(alike: Sequence[Sequence[str]], ask: Callable[[str], object]) -> Iterable[RefusedNodes]:
    """Return the nodes grouped by their reasons.

    Args:
        alike: names of equal nodes, each kind sorted.
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
    return None  # an event released devices meanwhile


def _gist(refusal: Refusal) -> object:
    """Return a key that is equal for refusals that differ only in the devices and holders that they name."""
    return refusal.kind, refusal.claim, refusal.request, refusal.brief()
