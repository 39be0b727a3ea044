"""Classes of nodes, as the claims see them that read the same attributes.

A lens has the attributes whose values some claim shapes read. Two nodes have one *signature* under a lens if
their pools, in order, have equal blueprints, the read attributes have equal values, and the values of
attributes that constraints compare are equal on the same devices. Other attributes do not matter, so the
serial number of a card makes no difference. Two nodes are in one class if they also have the same devices in
use, up to differences that no claim can detect. What is held in pools that other nodes reach too is no part
of a class.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final

from dradriver.allocator.meter import SORTING, BudgetSpentError, Meter
from dradriver.allocator.placement.classes.node_classes import Classes, NodeClass
from dradriver.allocator.placement.classes.node_signature import NodeSignature
from dradriver.allocator.placement.fleet.fleet import Fleet, FleetNode
from dradriver.allocator.placement.fleet.pools import Entry, HeldPool, Sight

__all__ = ["Lens", "short_name"]

_MAX_SIGNATURES: Final = 50_000
_STEPS: Final = 8
"""Steps of sorting a node, apart from the attributes that are read."""
_NAMES_PER_STEP: Final = 4
"""Attributes of a pool that are read in one step."""
_SORTING: Final = 25
"""Percentage of a pod's budget for sorting nodes. The rest is for looking at the classes."""


@dataclass(slots=True)
class _Known:
    """What the lens knows of a node."""

    content: int
    signature: NodeSignature
    node_class: NodeClass


class Lens:
    """The classes of all nodes under one set of attributes.

    Args:
        fleet: the nodes.
        reads: the names, without domains, of the attributes whose values matter; None: all.
        compares: the names, without domains, of the attributes that constraints compare.
        distinguishes_holders: whether nodes with different held devices belong to different classes. This is
            necessary if a selector fails on a device, because selectors are not evaluated on held devices: the
            failure occurs only while the device is not held.

    Attributes:
        classes: the classes.
    """

    def __init__(
        self,
        fleet: Fleet,
        reads: frozenset[str] | None,
        compares: frozenset[str],
        *,
        distinguishes_holders: bool,
    ) -> None:
        self.classes = Classes()
        self.distinguishes_holders = distinguishes_holders
        self._fleet = fleet
        self._reads = reads
        self._compares = compares
        self._names: tuple[Sequence[str] | None, Sequence[str]] = ((), ())
        self._shared_attributes: frozenset[str] | None = None
        self._known: dict[str, _Known] = {}
        self._signatures: dict[Hashable, NodeSignature] = {}
        self._unread: dict[str, None] = {}
        self._number = 0
        self._position = (-1, 0)

    @property
    def is_partial(self) -> bool:
        """Return whether the last `update` left out nodes because its part of the budget was spent."""
        return bool(self._unread)

    def node_class(self, name: str) -> NodeClass:
        """Return the class of a node. `update` must have been called.

        Args:
            name: the node's name.

        Raises:
            BudgetSpentError: `update` has left out the node.
            KeyError: the node is unknown.
        """
        if name in self._unread:
            raise BudgetSpentError
        return self._known[name].node_class

    def update(self, meter: Meter) -> None:
        """Put the nodes that changed into their classes.

        At most a part of the budget is spent. The nodes that are left out are in no class. Another call
        continues with them.

        Args:
            meter: counts the work.
        """
        fleet, (epoch, start) = self._fleet, self._position
        if self._update_names() or epoch != fleet.epoch:
            for known in self._known.values():
                known.content = -1
            self._unread.update(dict.fromkeys((*self._known, *fleet.members)))
            if len(self._signatures) > _MAX_SIGNATURES:
                self._signatures.clear()
        else:
            self._unread.update(dict.fromkeys(fleet.journal[start:]))
        self._position = fleet.epoch, len(fleet.journal)
        if self._unread:
            meter.spend_part(_SORTING, lambda: self._sort(meter))
        for name in self._unread:
            if name in self._known:
                self.classes.remove_node(name, self._known[name].node_class)

    def _sort(self, meter: Meter) -> None:
        while self._unread:
            name = next(iter(self._unread))
            member = self._fleet.members.get(name)
            if member is None:
                self._remove(name)
            else:
                self._classify(member, meter)
            del self._unread[name]

    def _remove(self, name: str) -> None:
        known = self._known.pop(name, None)
        if known is not None:
            self.classes.remove_node(name, known.node_class)

    def _update_names(self) -> bool:
        """Update the names of the attributes. Return whether they changed."""
        if self._shared_attributes is self._fleet.shared_attributes:
            return False
        self._shared_attributes = self._fleet.shared_attributes
        names = self._list_names()
        if names == self._names:
            return False
        # Columns of different attributes may be equal, so a signature is valid for these names only.
        self._signatures.clear()
        self._names = names
        return True

    def _list_names(self) -> tuple[Sequence[str] | None, Sequence[str]]:
        """Return the attributes whose values matter, and those of which only the equality of values matters."""
        if self._reads is None:
            return None, ()
        # A constraint may compare a device of the node with a device that other nodes reach too.
        compared_with_shared = self._compares & self._fleet.shared_attributes
        reads = self._reads | compared_with_shared
        return sorted(reads), sorted(self._compares - reads)

    def _classify(self, member: FleetNode, meter: Meter) -> None:
        name = member.node.name
        known = self._known.get(name)
        if known is not None and known.content == member.content:
            meter.spend(SORTING, _STEPS)
            signature = known.signature
        else:
            signature = self._find_signature(member, meter)
        own = [member.entries[at].pool for at in signature.own]
        held = tuple([pool.held for pool in own]) if self.distinguishes_holders else None
        key = signature.number, tuple([pool.state for pool in own]), held
        if known is None:
            self._known[name] = _Known(member.content, signature, self.classes.add_node(name, key, signature))
            return
        self.classes.remove_node(name, known.node_class)
        known.content, known.signature = member.content, signature
        known.node_class = self.classes.add_node(name, key, signature)

    def _find_signature(self, member: FleetNode, meter: Meter) -> NodeSignature:
        reads, compares = self._names
        names = len(reads or ()) + len(compares)
        meter.spend(SORTING, _STEPS + names * len(member.entries) // _NAMES_PER_STEP)
        key = (
            member.node.declared_features,
            tuple([self._entry_key(entry, reads) for entry in member.entries]),
            self._list_patterns(member, compares, meter),
        )
        signature = self._signatures.get(key)
        if signature is None:
            self._number += 1
            signature = self._signatures[key] = NodeSignature(self._number, member.entries, member.outlook)
        return signature

    @staticmethod
    def _entry_key(entry: Entry, reads: Sequence[str] | None) -> Hashable:
        if isinstance(entry, Sight):
            return "shared", entry.number
        if reads is None:
            return entry.blueprint.number, entry.values
        return entry.blueprint.number, tuple([entry.column(name).number for name in reads])

    def _list_patterns(self, member: FleetNode, compares: Sequence[str], meter: Meter) -> tuple[int, ...]:
        """Return the pattern of equal values of each attribute that is compared."""
        pools = [entry for entry in member.entries if isinstance(entry, HeldPool)]
        number = self._fleet.patterns.number
        return tuple([number([pool.column(name) for pool in pools], meter) for name in compares])


def short_name(attribute: str) -> str:
    """Return an attribute's name without its domain."""
    return attribute.rpartition("/")[2]
