"""The devices of a node, up to differences that no claim can detect.

Two nodes have equal signatures if their pools, in order, have equal blueprints, and the values of attributes do
not differ in a way that matters. A value itself matters if a selector reads the attribute. Otherwise it matters
only to constraints, which compare the values of two devices. For these attributes two nodes are equal if the
same devices have equal values, so the values are numbered in the order in which they are met.

Pools that other nodes reach too are part of the signature as they are. The values of their devices' attributes
matter themselves, because a constraint may compare them with those of the node's own devices.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

from dradriver.allocator.placement.pools import NodePool
from dradriver.allocator.supply.devices_in_use import PoolKey
from dradriver.allocator.supply.pools import PoolOnNode
from dradriver.model.names import qualify

__all__ = ["Entry", "NodeSignature", "ReadAttributes", "SharedPool", "entries_of", "key_of"]


@dataclass(frozen=True, slots=True, eq=False)
class SharedPool:
    """A pool that several nodes reach, as one of them sees it.

    Attributes:
        number: equal for nodes that see the same part of it.
        seen: the pool as the node sees it.
        late: whether one of the devices has binding conditions.
    """

    number: int
    seen: PoolOnNode
    late: bool

    @property
    def key(self) -> PoolKey:
        """Return driver and pool name."""
        return self.seen.view.key


Entry = NodePool | SharedPool
"""A pool that a node sees."""


@dataclass
class ReadAttributes:
    """The attributes whose values matter themselves.

    Attributes:
        names: the attributes that some selector reads, without domains.
        everything: whether a selector may read any attribute.
        shared: the attributes of devices that several nodes reach, fully qualified.
    """

    names: set[str] = field(default_factory=set)
    everything: bool = False
    shared: Collection[str] = frozenset()

    def add(self, names: frozenset[str] | None) -> bool:
        """Add the attributes that an expression reads (None: all) and return whether this changed anything."""
        if self.everything or (names is not None and names <= self.names):
            return False
        self.everything = names is None
        self.names |= names or set()
        return True

    def matters(self, name: str, driver: str) -> bool:
        """Return whether the values of an attribute matter themselves."""
        return (
            self.everything
            or name.rpartition("/")[2] in self.names
            or (bool(self.shared) and qualify(name, driver) in self.shared)
        )


class NodeSignature:
    """The devices of some nodes, represented by the pools of one of them.

    Attributes:
        number: equal for equal signatures.
        examples: the pools of that node that no other node reaches, in order.
        shared: whether there are pools that other nodes reach too.
    """

    def __init__(self, number: int, entries: Sequence[Entry]) -> None:
        self.number = number
        self.examples = tuple(entry for entry in entries if isinstance(entry, NodePool))
        self.shared = len(self.examples) < len(entries)

    @cached_property
    def seen(self) -> tuple[PoolOnNode, ...]:
        """Return each example as its node sees it. Its combination of values is the same on every such node."""
        return tuple(pool.seen() for pool in self.examples)

    @cached_property
    def places(self) -> dict[int, tuple[int, int]]:
        """Return pool and number of each device of the examples, by its `id()`."""
        return {
            id(device): (pool, number)
            for pool, seen in enumerate(self.seen)
            for number, device in enumerate(seen.view.devices)
        }


def entries_of(own: Iterable[NodePool], shared: Iterable[SharedPool]) -> list[Entry]:
    """Return the pools that a node sees, in the order in which they are tried."""
    return sorted((*own, *shared), key=lambda entry: (_is_late(entry), entry.key))


def _is_late(entry: Entry) -> bool:
    return entry.late if isinstance(entry, SharedPool) else entry.blueprint.late


def key_of(entries: Sequence[Entry], reading: ReadAttributes, number: Callable[[Hashable], int]) -> Hashable:
    """Return a key that is equal for nodes with equal signatures.

    Args:
        entries: the pools that the node sees, in order.
        reading: the attributes whose values matter themselves.
        number: gives equal keys equal numbers.
    """
    met: dict[Hashable, int] = {}
    return tuple(
        [
            ("shared", entry.number)
            if isinstance(entry, SharedPool)
            else (entry.blueprint.number, number(_pattern(entry, reading, met)))
            for entry in entries
        ]
    )


def _pattern(pool: NodePool, reading: ReadAttributes, met: dict[Hashable, int]) -> Hashable:
    driver = pool.key[0]
    matters: dict[str, bool] = {}
    qualified: dict[str, str] = {}
    found: list[Hashable] = []
    for values in chain.from_iterable(pool.attributes):
        for name, value in values:
            if name not in matters:
                matters[name] = reading.matters(name, driver)
                qualified[name] = qualify(name, driver)
            if matters[name]:
                found.append(value)
            elif isinstance(value, tuple) and value[0] == "list":
                found.append(tuple(met.setdefault((qualified[name], each), len(met)) for each in value[1]))
            else:
                found.append(met.setdefault((qualified[name], value), len(met)))
    return tuple(found)
