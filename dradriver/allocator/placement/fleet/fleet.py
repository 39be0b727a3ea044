"""The nodes of a cluster and their devices, updated by events.

An event only records which objects it affects, except that a new pool of one node is built when its last slice
arrives. `update_all` processes these records before the next placement. A pool is rebuilt if one of its slices
changed. A pool is updated if a claim took or released one of its devices. All other pools and nodes are not
read. The journal lists the nodes whose devices changed, so that each lens can put these nodes into other
classes.

If all slices of a pool name one node, the pool belongs to that node. All other pools are shared
(`shared_pools`).
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final

from dradriver.allocator.features import Features
from dradriver.allocator.placement.fleet.blueprint import Blueprint
from dradriver.allocator.placement.fleet.columns import ValuePatterns
from dradriver.allocator.placement.fleet.contents import ContentsInterner, SliceContents
from dradriver.allocator.placement.fleet.pools import Entry, HeldPool, PoolNames, Sight
from dradriver.allocator.placement.fleet.sections import SectionBuilder
from dradriver.allocator.placement.fleet.shared_pools import NodeIndex, Outlook, SharedPool
from dradriver.allocator.placement.fleet.usage_index import UsageIndex
from dradriver.allocator.supply.devices_in_use import PoolKey
from dradriver.allocator.supply.nodes import AllocationNode
from dradriver.allocator.supply.pools import GatheredSlices, PoolView, gather_slices
from dradriver.model import names
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.slices import ResourceSlice

__all__ = ["Fleet", "FleetNode"]

_MAX_PARTS: Final = 200_000
_MAX_PARTS_PER_SLICE: Final = 200
"""Maximum number of stored parts per slice. If there are more, some are no longer used by any slice."""
_MAX_JOURNAL: Final = 50_000
_MAX_OLD_OUTLOOKS: Final = 256

NO_OUTLOOK: Final = Outlook(0, ())


@dataclass(slots=True, eq=False)
class FleetNode:
    """A node of the cluster.

    Attributes:
        node: the node.
        own_pools: the pools that only this node reaches.
        sights: the pools that other nodes reach too.
        entries: both, in the order in which they are tried.
        outlook: the sights together.
        content: a number that changes whenever `entries` or `node` changes.
    """

    node: AllocationNode
    own_pools: dict[PoolKey, HeldPool] = field(default_factory=dict)
    sights: dict[PoolKey, Sight] = field(default_factory=dict)
    entries: Sequence[Entry] = ()
    outlook: Outlook = NO_OUTLOOK
    content: int = 0


class Fleet:
    """Nodes, pools and the devices that claims hold.

    Attributes:
        members: the nodes by name.
        usage: the usage index.
        journal: the names of the nodes whose own pools changed, whose sights changed, or which were added or
            removed, in the order of the changes.
        epoch: a number that changes when the journal is restarted. Each reader must then read all nodes.
        shared_attributes: the names, without domains, of the attributes of devices that several nodes reach.
        patterns: the patterns of equal values of attributes.
    """

    def __init__(self, features: Features, *, skips_devices: bool) -> None:
        self.members: dict[str, FleetNode] = {}
        self.usage = UsageIndex()
        self.journal: list[str] = []
        self.epoch = 0
        self.shared_attributes: frozenset[str] = frozenset()
        self.patterns = ValuePatterns()
        self._features = features
        self._skips_devices = skips_devices
        self._interner = ContentsInterner()
        self._sections = SectionBuilder()
        self._index = NodeIndex()
        self._slices: dict[str, tuple[PoolKey, SliceContents]] = {}
        self._unserved: Mapping[PoolKey, str] = {}
        self._slices_of_pool: dict[PoolKey, dict[str, SliceContents]] = {}
        self._node_of_pool: dict[PoolKey, str] = {}
        self._own_pools: dict[str, dict[PoolKey, HeldPool]] = {}
        self._shared_pools: dict[PoolKey, SharedPool] = {}
        self._blueprints: dict[Hashable, Blueprint] = {}
        self._names: dict[Hashable, PoolNames] = {}
        self._outlooks: dict[tuple[int, ...], Outlook] = {(): NO_OUTLOOK}
        self._numbers = count(1)
        self._changed_pools: set[PoolKey] = set()
        self._changed_nodes: set[str] = set()
        self._stale_entries: set[str] = set()

    # --- events --------------------------------------------------------------------------------

    def put_node(self, node: AllocationNode) -> None:
        """Add or replace a node."""
        member = self.members.get(node.name)
        if member is None:
            self.members[node.name] = FleetNode(node, self._own_pools.setdefault(node.name, {}))
        elif member.node == node:
            return
        else:
            member.node = node
        self._index.put(node)
        self._changed_nodes.add(node.name)

    def remove_node(self, name: str) -> None:
        """Remove a node."""
        if self.members.pop(name, None) is not None:
            self._index.remove(name)
            self._changed_nodes.add(name)

    def put_slice(self, source: ResourceSlice) -> None:
        """Add or replace a slice."""
        name, spec = source.metadata.name, source.spec
        key = spec.driver, spec.pool.name
        known = self._slices.get(name)
        if known is not None and known[1].source == source:
            return
        if known is not None and known[0] != key:
            self.remove_slice(name)
        contents = self._interner.contents(source)
        self._slices[name] = key, contents
        members = self._slices_of_pool.setdefault(key, {})
        members[name] = contents
        self._changed_pools.add(key)
        if len(members) == spec.pool.resource_slice_count:
            self._build_new(key, list(members.values()))

    def _build_new(self, key: PoolKey, members: Sequence[SliceContents]) -> None:
        """Build a pool that is new and belongs to one node. The next placement then has less to process."""
        if key not in self._node_of_pool and key not in self._shared_pools:
            node_name = _find_only_node(members)
            if node_name is not None:
                self._changed_pools.discard(key)
                self._add_own(key, node_name, members)

    def remove_slice(self, name: str) -> None:
        """Remove a slice."""
        key, _ = self._slices.pop(name, (None, None))
        if key is not None:
            members = self._slices_of_pool[key]
            del members[name]
            if not members:
                del self._slices_of_pool[key]
            self._changed_pools.add(key)

    def set_unserved(self, pools: Mapping[PoolKey, str]) -> None:
        """Replace the pools from which no device is allocated, with the reasons."""
        before, self._unserved = self._unserved, dict(pools)
        self._changed_pools.update(key for key, _ in before.items() ^ self._unserved.items())

    def put_claim(self, claim: ResourceClaim) -> None:
        """Add or replace a claim."""
        self.usage.put(claim)

    def remove_claim(self, ref: str) -> None:
        """Remove a claim."""
        self.usage.remove(ref)

    # --- processing ----------------------------------------------------------------------------

    def update_all(self) -> None:
        """Process all recorded changes."""
        if self._changed_pools or self._changed_nodes:
            if self._interner.size > _MAX_PARTS + _MAX_PARTS_PER_SLICE * len(self._slices):
                self._clear_parts()
            self._rebuild_pools()
        for key, devices in self.usage.changed.items():
            self._update_pool(key, devices)
        self.usage.changed.clear()
        for name in self._stale_entries:
            if name in self.members:
                self._update_entries(self.members[name])
            self._report(name)
        self._stale_entries.clear()

    def read_changes(self, position: tuple[int, int], known: Iterable[str]) -> Iterable[str]:
        """Return the names of the nodes that changed since a position of the journal.

        Args:
            position: epoch and length of the journal when it was last read.
            known: the nodes that the reader knows. They are returned too if the journal was restarted.
        """
        epoch, start = position
        if epoch != self.epoch:
            return dict.fromkeys((*known, *self.members))
        return dict.fromkeys(self.journal[start:])

    def _report(self, name: str) -> None:
        if len(self.journal) >= _MAX_JOURNAL:
            self.journal.clear()
            self.epoch += 1
        self.journal.append(name)

    def _clear_parts(self) -> None:
        """Forget the stored parts of slices. The only effect is that equal parts may be stored twice."""
        self._interner.clear()
        self._sections.clear()
        self._blueprints.clear()
        self._names.clear()

    def _rebuild_pools(self) -> None:
        changed_shared: set[PoolKey] = set()
        for key in self._changed_pools:
            self.usage.changed.pop(key, None)
            if self._shared_pools.pop(key, None) is not None:
                changed_shared.add(key)
            self._remove_own(key)
            members = list(self._slices_of_pool.get(key, {}).values())
            if not members:
                continue
            node_name = _find_only_node(members)
            if node_name is not None:
                self._add_own(key, node_name, members)
            else:
                self._add_shared(key, members)
                changed_shared.add(key)
        self._changed_pools.clear()
        self._see_shared_pools(changed_shared)
        self._stale_entries |= self._changed_nodes
        self._changed_nodes.clear()

    def _see_shared_pools(self, changed: set[PoolKey]) -> None:
        """Find out which shared pools the nodes see. The given pools and `_changed_nodes` have changed."""
        for key in changed - self._shared_pools.keys():
            for name, member in self.members.items():
                if member.sights.pop(key, None) is not None:
                    self._stale_entries.add(name)
        for key, pool in self._shared_pools.items():
            is_changed = key in changed
            if is_changed or self._changed_nodes:
                pool.find_nodes(self._index)
            for name in self.members if is_changed else self._changed_nodes & self.members.keys():
                member = self.members[name]
                sight, before = pool.see(member.node), member.sights.get(key)
                if sight is before:
                    continue
                if sight is None:
                    del member.sights[key]
                else:
                    member.sights[key] = sight
                self._stale_entries.add(name)
        if changed:
            self.shared_attributes = frozenset(
                name.rpartition("/")[2]
                for pool in self._shared_pools.values()
                for source in pool.slices
                for device in source.spec.devices
                for name in device.attributes
            )

    def _remove_own(self, key: PoolKey) -> None:
        node_name = self._node_of_pool.pop(key, None)
        if node_name is not None:
            del self._own_pools[node_name][key]
            self._stale_entries.add(node_name)

    def _add_own(self, key: PoolKey, node_name: str, members: Sequence[SliceContents]) -> None:
        sources, node = [each.source for each in members], AllocationNode(node_name)
        gathered = gather_slices(sources, node, self._features, skips_devices=self._skips_devices)
        assert gathered is not None  # noqa: S101 - all slices of an own pool name its node
        self._node_of_pool[key] = node_name
        self._own_pools.setdefault(node_name, {})[key] = self._make_pool(key, gathered, members, None)
        self._stale_entries.add(node_name)

    def _add_shared(self, key: PoolKey, members: Sequence[SliceContents]) -> None:
        views: dict[Hashable, PoolView] = {}

        def make_pool(gathered: GatheredSlices) -> HeldPool:
            counted = frozenset(map(id, gathered.counted))
            if counted not in views:
                views[counted] = PoolView(gathered.counted)
            return self._make_pool(key, gathered, members, views[counted])

        self._shared_pools[key] = SharedPool(
            [each.source for each in members],
            self._features,
            skips_devices=self._skips_devices,
            make_pool=make_pool,
            make_sight=lambda pool, reach: Sight(next(self._numbers), pool, reach),
        )

    def _make_pool(
        self, key: PoolKey, gathered: GatheredSlices, members: Sequence[SliceContents], shared: PoolView | None
    ) -> HeldPool:
        """Return the pool of these slices.

        Args:
            key: driver and pool name.
            gathered: the slices that count.
            members: the contents of all slices of the pool.
            shared: the view of the slices if several nodes reach them. Such a pool gets its own blueprint.
        """
        if key in self._unserved:
            gathered = replace(gathered, problem=f"not served: {self._unserved[key]}")
        counted = set(map(id, gathered.counted))
        members = sorted(
            (each for each in members if id(each.source) in counted), key=lambda each: each.source.metadata.name
        )
        sets: dict[str, int] = {}
        parts = tuple(
            [(each.key, tuple([sets.setdefault(name, len(sets)) for name in each.sets])) for each in members]
        )
        pool_names = self._intern_names(tuple([name for each in members for name in each.devices]), tuple(sets))
        if shared is not None:
            number = self._interner.number(("shared blueprint", next(self._numbers)))
            blueprint = self._compile(number, gathered, members, pool_names.sets, shared)
        else:
            blueprint = self._find_blueprint(key, gathered, members, parts, pool_names)
        columns = self._interner.columns.of_pool([(each.columns, len(each.devices)) for each in members])
        pool = HeldPool(key, blueprint, pool_names, members, columns)
        held = self.usage.held_in(key)
        if held:
            pool.update((name, self.usage.device(key, name)) for name in held)
        return pool

    def _find_blueprint(
        self,
        key: PoolKey,
        gathered: GatheredSlices,
        members: Sequence[SliceContents],
        parts: Hashable,
        pool_names: PoolNames,
    ) -> Blueprint:
        has_valid_names = (
            all(each.has_valid_names for each in members)
            and len(pool_names.number) == len(pool_names.devices)
            and names.pool_name(key[1]) is None
        )
        own_names = None if has_valid_names else (key[1], pool_names.devices, pool_names.sets)
        kind = key[0], gathered.problem, parts, own_names
        blueprint = self._blueprints.get(kind)
        if blueprint is None:
            view = None
            if has_valid_names and all(each.is_valid for each in members):
                view = PoolView([each.source for each in members], is_valid=True)
            number = self._interner.number(("blueprint", kind))
            blueprint = self._blueprints[kind] = self._compile(number, gathered, members, pool_names.sets, view)
        return blueprint

    def _compile(
        self,
        number: int,
        gathered: GatheredSlices,
        members: Sequence[SliceContents],
        sets: Sequence[str],
        view: PoolView | None,
    ) -> Blueprint:
        """Return the blueprint of a pool.

        Args:
            number: its number.
            gathered: the slices that count.
            members: their contents.
            sets: the names of the counter sets.
            view: the view of the slices. None: they may break a rule, which is checked here.
        """
        sources = [each.source for each in members]
        view = view or PoolView(sources)
        division = None if view.invalid else self._sections.divide(members, sets, view)
        if division is None and not view.invalid:
            view = PoolView(sources)  # a device consumes a counter that the pool lacks
        return Blueprint(number, view, gathered, members, division, sets, self._features)

    def _intern_names(self, devices: tuple[str, ...], sets: tuple[str, ...]) -> PoolNames:
        known = self._names.get((devices, sets))
        if known is None:
            known = self._names[devices, sets] = PoolNames(devices, sets)
        return known

    def _update_pool(self, key: PoolKey, devices: Iterable[str]) -> None:
        node_name = self._node_of_pool.get(key)
        if node_name is not None:
            self._own_pools[node_name][key].update([(name, self.usage.device(key, name)) for name in devices])
            self._report(node_name)
        elif key in self._shared_pools:
            uses = [(name, self.usage.device(key, name)) for name in devices]
            for pool in self._shared_pools[key].held_pools:
                pool.update(uses)

    def _update_entries(self, member: FleetNode) -> None:
        sights = sorted(member.sights.values(), key=_order)
        numbers = tuple([sight.number for sight in sights])
        outlook = self._outlooks.get(numbers)
        if outlook is None:
            if len(self._outlooks) > 2 * len(self.members) + _MAX_OLD_OUTLOOKS:
                in_use = [each.outlook for each in self.members.values()]
                self._outlooks = {tuple([sight.number for sight in each.sights]): each for each in in_use}
                self._outlooks[()] = NO_OUTLOOK
            outlook = self._outlooks[numbers] = Outlook(next(self._numbers), tuple(sights))
        member.outlook = outlook
        member.entries = sorted((*member.own_pools.values(), *sights), key=_order)
        member.content = next(self._numbers)


def _order(entry: Entry) -> tuple[bool, PoolKey]:
    """Return the sort key of Kubernetes: pools with binding conditions come last."""
    return entry.blueprint.is_binding, entry.key


def _find_only_node(members: Iterable[SliceContents]) -> str | None:
    """Return the only node that reaches these slices; None if several nodes may reach them."""
    found = {
        each.source.spec.node_name if not each.source.spec.per_device_node_selection else None
        for each in members
    }
    return found.pop() if len(found) == 1 else None
