"""The devices of a node, up to differences that the claims of one lens cannot detect."""

from collections.abc import Sequence
from functools import cached_property

from dradriver.allocator.placement.fleet.pools import Entry, HeldPool, Sight
from dradriver.allocator.placement.fleet.shared_pools import Outlook
from dradriver.allocator.supply.pools import PoolOnNode

__all__ = ["NodeSignature"]


class NodeSignature:
    """The pools of some nodes, represented by the pools of one of them.

    Attributes:
        number: the number of the signature. It is unique in its lens.
        entries: the pools that the represented node sees, in the order in which they are tried.
        outlook: the pools among them that other nodes reach too, sorted as in `entries`.
        own: the positions of the pools that only the node reaches.
        shared: the positions of the other pools.
    """

    def __init__(self, number: int, entries: Sequence[Entry], outlook: Outlook) -> None:
        self.number = number
        self.entries = tuple(entries)
        self.outlook = outlook
        self.own = tuple([at for at, entry in enumerate(entries) if isinstance(entry, HeldPool)])
        self.shared = tuple([at for at, entry in enumerate(entries) if isinstance(entry, Sight)])

    @cached_property
    def pools(self) -> dict[int, PoolOnNode]:
        """Return the own pools as their node sees them, by position.

        The values that matter are equal on all nodes with this signature.
        """
        return {at: self.entries[at].pool.on_node() for at in self.own}

    @cached_property
    def numbers(self) -> dict[int, tuple[int, int]]:
        """Return the position of the pool and the number in the pool of each device, by `id(device)`."""
        views = [
            self.pools[at].view if at in self.pools else e.blueprint.view for at, e in enumerate(self.entries)
        ]
        return {
            id(device): (at, number)
            for at, view in enumerate(views)
            for number, device in enumerate(view.devices)
        }
