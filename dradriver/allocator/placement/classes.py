"""Classes of equal nodes: nodes with equal signatures and the same devices in use.

Claims that fit on one of them fit on all, so they share every verdict. A class keeps its nodes by name. The
journal lists each class that may have become more attractive: it has a node again, or its first node by name
changed to an earlier one.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Final

from dradriver.allocator.placement.node_signature import NodeSignature

__all__ = ["Classes", "NodeClass"]

_FORGOTTEN: Final = 20_000
"""Number of classes without nodes that are remembered, in case a node returns to one."""
_JOURNAL: Final = 50_000


@dataclass(slots=True, eq=False)
class NodeClass:
    """Nodes that are equal.

    Attributes:
        number: unique among all classes, including forgotten ones.
        stock: the signature of the nodes.
        nodes: their names.
    """

    number: int
    stock: NodeSignature
    nodes: set[str] = field(default_factory=set)
    _heap: list[str] = field(default_factory=list)

    @property
    def first(self) -> str:
        """Return the first of its nodes by name. The class must have a node."""
        while self._heap[0] not in self.nodes:
            heappop(self._heap)
        return self._heap[0]

    def first_of(self, wanted: Callable[[str], bool]) -> str | None:
        """Return the first of its nodes that may be chosen."""
        heap = list(self._heap)
        while heap:
            name = heappop(heap)
            if name in self.nodes and wanted(name):
                return name
        return None

    def add(self, name: str) -> bool:
        """Add a node and return whether it is now the first."""
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
        epoch: changes when the journal starts again.
        journal: classes that may have become more attractive, in the order of the events.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self.journal: list[NodeClass] = []
        self._known: dict[Hashable, NodeClass] = {}
        self._count = 0

    def join(self, name: str, key: Hashable, stock: NodeSignature) -> NodeClass:
        """Put a node into the class with that key."""
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
        """Remove a node from its class."""
        left.nodes.discard(name)

    @property
    def size(self) -> int:
        """Return the number of known classes."""
        return len(self._known)

    def begin_anew(self) -> None:
        """Start a new journal. Each reader of the journal must then read all classes again."""
        self.epoch += 1
        self.journal.clear()

    def occupied(self) -> list[NodeClass]:
        """Return the classes that have nodes."""
        return [each for each in self._known.values() if each.nodes]
