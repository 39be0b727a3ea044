"""What a node has, up to what no claim can tell apart.

Two nodes have equal stock when their pools, in order, have equal blueprints, and the values of attributes
differ in nothing that matters. A value matters as such where a selector reads the attribute. Where none does it
matters only to constraints, which ask whether two devices have the same value: there two nodes are equal when
the same devices of theirs agree, so their values are numbered in the order in which they are met.

Pools that other nodes reach too are part of the stock as they are, and an attribute that their devices have
matters as such: a constraint may compare their values with those of the node's own devices.
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
        number: equal for nodes that see the same of it.
        seen: what the node sees.
        late: whether one of the devices has binding conditions.
    """

    number: int
    seen: PoolOnNode
    late: bool

    @property
    def key(self) -> PoolKey:
        """Driver and pool name."""
        return self.seen.view.key


Entry = NodePool | SharedPool
"""A pool that a node sees."""


@dataclass
class ReadAttributes:
    """The attributes of which the values matter as such.

    Attributes:
        names: without domains, those that some selector reads.
        everything: whether a selector may read any.
        shared: fully qualified, those of devices that several nodes reach.
    """

    names: set[str] = field(default_factory=set)
    everything: bool = False
    shared: Collection[str] = frozenset()

    def add(self, names: frozenset[str] | None) -> bool:
        """Takes note of what an expression reads, None for everything; tells whether that is news."""
        if self.everything or (names is not None and names <= self.names):
            return False
        self.everything = names is None
        self.names |= names or set()
        return True

    def matters(self, name: str, driver: str) -> bool:
        """Whether the values of an attribute matter as such."""
        return (
            self.everything
            or name.rpartition("/")[2] in self.names
            or (bool(self.shared) and qualify(name, driver) in self.shared)
        )


class NodeSignature:
    """What some nodes have, told by the pools of one of them.

    Attributes:
        number: equal stocks have equal numbers.
        examples: the pools of that node that no other node reaches, in order.
        shared: whether there are pools that other nodes reach too.
    """

    def __init__(self, number: int, entries: Sequence[Entry]) -> None:
        self.number = number
        self.examples = tuple(entry for entry in entries if isinstance(entry, NodePool))
        self.shared = len(self.examples) < len(entries)

    @cached_property
    def seen(self) -> tuple[PoolOnNode, ...]:
        """What its node sees of each example: their values go together as they do on every such node."""
        return tuple(pool.seen() for pool in self.examples)

    @cached_property
    def places(self) -> dict[int, tuple[int, int]]:
        """Pool and number of each device of the examples, by its id()."""
        return {
            id(device): (pool, number)
            for pool, seen in enumerate(self.seen)
            for number, device in enumerate(seen.view.devices)
        }


def entries_of(own: Iterable[NodePool], shared: Iterable[SharedPool]) -> list[Entry]:
    """The pools that a node sees, in the order in which they are tried."""
    return sorted((*own, *shared), key=lambda entry: (_is_late(entry), entry.key))


def _is_late(entry: Entry) -> bool:
    return entry.late if isinstance(entry, SharedPool) else entry.blueprint.late


def key_of(entries: Sequence[Entry], reading: ReadAttributes, number: Callable[[Hashable], int]) -> Hashable:
    """Equal for nodes of equal stock.

    Args:
        entries: the pools that the node sees, in order.
        reading: which attributes matter as such.
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
