"""Nodes that are alike: with equal stock, of which the same is in use.

What can be had on one of them can be had on all, so they share every verdict. A class keeps its nodes by name.
Whoever watches the classes is told of each that may have become more interesting: it has a node again, or one
that comes before all others by name.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Final

from dradriver.allocator.placement.node_signature import NodeSignature

__all__ = ["Classes", "NodeClass"]

_FORGOTTEN: Final = 20_000
"""So many classes without nodes are remembered, in case that one comes back."""
_JOURNAL: Final = 50_000


@dataclass(slots=True, eq=False)
class NodeClass:
    """Nodes that are alike.

    Attributes:
        number: tells it from other classes, those that are forgotten included.
        stock: what the nodes have.
        nodes: their names.
    """

    number: int
    stock: NodeSignature
    nodes: set[str] = field(default_factory=set)
    _heap: list[str] = field(default_factory=list)

    @property
    def first(self) -> str:
        """The first of its nodes by name; there must be one."""
        while self._heap[0] not in self.nodes:
            heappop(self._heap)
        return self._heap[0]

    def first_of(self, wanted: Callable[[str], bool]) -> str | None:
        """The first of its nodes that is wanted."""
        heap = list(self._heap)
        while heap:
            name = heappop(heap)
            if name in self.nodes and wanted(name):
                return name
        return None

    def add(self, name: str) -> bool:
        """Takes a node in; tells whether it is the first now."""
        leads = not self.nodes or name < self.first
        self.nodes.add(name)
        heappush(self._heap, name)
        if len(self._heap) > 2 * len(self.nodes) + 16:
            self._heap = list(self.nodes)
            heapify(self._heap)
        return leads


class Classes:
    """All classes.

    Attributes:
        epoch: changes when the journal begins anew.
        journal: classes in which there may be more than before, in the order of the events.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self.journal: list[NodeClass] = []
        self._known: dict[Hashable, NodeClass] = {}
        self._count = 0

    def join(self, name: str, key: Hashable, stock: NodeSignature) -> NodeClass:
        """Puts a node into the class of that key."""
        found = self._known.get(key)
        if found is None:
            if len(self._known) > _FORGOTTEN:
                self._known = {k: each for k, each in self._known.items() if each.nodes}
            self._count += 1
            found = self._known[key] = NodeClass(self._count, stock)
        if found.add(name):
            self.journal.append(found)
            if len(self.journal) > _JOURNAL:
                self.begin_anew()
        return found

    @staticmethod
    def leave(name: str, left: NodeClass) -> None:
        """Takes a node out of its class."""
        left.nodes.discard(name)

    @property
    def size(self) -> int:
        """How many classes are known."""
        return len(self._known)

    def begin_anew(self) -> None:
        """Whoever watches must look at all classes again."""
        self.epoch += 1
        self.journal.clear()

    def occupied(self) -> list[NodeClass]:
        """The classes that have nodes."""
        return [each for each in self._known.values() if each.nodes]
