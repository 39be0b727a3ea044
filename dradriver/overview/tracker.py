"""Keeps an overview current while objects change. Only the pools and nodes that changed are computed again."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from types import MappingProxyType
from typing import Final

from dradriver.allocator import InUse
from dradriver.allocator.supply.devices_in_use import PoolKey
from dradriver.model.core.workload import Node, Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.slices import ResourceSlice
from dradriver.model.resource.taint_rule import DeviceTaintRule, DeviceTaintSelector
from dradriver.overview.cards import PoolFacts
from dradriver.overview.changes import describe_claim, describe_node, describe_pool, is_ready
from dradriver.overview.claim_index import ClaimIndex
from dradriver.overview.counters.counter_use import pods_of_claim
from dradriver.overview.node_labels import NodeLabels
from dradriver.overview.pool_reach import find_reach
from dradriver.overview.tracked_pool import TrackedPool, form_pool
from dradriver.overview.update import OverviewUpdate
from dradriver.overview.values import NodeOverview, Overview, PoolProblem, Reach, RecentChange

__all__ = ["OverviewTracker"]

_MAX_CHANGES: Final = 200
_CHANGES_KEPT: Final = timedelta(minutes=15)


@dataclass(slots=True)
class _Dirty:
    """What must be computed again. Dicts keep the order of the changes."""

    pools: dict[PoolKey, None] = field(default_factory=dict)
    views: set[PoolKey] = field(default_factory=set)
    reaches: dict[PoolKey, None] = field(default_factory=dict)
    nodes: dict[str, None] = field(default_factory=dict)


class OverviewTracker:
    """An overview that follows changes of objects.

    The `apply_` methods accept the arguments `old` and `new` of a change in a cache: `old` is None for an added
    object, `new` is None for a deleted object. They only note what changed. `update` computes it. What is
    applied before the first update is not reported in `Overview.changes`.
    """

    def __init__(self) -> None:
        self._slices: dict[PoolKey, dict[str, ResourceSlice]] = {}
        self._rules: dict[str, DeviceTaintRule] = {}
        self._claims = ClaimIndex()
        self._nodes: dict[str, Node] = {}
        self._node_labels = NodeLabels()
        self._pools: dict[PoolKey, TrackedPool] = {}
        self._pools_of_node: dict[str, set[PoolKey]] = {}
        self._overviews: dict[str, NodeOverview] = {}
        self._reaches: dict[PoolKey, Reach] = {}
        self._problems: dict[PoolKey, PoolProblem] = {}
        self._have_problems_changed = False
        self._dirty = _Dirty()
        self._claim_changes: list[tuple[ResourceClaim | None, ResourceClaim | None]] = []
        self._was_ready: dict[str, bool | None] = {}
        self._changes: deque[RecentChange] = deque(maxlen=_MAX_CHANGES)
        self._is_started = False
        self._overview: Overview | None = None

    @property
    def overview(self) -> Overview:
        """Return the overview at the last update. `nodes` is a live view, which later updates change."""
        if self._overview is None:
            self._overview = Overview(
                MappingProxyType(self._overviews),
                tuple(self._reaches.values()),
                self._claims.waiting,
                tuple(self._problems[key] for key in sorted(self._problems)),
                tuple(reversed(self._changes)),
            )
        return self._overview

    def apply_slice(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        """Apply a change of a ResourceSlice.

        Args:
            old: the object before the change; None if it was added.
            new: the object after the change; None if it was deleted.
        """
        for source, is_present in ((old, False), (new, True)):
            if source is None:
                continue
            key = source.spec.driver, source.spec.pool.name
            if is_present:
                self._slices.setdefault(key, {})[source.metadata.name] = source
            elif key in self._slices:
                self._slices[key].pop(source.metadata.name, None)
                if not self._slices[key]:
                    del self._slices[key]
            self._dirty.pools[key] = None
            self._dirty.views.add(key)

    def apply_claim(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """Apply a change of a ResourceClaim.

        Args:
            old: the object before the change; None if it was added.
            new: the object after the change; None if it was deleted.
        """
        self._dirty.pools |= dict.fromkeys(self._claims.apply_claim(old, new))
        if self._is_started:
            self._claim_changes.append((old, new))

    def apply_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Apply a change of a Pod.

        Args:
            old: the object before the change; None if it was added.
            new: the object after the change; None if it was deleted.
        """
        self._dirty.pools |= dict.fromkeys(self._claims.apply_pod(old, new))

    def apply_node(self, old: Node | None, new: Node | None) -> None:
        """Apply a change of a Node.

        Args:
            old: the object before the change; None if it was added.
            new: the object after the change; None if it was deleted.
        """
        for node in (old, new):
            if node is not None:
                self._dirty.nodes[node.metadata.name] = None
        had_nodes = bool(self._nodes)
        labels_changed = False
        if old is not None and (new is None or new.metadata.name != old.metadata.name):
            self._note_readiness(old.metadata.name)
            self._nodes.pop(old.metadata.name, None)
            self._node_labels.remove(old.metadata.name)
            labels_changed = True
        if new is not None:
            self._note_readiness(new.metadata.name)
            self._nodes[new.metadata.name] = new
            labels_changed |= self._node_labels.put(new.metadata.name, new.metadata.labels)
        if labels_changed:
            self._dirty.reaches |= dict.fromkeys(self._reaches)
        if had_nodes != bool(self._nodes):
            self._dirty.nodes |= dict.fromkeys(self._pools_of_node)

    def apply_rule(self, old: DeviceTaintRule | None, new: DeviceTaintRule | None) -> None:
        """Apply a change of a DeviceTaintRule.

        Args:
            old: the object before the change; None if it was added.
            new: the object after the change; None if it was deleted.
        """
        for rule in (old, new):
            if rule is None:
                continue
            self._rules.pop(rule.metadata.name, None)
            selector = rule.spec.device_selector or DeviceTaintSelector()
            for key in self._slices:
                if selector.driver in {None, key[0]} and selector.pool in {None, key[1]}:
                    self._dirty.pools[key] = None
                    self._dirty.views.add(key)
        if new is not None:
            self._rules[new.metadata.name] = new
            self._rules = dict(sorted(self._rules.items()))

    def update(self, now: datetime, max_pools: int | None = None) -> OverviewUpdate:
        """Compute what has changed.

        Args:
            now: the present time.
            max_pools: compute at most so many pools, so that a large load can be divided; None: all. The result
                reports whether changes are left for another update.

        Returns:
            What changed in `overview`.
        """
        changes: list[RecentChange] = []
        for key in list(islice(self._dirty.pools, max_pools)):
            del self._dirty.pools[key]
            changes += self._update_pool(key, now)
        if self._is_started:
            changes += self._describe(now)
        is_complete = not self._dirty.pools
        update = OverviewUpdate(
            self._update_nodes(),
            self._update_reaches(),
            self._claims.update_waiting(),
            self._have_problems_changed,
            tuple(changes),
            is_complete,
        )
        self._have_problems_changed = False
        self._is_started = self._is_started or is_complete
        self._keep_changes(now, changes)
        if update:
            self._overview = None
        return update

    def _update_pool(self, key: PoolKey, now: datetime) -> Iterable[RecentChange]:
        old, slices = self._pools.pop(key, None), self._slices.get(key)
        new = None
        if slices is not None:
            if old is None or key in self._dirty.views:
                new = form_pool(list(slices.values()), self._rules.values())
            else:
                new = old
            new = self._pools[key] = new.with_facts(self._facts(key))
        self._dirty.views.discard(key)
        for state in (old, new):
            if state is not None and state.node is not None:
                self._dirty.nodes[state.node] = None
            elif state is not None:
                self._dirty.reaches[key] = None
        if old is not None and old.node is not None:
            self._pools_of_node[old.node].discard(key)
        if new is not None and new.node is not None:
            self._pools_of_node.setdefault(new.node, set()).add(key)
        problem = new.problem if new is not None else None
        if self._problems.get(key) != problem:
            self._have_problems_changed = True
            if problem is None:
                del self._problems[key]
            else:
                self._problems[key] = problem
        return describe_pool(now, old, new) if self._is_started else ()

    def _facts(self, key: PoolKey) -> PoolFacts:
        claims = self._claims.claims_of(key)
        if not claims:
            return PoolFacts()
        use = InUse.of(claims).pool(key)
        pods = {claim.ref: pods_of_claim(claim) for claim in claims}
        return PoolFacts(use, pods, self._claims.health(key, claims))

    def _update_nodes(self) -> frozenset[str]:
        changed, was_added = set(), False
        for name in self._dirty.nodes:
            keys = self._pools_of_node.get(name)
            before = self._overviews.get(name)
            if not keys:
                self._pools_of_node.pop(name, None)
                if self._overviews.pop(name, None) is not None:
                    changed.add(name)
                continue
            cards = tuple(card for key in sorted(keys) for card in self._pools[key].cards)
            node = self._nodes.get(name)
            labels = node.metadata.labels if node is not None else {}
            after = NodeOverview(name, self._counts_as_ready(name), cards, labels)
            if before is None or before != after:
                self._overviews[name] = after
                changed.add(name)
                was_added = was_added or before is None
        self._dirty.nodes = {}
        if was_added:
            self._overviews = dict(sorted(self._overviews.items()))
        return frozenset(changed)

    def _update_reaches(self) -> frozenset[PoolKey]:
        changed = set()
        for key in self._dirty.reaches:
            state = self._pools.get(key)
            before = self._reaches.pop(key, None)
            if state is None or state.node is not None:
                if before is not None:
                    changed.add(key)
                continue
            reach = find_reach(state.view.slices, self._node_labels)
            after = Reach(*key, reach.nodes, reach.is_everywhere, state.cards, reach.device_nodes)
            self._reaches[key] = after
            if before != after:
                changed.add(key)
        if self._dirty.reaches:
            self._reaches = dict(sorted(self._reaches.items()))
            self._dirty.reaches = {}
        return frozenset(changed)

    def _counts_as_ready(self, name: str) -> bool:
        """Return whether a node is ready. If no node is known, the user may not list nodes."""
        return not self._nodes or is_ready(self._nodes.get(name)) is True

    def _note_readiness(self, name: str) -> None:
        """Keep the readiness that a node had at the last update."""
        if self._is_started and name not in self._was_ready:
            self._was_ready[name] = is_ready(self._nodes.get(name))

    def _describe(self, now: datetime) -> Iterable[RecentChange]:
        for old, new in self._claim_changes:
            yield from describe_claim(now, old, new, self._find_node)
        for name, was_ready in self._was_ready.items():
            if name in self._pools_of_node or name in self._overviews:
                now_ready = is_ready(self._nodes.get(name))
                yield from describe_node(now, name, was_ready=was_ready, is_ready=now_ready)
        self._claim_changes, self._was_ready = [], {}

    def _find_node(self, key: PoolKey) -> str:
        state = self._pools.get(key)
        return (state.node or "") if state is not None else ""

    def _keep_changes(self, now: datetime, changes: Iterable[RecentChange]) -> None:
        self._changes.extend(changes)
        while self._changes and now - self._changes[0].at > _CHANGES_KEPT:
            self._changes.popleft()
            self._overview = None
