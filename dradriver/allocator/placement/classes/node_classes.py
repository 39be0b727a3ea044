"""Classes of equal nodes: nodes with equal signatures and the same devices in use, under one lens.

Claims that fit on one node of a class fit on all its nodes, so the class has one verdict for each claim shape.
A class keeps its nodes sorted by name. The journal lists each class that may now be preferred to other classes:
it was empty and got a node, or it got a node that is now the first by name.
"""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Final, TypeAlias

from dradriver.allocator.placement.classes.node_signature import NodeSignature

__all__ = ["Allows", "Classes", "NodeClass"]

Allows: TypeAlias = Callable[[str], bool] | None
"""Returns whether a node may be chosen; None allows all nodes."""

_MAX_EMPTY: Final = 20_000
"""Maximum number of remembered classes without nodes. A node may return to such a class."""
_MAX_JOURNAL: Final = 50_000


@dataclass(slots=True, eq=False)
class NodeClass:
    """Nodes that are equal.

    Attributes:
        number: unique among all classes, including forgotten ones.
        signature: the signature of the nodes.
        nodes: the names of its nodes.
    """

    number: int
    signature: NodeSignature
    nodes: set[str] = field(default_factory=set)
    _heap: list[str] = field(default_factory=list)

    @property
    def first(self) -> str:
        """Return the first node of the class by name. The class must have a node."""
        while self._heap[0] not in self.nodes:
            heappop(self._heap)
        return self._heap[0]

    def first_allowed(self, allows: Allows) -> str | None:
        """Return the first allowed node of the class by name; None if no node is allowed.

        The class must have a node. If `allows` is None, all nodes are allowed.
        """
        if allows is None:
            return self.first
        return next(filter(allows, self.iter_names()), None)

    def iter_names(self) -> Iterator[str]:
        """Yield the nodes of the class by name. The class must not change meanwhile."""
        heap, before = list(self._heap), ""
        while heap:
            name = heappop(heap)
            if name in self.nodes and name != before:
                before = name
                yield name

    def add(self, name: str) -> bool:
        """Add a node and return whether it is now the first."""
        is_first = not self.nodes or name < self.first
        self.nodes.add(name)
        heappush(self._heap, name)
        if len(self._heap) > 2 * len(self.nodes) + 16:
            self._heap = list(self.nodes)
            heapify(self._heap)
        return is_first


class Classes:
    """All classes of nodes.

    Attributes:
        epoch: a number that changes when the journal is restarted.
        journal: the classes that may now be preferred to other classes, in the order of the events.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self.journal: list[NodeClass] = []
        self._known: dict[Hashable, NodeClass] = {}
        self._count = 0

    def add_node(self, name: str, key: Hashable, signature: NodeSignature) -> NodeClass:
        """Put a node into the class with this key, and return the class."""
        node_class = self._known.get(key)
        if node_class is None:
            if len(self._known) > _MAX_EMPTY:
                self._known = {k: each for k, each in self._known.items() if each.nodes}
            self._count += 1
            node_class = self._known[key] = NodeClass(self._count, signature)
        if node_class.add(name):
            self.journal.append(node_class)
            if len(self.journal) > _MAX_JOURNAL:
                self.restart_journal()
        return node_class

    @staticmethod
    def remove_node(name: str, node_class: NodeClass) -> None:
        """Remove a node from its class."""
        node_class.nodes.discard(name)

    @property
    def size(self) -> int:
        """Return the number of classes, including remembered classes that have no nodes."""
        return len(self._known)

    def restart_journal(self) -> None:
        """Start a new journal. Each reader of the journal must then read all classes again."""
        self.epoch += 1
        self.journal.clear()

    def with_nodes(self) -> list[NodeClass]:
        """Return the classes that have nodes."""
        return [each for each in self._known.values() if each.nodes]
