"""Finds the devices that can serve a request before any device is chosen, and why other devices can't."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from dradriver.allocator.explain.refusal import Reason
from dradriver.allocator.features import Features
from dradriver.allocator.meter import DEVICES, Meter
from dradriver.allocator.request.subrequests import Subrequest
from dradriver.allocator.request.tolerations import repelling_taint
from dradriver.allocator.search.state import Obstacle, SearchState
from dradriver.allocator.supply.capacity import CapacityError, compute_consumption, is_allowed
from dradriver.allocator.supply.node_supply import Row, Supply
from dradriver.allocator.supply.nodes import AllocationNode, device_on_node
from dradriver.allocator.supply.pools import PooledDevice
from dradriver.cel.evaluate.errors import EvaluationError
from dradriver.model.quantity import Quantity

__all__ = ["CandidateFilter", "Candidates"]


Shares: TypeAlias = dict[int, Mapping[str, Quantity]]
"""For each device: the amount of each capacity that a share consumes."""


class _FailedError(Exception):
    """A selector failed on a device, or an amount can't be computed.

    The text of the exception names the device and the cause.
    """


@dataclass(frozen=True, slots=True)
class Candidates:
    """The devices for one kind of subrequest.

    Attributes:
        devices: positions of the devices that can serve the subrequest. If it asks for all devices (`All`):
            every device that it must get.
        rejections: the devices that are not candidates, grouped by obstacle.
        errors: the candidates on which a selector fails, with the message.
        missing: if the subrequest asks for all devices: the reasons why some of them are not available.
        share_capacity: for each device that several claims may share, the amount of each capacity that this
            request consumes.
        share_use: the amounts of `share_capacity` as (index in `Supply.left`, nanos).
    """

    devices: tuple[int, ...]
    rejections: tuple[Reason, ...]
    errors: dict[int, str]
    missing: tuple[Reason, ...] = ()
    share_capacity: Mapping[int, Mapping[str, Quantity]] = field(default_factory=dict)
    share_use: Mapping[int, Row] = field(default_factory=dict)


class CandidateFilter:
    """Finds the candidates of subrequests on one node. Subrequests of one kind have the same candidates."""

    def __init__(
        self, supply: Supply, state: SearchState, node: AllocationNode, features: Features, meter: Meter
    ) -> None:
        self._supply = supply
        self._state = state
        self._node = node
        self._features = features
        self._meter = meter
        self._known: dict[object, Candidates] = {}

    def candidates(self, subrequest: Subrequest) -> Candidates:
        """Return the candidates for this subrequest."""
        key = subrequest.kind, subrequest.count is None
        if key not in self._known:
            self._known[key] = self._find(subrequest, wants_all=subrequest.count is None)
        return self._known[key]

    def _find(self, subrequest: Subrequest, *, wants_all: bool) -> Candidates:
        devices: list[int] = []
        shares: Shares = {}
        rejected: dict[Obstacle, list[int]] = {}
        missing: dict[Obstacle, list[int]] = {}
        errors: dict[int, str] = {}
        self._meter.spend(DEVICES, 2 * len(self._supply.devices))
        for device in range(len(self._supply.devices)):
            held = self._check_holders(device, subrequest)
            if held and not wants_all:
                # As in Kubernetes, devices in use are skipped first, so their selector errors do not matter.
                rejected.setdefault(held, []).append(device)
                continue
            try:
                mismatch = self._check_match(device, subrequest) or self._check_size(device, subrequest, shares)
            except _FailedError as error:
                errors[device] = str(error)
                if not wants_all:
                    devices.append(device)
                    continue
                mismatch = None
            if mismatch:
                rejected.setdefault(mismatch, []).append(device)
                continue
            obstacle = held or self._check_availability(device, subrequest, shares)
            if obstacle:
                (missing if wants_all else rejected).setdefault(obstacle, []).append(device)
            if wants_all or not obstacle:
                devices.append(device)
        reasons = self._group_reasons(rejected), errors, self._group_reasons(missing)
        return Candidates(tuple(devices), *reasons, shares, self._share_use(shares))

    def _share_use(self, shares: Shares) -> dict[int, Row]:
        indexes = self._supply.capacity_indexes
        return {
            device: tuple((indexes[device][name], amount.nano) for name, amount in consumed.items())
            for device, consumed in shares.items()
        }

    def _group_reasons(self, obstacles: dict[Obstacle, list[int]]) -> tuple[Reason, ...]:
        names = self._supply.devices
        return tuple(
            Reason(code, text, tuple(names[device].id for device in devices))
            for (code, text), devices in obstacles.items()
        )

    def _check_holders(self, device: int, subrequest: Subrequest) -> Obstacle | None:
        held_by = self._supply.held_by[device]
        return ("in-use", f"in use by claim {', '.join(held_by)}") if held_by and not subrequest.admin else None

    def _check_match(self, device: int, subrequest: Subrequest) -> Obstacle | None:
        pooled = self._supply.devices[device]
        if pooled.device.binding_conditions and not self._features.binding_conditions:
            gate = self._features.gate("binding_conditions")
            return "feature-gate", f"has binding conditions and {gate} is off"
        if not device_on_node(pooled.device, pooled.source, self._node):
            return "node", f"not on node {self._node.name}"
        for selection in subrequest.selections:
            try:
                matches = selection.matches(pooled, self._meter)
            except EvaluationError as error:
                raise _FailedError(f"{selection.label} on device {pooled.id}: {error}") from error
            if not matches:
                return "selector", f"{selection.label} is false"
        return None

    def _check_size(self, device: int, subrequest: Subrequest, shares: Shares) -> Obstacle | None:
        """Return why the device's capacity is insufficient even if the device is free; None if it suffices.

        Side effect: stores in `shares` the capacity that a share of the device consumes.
        """
        if not self._features.consumable_capacity:
            return None
        pooled, fractional = self._supply.devices[device], self._features.fractional_capacity_range
        capacities = pooled.device.capacity
        if missing := next((name for name in subrequest.capacity if name not in capacities), None):
            return "capacity", f"has no capacity {missing}"
        try:
            consumed = compute_consumption(subrequest.capacity, capacities, fractional=fractional)
        except CapacityError as error:
            raise _FailedError(f"device {pooled.id}: {error}") from error
        for name, amount in consumed.items():
            if not is_allowed(amount, capacities[name].request_policy, fractional=fractional):
                return "capacity", f"capacity {name}: the request policy allows no {amount}"
            if amount > capacities[name].value:
                return "capacity", f"capacity {name}: {amount} needed, the device has {capacities[name].value}"
        if self._supply.held_shares[device] is not None:
            shares[device] = consumed
        return None

    def _check_availability(self, device: int, subrequest: Subrequest, shares: Shares) -> Obstacle | None:
        if device in shares:
            use = self._share_use({device: shares[device]})[device]
            if shortage := self._state.find_capacity_shortage(use):
                return shortage
        return next(self._list_limits(device, subrequest), None)

    def _list_limits(self, device: int, subrequest: Subrequest) -> Iterator[Obstacle]:
        pooled = self._supply.devices[device]
        if gate := self._find_disabled_gate(pooled):
            yield "feature-gate", gate
        # A device that already has a share has already consumed its counters.
        consumes = self._state.consumes(subrequest) and not self._supply.held_shares[device]
        if self._supply.counters[device] and consumes:
            # Kubernetes compares every counter of the pool, so one counter below zero blocks the whole pool.
            if overdrawn := self._supply.overdrawn.get((pooled.id.driver, pooled.id.pool)):
                yield "counter", f"{overdrawn} is overdrawn by the devices in use"
            if shortage := self._state.find_counter_shortage(device):
                yield shortage
        if self._features.device_taints and (taint := repelling_taint(pooled.device, subrequest.tolerations)):
            yield "taint", f"taint {taint} is not tolerated"

    def _find_disabled_gate(self, pooled: PooledDevice) -> str | None:
        """Return the obstacle if a feature gate makes the device unavailable to every request, else None."""
        features, consumed = self._features, pooled.device.consumes_counters
        if pooled.source.spec.skip_node_operations:
            gate = features.gate("optional_node_operations")
            if not features.optional_node_operations:
                return f"skips node operations and {gate} is off"
            if gate not in self._node.declared_features:
                return f"skips node operations and the node does not declare {gate}"
        if consumed and not features.partitionable_devices:
            return f"consumes counters and {features.gate('partitionable_devices')} is off"
        if not features.compatibility_groups and any(taken.compatibility_groups for taken in consumed):
            return f"has compatibility groups and {features.gate('compatibility_groups')} is off"
        return None
