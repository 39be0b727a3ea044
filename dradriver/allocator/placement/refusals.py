"""Explains why no node can serve a pod's claims. Nodes with the same reasons are explained together."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from dradriver.allocator.explain.refusal import Kind, Refusal
from dradriver.errors import DraError

__all__ = ["NoNodeFits", "RefusedNodes", "group_by_reason"]

_MAX_TRIED: Final = 32
"""Maximum number of kinds of nodes that are tried for an explanation, the most frequent kinds first."""


@dataclass(frozen=True, slots=True)
class RefusedNodes:
    """Nodes that can't serve the claims for the same reasons.

    Attributes:
        refusal: the refusal on one of these nodes. It names the devices and claims of that node. If there are
            too many kinds of nodes, only the most frequent kinds are tried, and the refusal for the other nodes
            has no reasons.
        nodes: the sorted names of the nodes.
    """

    refusal: Refusal
    nodes: tuple[str, ...]


class NoNodeFits(DraError):  # noqa: N818 - an answer more than an error
    """No node can serve the claims.

    Attributes:
        kind: `undecided` if the search gave up on some node, else `node`.
        nodes: the number of nodes.
    """

    def __init__(self, kind: Kind, nodes: int, explain: Callable[[], Iterable[RefusedNodes]]) -> None:
        self.kind: Kind = kind
        self.nodes = nodes
        self._explain = explain
        super().__init__(f"0/{nodes} nodes are available: cannot allocate all claims")

    @cached_property
    def groups(self) -> tuple[RefusedNodes, ...]:
        """Return the nodes, grouped by equal reasons, the largest group first.

        The groups are computed at the first access: the allocation is tried again on one node of each kind.
        Read `groups` before the next event, because the attempts use the current state.
        """
        return tuple(sorted(self._explain(), key=lambda group: (-len(group.nodes), group.nodes)))

    def text(self) -> str:
        """Return the message of this exception with the reasons of each group."""
        parts = (f"{len(group.nodes)} {group.refusal.brief()}" for group in self.groups)
        return f"0/{self.nodes} nodes are available: {', '.join(parts)}"


def group_by_reason(
    equal_nodes: Sequence[Sequence[str]], allocate: Callable[[str], object]
) -> Iterable[RefusedNodes]:
    """Group the nodes by the reasons of their refusals.

    Args:
        equal_nodes: for each kind of equal nodes, the sorted names.
        allocate: tries to allocate the claims on a node, and raises its refusal.
    """
    kinds = sorted(equal_nodes, key=lambda names: (-len(names), names))
    groups: dict[object, tuple[Refusal, list[str]]] = {}
    for names in kinds[:_MAX_TRIED]:
        refusal = _refusal(names[0], allocate)
        if refusal is not None:
            _, together = groups.setdefault(_reason_key(refusal), (refusal, []))
            together += names
    others = [name for names in kinds[_MAX_TRIED:] for name in names]
    for refusal, together in groups.values():
        yield RefusedNodes(refusal, tuple(sorted(together)))
    if others:
        yield RefusedNodes(Refusal("node", "cannot allocate all claims"), tuple(sorted(others)))


def _refusal(name: str, allocate: Callable[[str], object]) -> Refusal | None:
    try:
        allocate(name)
    except Refusal as refusal:
        return refusal
    return None  # an event released devices meanwhile


def _reason_key(refusal: Refusal) -> object:
    """Return a key. Refusals that differ only in the named devices and holders have equal keys."""
    return refusal.kind, refusal.claim, refusal.request, refusal.brief()
