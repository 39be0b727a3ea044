"""Finds the devices of a pool that can serve a request, as bits, whatever devices are held.

The result equals that of `search.candidates` on an unused pool. A selector is evaluated once for each group of
devices that it cannot distinguish, and each part of the result is stored under what it depends on:

- The part without selectors depends on the blueprint.
- The part of a selector depends on the blueprint and on the values of the attributes that the selector reads.
- The verdict of a selector on one device depends on the kind of the device and on these values.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from dataclasses import replace as replace_fields
from functools import partial
from typing import Final, NamedTuple

from msgspec.structs import replace

from dradriver.allocator.features import Features
from dradriver.allocator.meter import SELECTORS, Meter
from dradriver.allocator.placement.fleet.blueprint import Blueprint
from dradriver.allocator.placement.fleet.pools import Entry, HeldPool, Sight
from dradriver.allocator.request.cel_selectors import selector_view
from dradriver.allocator.request.selectors import Matcher, SelectorProvider
from dradriver.allocator.request.subrequests import PreparedSelector, Subrequest
from dradriver.allocator.search.candidates import CandidateFilter
from dradriver.allocator.search.state import SearchState
from dradriver.allocator.supply.devices_in_use import PoolUse
from dradriver.allocator.supply.node_supply import Supply
from dradriver.allocator.supply.nodes import AllocationNode
from dradriver.allocator.supply.pools import PooledDevice, PoolOnNode
from dradriver.cel import Comparison, Conjunct
from dradriver.cel.evaluate.errors import EvaluationError
from dradriver.model.resource.slices import ResourceSlice

__all__ = ["CandidateMasks", "Masks"]

_MAX_KNOWN: Final = 200_000
_MAX_GROUPS: Final = 20_000
_MAX_PREPARED: Final = 1000
_LOOKUP_STEPS: Final = 3
"""Steps that take as long as it takes to look up the devices that match a selector."""
_DEVICES_PER_STEP: Final = 3
"""Devices whose values of one attribute are read in one step."""
_BASE_STEPS: Final = 60
"""Steps that take as long as the preparation of a device for a selector."""


class Masks(NamedTuple):
    """Devices of one pool as bits.

    Attributes:
        matching: the devices that can serve the request, or that match the selector.
        faulty: the devices on which a selector or the computation of an amount fails.
    """

    matching: int
    faulty: int


_NONE: Final = Masks(0, 0)


@dataclass
class CandidateMasks:
    """Finds candidates and stores the results.

    Attributes:
        features: the enabled features.
        selectors: evaluates selectors.
        meter: counts the work for the pod that is placed now. Any method may raise `BudgetSpentError`.
    """

    features: Features
    selectors: SelectorProvider
    meter: Meter = field(default_factory=Meter)
    _prepared: dict[Subrequest, tuple[Subrequest, object]] = field(default_factory=dict)
    _in_shared: dict[Hashable, Masks] = field(default_factory=dict)
    _bare: dict[Hashable, Masks] = field(default_factory=dict)
    _by_body: dict[Hashable, dict[Hashable, bool | None]] = field(default_factory=dict)
    _selected: dict[Hashable, Masks] = field(default_factory=dict)
    _verdicts: dict[Hashable, bool | None] = field(default_factory=dict)
    _groups: dict[Hashable, dict[tuple[Hashable, ...], int]] = field(default_factory=dict)
    _safe: dict[Hashable, bool] = field(default_factory=dict)

    def find(self, subrequest: Subrequest, entry: Entry, node: AllocationNode) -> Masks:
        """Return the candidates among the devices of a pool that a node reaches.

        Args:
            subrequest: the subrequest.
            entry: the pool.
            node: the node.
        """
        if entry.blueprint.problem is not None or not entry.reached:
            return _NONE
        if not isinstance(entry, Sight):
            return self._find(subrequest, entry, node)
        key = subrequest, entry.blueprint.number, node.declared_features
        masks = self._in_shared.get(key)
        if masks is None:
            if len(self._in_shared) > _MAX_KNOWN:
                self._in_shared.clear()
            masks = self._in_shared[key] = self._find(subrequest, entry.pool, node)
        return Masks(masks.matching & entry.reached, masks.faulty & entry.reached)

    def _find(self, subrequest: Subrequest, pool: HeldPool, node: AllocationNode) -> Masks:
        blueprint = pool.blueprint
        remaining = pool.reached
        if not self.features.binding_conditions:
            remaining &= ~blueprint.binding
        faulty = 0
        for selection in subrequest.selections:
            selected = self.select(selection, pool)
            faulty |= remaining & selected.faulty
            remaining &= selected.matching
            if not remaining:
                break
        if remaining:
            bare = self._find_bare(subrequest, pool, node)
            faulty |= remaining & bare.faulty
            remaining &= bare.matching
        return Masks(remaining, faulty)

    def select(self, selection: PreparedSelector, pool: HeldPool) -> Masks:
        """Return the devices of a pool that match a selector."""
        parts = self.selectors.conjuncts(selection.expression)
        if parts is None or len(parts) == 1:
            reads = self.selectors.reads(selection.expression)
            return self._select(selection.expression, selection.matches, reads, pool)
        remaining = pool.blueprint.every
        for part in parts:
            masks = self._select(part.expression, partial(_match_part, part), part.reads, pool)
            if masks.faulty & remaining:
                break
            remaining &= masks.matching
        else:
            return Masks(remaining, 0)
        # A part fails on a device on which no part before it is false. The whole selector decides.
        reads = self.selectors.reads(selection.expression)
        return self._select(selection.expression, selection.matches, reads, pool)

    def _select(self, expression: str, matches: Matcher, reads: frozenset[str] | None, pool: HeldPool) -> Masks:
        self.meter.spend(SELECTORS, _LOOKUP_STEPS)
        names = None if reads is None else tuple(sorted(reads))
        values_key: Hashable = pool.values
        if names is not None:
            values_key = tuple([pool.column(name).number for name in names])
        key = expression, pool.blueprint.number, values_key
        masks = self._selected.get(key)
        if masks is None:
            if len(self._selected) > _MAX_KNOWN:
                self._selected.clear()
            masks = self._selected[key] = self._evaluate(expression, matches, pool, names, values_key)
        return masks

    def are_safe(self, comparison: Comparison, pool: HeldPool, devices: int) -> bool:
        """Return whether a comparison certainly does not fail on any of these devices of a pool.

        Args:
            comparison: the comparison.
            pool: the pool.
            devices: the devices, as bits.
        """
        names = (comparison.attribute,)
        column = pool.column(comparison.attribute)
        for (kind, value), mask in self._group(pool, names, (column.number,)).items():
            if not mask & devices:
                continue
            # The type of the value decides. A value of several attributes is too rare to be looked at.
            type_name = value[0] if isinstance(value, tuple) and isinstance(value[0], str) else None
            key = comparison.domain, comparison.attribute, comparison.classes, pool.key[0], kind, type_name
            if key not in self._safe:
                device = pool.device((mask & -mask).bit_length() - 1)
                self._safe[key] = type_name is not None and comparison.is_safe(selector_view(device))
            if not self._safe[key]:
                return False
        return True

    def _evaluate(
        self,
        expression: str,
        matches: Matcher,
        pool: HeldPool,
        names: tuple[str, ...] | None,
        values_key: Hashable,
    ) -> Masks:
        matching = faulty = 0
        prefix = expression, pool.key[0]
        verdicts = self._verdicts
        for group, mask in self._group(pool, names, values_key).items():
            key = prefix, group
            if key not in verdicts:
                if len(verdicts) > _MAX_KNOWN:
                    verdicts.clear()
                device = pool.device((mask & -mask).bit_length() - 1)
                verdicts[key] = _matches(matches, device, self.meter)
            verdict = verdicts[key]
            if verdict is None:
                faulty |= mask
            elif verdict:
                matching |= mask
        return Masks(matching, faulty)

    def _group(
        self, pool: HeldPool, names: tuple[str, ...] | None, values_key: Hashable
    ) -> dict[tuple[Hashable, ...], int]:
        """Return the devices that are equal for selectors that read these attributes, as bits by group."""
        key = pool.blueprint.number, names, values_key
        groups = self._groups.get(key)
        if groups is None:
            if names is None:
                names = tuple(sorted(pool.columns))
            self.meter.spend(SELECTORS, pool.blueprint.size * (1 + len(names)) // _DEVICES_PER_STEP)
            if len(self._groups) > _MAX_GROUPS:
                self._groups.clear()
            groups = self._groups[key] = {}
            columns = [pool.column(name).values for name in names]
            for number, device in enumerate(zip(pool.blueprint.kinds, *columns, strict=True)):
                groups[device] = groups.get(device, 0) | 1 << number
        return groups

    def _find_bare(self, subrequest: Subrequest, pool: HeldPool, node: AllocationNode) -> Masks:
        """Return the candidates as if the subrequest had no selectors."""
        prepared = self._prepared.get(subrequest)
        if prepared is None:
            if len(self._prepared) > _MAX_PREPARED:
                self._prepared.clear()
            bare = replace_fields(subrequest, selections=(), count=1, admin=False)
            prepared = self._prepared[subrequest] = bare, bare.kind
        bare, kind = prepared
        key = kind, pool.blueprint.number, node.declared_features
        masks = self._bare.get(key)
        if masks is None:
            if len(self._bare) > _MAX_KNOWN:
                self._bare.clear()
            masks = self._bare[key] = self._find_by_bodies(bare, kind, pool, node)
        return masks

    def _find_by_bodies(self, bare: Subrequest, kind: object, pool: HeldPool, node: AllocationNode) -> Masks:
        """Return the candidates of a subrequest without selectors.

        Apart from the counters, the body of a device decides.
        """
        bodies = pool.blueprint.bodies
        if len(self._by_body) > _MAX_PREPARED:
            self._by_body.clear()
        known = self._by_body.setdefault((kind, node.declared_features), {})
        if len(known) > _MAX_KNOWN:
            known.clear()
        missing = {body: number for number, body in enumerate(bodies) if body not in known}
        if missing:
            known.update(self._check_bodies(bare, pool.blueprint, node, missing))
        matching = faulty = 0
        for number, body in enumerate(bodies):
            verdict = known[body]
            if verdict is None:
                faulty |= 1 << number
            elif verdict:
                matching |= 1 << number
        return Masks(matching & pool.blueprint.fitting & pool.reached, faulty & pool.reached)

    def _check_bodies(
        self, bare: Subrequest, blueprint: Blueprint, node: AllocationNode, missing: dict[Hashable, int]
    ) -> Iterator[tuple[Hashable, bool | None]]:
        """Yield whether a device with each body is a candidate if counters do not matter; None: it fails."""
        devices = []
        for number in missing.values():
            pooled = blueprint.device(number)
            source = _publish_everywhere(pooled.source)
            # The pool may have too few counters for a device that another pool with this body can offer.
            devices.append(PooledDevice(pooled.id, pooled.device, source))
        supply = Supply([(PoolOnNode(blueprint.view.without_counters(), devices), PoolUse())], self.features)
        candidates = CandidateFilter(
            supply, SearchState(supply, ()), node, self.features, self.meter
        ).candidates(bare)
        for position, body in enumerate(missing):
            yield body, None if position in candidates.errors else position in candidates.devices


def _publish_everywhere(source: ResourceSlice) -> ResourceSlice:
    return replace(source, spec=replace(source.spec, per_device_node_selection=None))


def _match_part(part: Conjunct, device: PooledDevice, meter: Meter) -> bool:
    meter.spend(SELECTORS, part.steps)
    return part.matches(selector_view(device))


def _matches(matches: Matcher, device: PooledDevice, meter: Meter) -> bool | None:
    """Return whether the device matches; None if the selector fails."""
    meter.spend(SELECTORS, _BASE_STEPS)
    try:
        return matches(device, meter)
    except EvaluationError:
        return None
