"""The nodes of a cluster and their devices, updated by events.

An event only records what it affects. The records are processed before the next question. A pool is rebuilt if
one of its slices changed. It is updated if a claim took or released one of its devices. The nodes that see the
pool are assigned to their classes again. Everything else is not read.

A pool whose slices all name one node belongs to that node. All other pools are shared. The devices of a shared
pool that a node reaches are computed when the node or the pool changes.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from dradriver.allocator.features import Features
from dradriver.allocator.placement.blueprint import Blueprint
from dradriver.allocator.placement.classes import Classes, NodeClass
from dradriver.allocator.placement.contents import ContentsInterner, SliceContents
from dradriver.allocator.placement.node_signature import (
    Entry,
    NodeSignature,
    ReadAttributes,
    SharedPool,
    entries_of,
    key_of,
)
from dradriver.allocator.placement.pools import NodePool, PoolNames
from dradriver.allocator.placement.usage_index import Touched, UsageIndex
from dradriver.allocator.supply.devices_in_use import PoolKey
from dradriver.allocator.supply.nodes import AllocationNode, device_on_node
from dradriver.allocator.supply.pools import PoolOnNode, PoolView, PublishedPool, gather_slices
from dradriver.model import names
from dradriver.model.names import qualify
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.slices import ResourceSlice

__all__ = ["Fleet", "FleetNode"]

_PARTS: Final = 200_000
_PARTS_PER_SLICE: Final = 200
"""Stored parts for each slice above which old parts must exist that no slice uses."""

Published = SliceContents | ResourceSlice
"""A slice; as `SliceContents` if it names a node."""


@dataclass(slots=True, eq=False)
class FleetNode:
    """A node of the cluster.

    Attributes:
        node: the node.
        own: its own pools.
        entries: the pools that it sees, in order.
        stock: its signature.
        alike: its class.
    """

    node: AllocationNode
    own: dict[PoolKey, NodePool] = field(default_factory=dict)
    entries: Sequence[Entry] = ()
    stock: NodeSignature | None = None
    alike: NodeClass | None = None

    @property
    def own_entries(self) -> list[NodePool]:
        """Return the entries that no other node reaches."""
        return [entry for entry in self.entries if isinstance(entry, NodePool)]


class Fleet:
    """Nodes, pools and the devices that claims hold.

    Attributes:
        members: the nodes by name.
        classes: the classes of equal nodes.
        ledger: the usage index.
        shared_version: changes if a shared pool changes, or if one of its devices is taken or released.
    """

    def __init__(self, features: Features, *, skips_devices: bool) -> None:
        self.members: dict[str, FleetNode] = {}
        self.classes = Classes()
        self.ledger = UsageIndex()
        self.shared_version = 0
        self._features = features
        self._skips_devices = skips_devices
        self._workshop = ContentsInterner()
        self._slices: dict[str, tuple[PoolKey, Published]] = {}
        self._of_pool: dict[PoolKey, dict[str, Published]] = {}
        self._home: dict[PoolKey, str] = {}
        self._own: dict[str, dict[PoolKey, NodePool]] = {}
        self._shared: dict[PoolKey, PublishedPool] = {}
        self._sights: dict[Hashable, SharedPool] = {}
        self._blueprints: dict[Hashable, Blueprint] = {}
        self._names: dict[Hashable, PoolNames] = {}
        self._stocks: dict[Hashable, NodeSignature] = {}
        self._reading = ReadAttributes()
        self._changed_pools: set[PoolKey] = set()
        self._touched: dict[PoolKey, set[str]] = {}
        self._new_stock: set[str] = set()
        self._new_state: set[str] = set()
        self._tells_holders_apart = False

    # --- events --------------------------------------------------------------------------------

    def put_node(self, node: AllocationNode) -> None:
        """Add or replace a node."""
        member = self.members.get(node.name)
        if member is None:
            self.members[node.name] = FleetNode(node, self._own.setdefault(node.name, {}))
        elif member.node == node:
            return
        else:
            member.node = node
        self._new_stock.add(node.name)

    def remove_node(self, name: str) -> None:
        """Remove a node."""
        member = self.members.pop(name, None)
        if member is not None and member.alike is not None:
            self.classes.leave(name, member.alike)

    def put_slice(self, source: ResourceSlice) -> None:
        """Add or replace a slice."""
        name, spec = source.metadata.name, source.spec
        key = spec.driver, spec.pool.name
        known = self._slices.get(name)
        if known is not None and known[0] != key:
            self.remove_slice(name)
        own = bool(spec.node_name) and not spec.per_device_node_selection
        published = self._workshop.contents(source) if own else source
        self._slices[name] = key, published
        self._of_pool.setdefault(key, {})[name] = published
        self._changed_pools.add(key)

    def remove_slice(self, name: str) -> None:
        """Remove a slice."""
        key, _ = self._slices.pop(name, (None, None))
        if key is not None:
            del self._of_pool[key][name]
            self._changed_pools.add(key)

    def put_claim(self, claim: ResourceClaim) -> None:
        """Add or replace a claim."""
        self._touch(self.ledger.put(claim))

    def remove_claim(self, ref: str) -> None:
        """Remove a claim."""
        self._touch(self.ledger.remove(ref))

    def _touch(self, touched: Touched) -> None:
        for key, devices in touched.items():
            self._touched.setdefault(key, set()).update(devices)

    def read(self, attributes: frozenset[str] | None) -> None:
        """Note that some selector reads these attributes (names without domains); None means any attribute."""
        if self._reading.add(attributes):
            self._new_stock.update(self.members)

    def tell_holders_apart(self) -> None:
        """Distinguish nodes by their held devices from now on.

        This is needed once a selector fails on some device: selectors are not evaluated on held devices, so it
        matters which devices are held.
        """
        if not self._tells_holders_apart:
            self._tells_holders_apart = True
            self._new_state.update(self.members)

    # --- processing ----------------------------------------------------------------------------

    @property
    def settled(self) -> bool:
        """Return whether there is nothing to update."""
        return not (self._changed_pools or self._touched or self._new_stock or self._new_state)

    def settle(self) -> None:
        """Process all recorded changes."""
        if self._workshop.size > _PARTS + _PARTS_PER_SLICE * len(self._slices):
            self._forget()
        if self._changed_pools:
            self._rebuild_pools()
        for key, devices in self._touched.items():
            self._update_pool(key, devices)
        self._touched.clear()
        for name in self._new_stock:
            if name in self.members:
                self._restock(self.members[name])
        self._new_state -= self._new_stock
        self._new_stock.clear()
        for name in self._new_state:
            if name in self.members:
                self._classify(self.members[name])
        self._new_state.clear()

    def _forget(self) -> None:
        """Forget parts of slices that changed long ago. The only effect is that fewer parts are shared."""
        self._workshop.forget()
        self._blueprints.clear()
        self._names.clear()
        self._stocks.clear()

    def _rebuild_pools(self) -> None:
        shared_before = dict(self._shared)
        for key in self._changed_pools:
            self._touched.pop(key, None)
            self._forget_pool(key)
            members = list(self._of_pool.get(key, {}).values())
            if not members:
                continue
            homes = {
                each.source.spec.node_name if isinstance(each, SliceContents) else None for each in members
            }
            home = homes.pop()
            if homes or home is None:
                self._shared[key] = PublishedPool([_source(each) for each in members])
            else:
                self._add_own(key, home, [each for each in members if isinstance(each, SliceContents)])
        self._changed_pools.clear()
        if shared_before or self._shared:
            self._share_anew()

    def _share_anew(self) -> None:
        self.shared_version += 1
        self._sights.clear()
        self._stocks.clear()
        self._reading.shared = {
            qualify(name, driver)
            for (driver, _), pool in self._shared.items()
            for source in pool.slices
            for device in source.spec.devices
            for name in device.attributes
        }
        self._new_stock.update(self.members)

    def _forget_pool(self, key: PoolKey) -> None:
        self._shared.pop(key, None)
        home = self._home.pop(key, None)
        if home is not None:
            del self._own[home][key]
            self._new_stock.add(home)

    def _add_own(self, key: PoolKey, home: str, members: Sequence[SliceContents]) -> None:
        sources, home_node = [each.source for each in members], AllocationNode(home)
        gathered = gather_slices(sources, home_node, self._features, skips_devices=self._skips_devices)
        assert gathered is not None  # noqa: S101 - all slices of an own pool name its node
        counted = set(map(id, gathered.counted))
        members = sorted(
            (each for each in members if id(each.source) in counted), key=lambda each: each.source.metadata.name
        )
        sets: dict[str, int] = {}
        parts = tuple(
            (each.key, tuple([sets.setdefault(name, len(sets)) for name in each.sets])) for each in members
        )
        called = self._called(tuple([name for each in members for name in each.devices]), tuple(sets))
        proper = (
            all(each.proper for each in members)
            and len(called.number) == len(called.devices)
            and names.pool_name(key[1]) is None
        )
        kind = key[0], gathered.problem, parts, None if proper else (key[1], called.devices, called.sets)
        slices = [each.source for each in members]
        blueprint = self._blueprints.get(kind)
        if blueprint is None:
            seen = PoolOnNode.of(gathered, PoolView(slices), self._features)
            number = self._workshop.number(("blueprint", kind))
            blueprint = self._blueprints[kind] = Blueprint(number, seen, called.sets, self._features)
        pool = NodePool(key, blueprint, called, tuple(each.attributes for each in members), slices)
        held = self.ledger.held_in(key)
        if held:
            pool.update((name, self.ledger.device(key, name)) for name in held)
        self._home[key] = home
        self._own.setdefault(home, {})[key] = pool
        self._new_stock.add(home)

    def _called(self, devices: tuple[str, ...], sets: tuple[str, ...]) -> PoolNames:
        known = self._names.get((devices, sets))
        if known is None:
            known = self._names[devices, sets] = PoolNames(devices, sets)
        return known

    def _update_pool(self, key: PoolKey, devices: Iterable[str]) -> None:
        home = self._home.get(key)
        if home is not None:
            self._own[home][key].update((name, self.ledger.device(key, name)) for name in devices)
            self._new_state.add(home)
        elif key in self._shared:
            self.shared_version += 1

    def _restock(self, member: FleetNode) -> None:
        member.entries = entries_of(member.own.values(), self._sees(member.node))
        key = member.node.declared_features, key_of(member.entries, self._reading, self._workshop.number)
        stock = self._stocks.get(key)
        if stock is None:
            stock = self._stocks[key] = NodeSignature(self._workshop.number(("stock", key)), member.entries)
        member.stock = stock
        self._classify(member)

    def _sees(self, node: AllocationNode) -> Iterable[SharedPool]:
        for key, pool in self._shared.items():
            seen = pool.on(node, self._features, skips_devices=self._skips_devices)
            if seen is None:
                continue
            # A node that reaches a slice does not reach each of its devices (KEP-4815, per-device node
            # selection).
            reached = tuple(device_on_node(device.device, device.source, node) for device in seen.devices)
            ids = key, id(seen.view), seen.problem, tuple(map(id, seen.devices)), reached
            sight = self._sights.get(ids)
            if sight is None:
                late = any(device.device.binding_conditions for device in seen.devices)
                number = self._workshop.number((self.shared_version, ids))
                sight = self._sights[ids] = SharedPool(number, seen, late)
            yield sight

    def _classify(self, member: FleetNode) -> None:
        assert member.stock is not None  # noqa: S101 - who has none is restocked first
        pools = member.own_entries
        held = tuple([pool.held for pool in pools]) if self._tells_holders_apart else None
        key = member.stock.number, tuple([pool.state for pool in pools]), held
        name = member.node.name
        if member.alike is not None:
            self.classes.leave(name, member.alike)
        member.alike = self.classes.join(name, key, member.stock)


def _source(published: Published) -> ResourceSlice:
    return published.source if isinstance(published, SliceContents) else published
