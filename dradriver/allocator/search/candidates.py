"""Finds the devices that can serve a request, before any is chosen, and the reason for each other device."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from dradriver.allocator.explain.refusal import Reason
from dradriver.allocator.features import Features
from dradriver.allocator.request.subrequests import Subrequest
from dradriver.allocator.request.tolerations import repelling_taint
from dradriver.allocator.search.state import Obstacle, SearchState
from dradriver.allocator.supply.capacity import CapacityError, consumed_capacity, obeys_policy
from dradriver.allocator.supply.node_supply import Supply
from dradriver.allocator.supply.nodes import AllocationNode, device_on_node
from dradriver.allocator.supply.pools import PooledDevice
from dradriver.cel.evaluate.errors import EvaluationError
from dradriver.model.quantity import Quantity

__all__ = ["CandidateFilter", "Candidates"]


class _FailedError(Exception):
    """A selector failed on a device, or an amount can't be computed.

    The text names the device and the cause.
    """


@dataclass(frozen=True, slots=True)
class Candidates:
    """The devices for one kind of subrequest.

    Attributes:
        devices: positions of the devices that can serve it; for `All`, every device that it must get.
        rejections: the other devices, grouped by obstacle.
        errors: devices among the candidates on which a selector fails, with the message.
        missing: for `All`: the reasons why some matching devices are not available.
        shares: the capacity that this request consumes of each device that several claims may share.
        draws: the same as (place in `Supply.left`, nanos).
    """

    devices: tuple[int, ...]
    rejections: tuple[Reason, ...]
    errors: dict[int, str]
    missing: tuple[Reason, ...] = ()
    shares: Mapping[int, Mapping[str, Quantity]] = field(default_factory=dict)
    draws: Mapping[int, tuple[tuple[int, int], ...]] = field(default_factory=dict)


class CandidateFilter:
    """Finds the candidates of subrequests on one node. Subrequests of one kind share them."""

    def __init__(self, supply: Supply, state: SearchState, node: AllocationNode, features: Features) -> None:
        self._supply = supply
        self._state = state
        self._node = node
        self._features = features
        self._known: dict[object, Candidates] = {}

    def candidates(self, ask: Subrequest) -> Candidates:
        """Return the candidates for this subrequest."""
        key = ask.kind, ask.count is None
        if key not in self._known:
            self._known[key] = self._all(ask) if ask.count is None else self._some(ask)
        return self._known[key]

    def _some(self, ask: Subrequest) -> Candidates:
        devices: list[int] = []
        shares: dict[int, Mapping[str, Quantity]] = {}
        rejected: dict[Obstacle, list[int]] = {}
        errors: dict[int, str] = {}
        for device in range(len(self._supply.devices)):
            try:
                # As in Kubernetes, devices in use are skipped first, so their selector errors do not matter.
                obstacle = (
                    self._held(device, ask)
                    or self._mismatch(device, ask)
                    or self._too_small(device, ask, shares)
                    or self._unusable(device, ask, shares)
                )
            except _FailedError as error:
                errors[device] = str(error)
                obstacle = None
            if obstacle is None:
                devices.append(device)
            else:
                rejected.setdefault(obstacle, []).append(device)
        draws = self._draws(shares)
        return Candidates(tuple(devices), self._reasons(rejected), errors, (), shares, draws)

    def _all(self, ask: Subrequest) -> Candidates:
        devices: list[int] = []
        mismatched: dict[Obstacle, list[int]] = {}
        missing: dict[Obstacle, list[int]] = {}
        errors: dict[int, str] = {}
        shares: dict[int, Mapping[str, Quantity]] = {}
        for device in range(len(self._supply.devices)):
            try:
                mismatch = self._mismatch(device, ask) or self._too_small(device, ask, shares)
            except _FailedError as error:
                errors[device] = str(error)
                mismatch = None
            if mismatch:
                mismatched.setdefault(mismatch, []).append(device)
                continue
            devices.append(device)
            if obstacle := self._held(device, ask) or self._unusable(device, ask, shares):
                missing.setdefault(obstacle, []).append(device)
        lacking, draws = self._reasons(missing), self._draws(shares)
        return Candidates(tuple(devices), self._reasons(mismatched), errors, lacking, shares, draws)

    def _draws(self, shares: Mapping[int, Mapping[str, Quantity]]) -> dict[int, tuple[tuple[int, int], ...]]:
        rooms = self._supply.rooms
        return {
            device: tuple((rooms[device][name], amount.nano) for name, amount in consumed.items())
            for device, consumed in shares.items()
        }

    def _reasons(self, found: dict[Obstacle, list[int]]) -> tuple[Reason, ...]:
        names = self._supply.devices
        return tuple(
            Reason(code, text, tuple(names[device].id for device in devices))
            for (code, text), devices in found.items()
        )

    def _held(self, device: int, ask: Subrequest) -> Obstacle | None:
        held_by = self._supply.held_by[device]
        return ("in-use", f"in use by claim {', '.join(held_by)}") if held_by and not ask.admin else None

    def _mismatch(self, device: int, ask: Subrequest) -> Obstacle | None:
        pooled = self._supply.devices[device]
        if pooled.device.binding_conditions and not self._features.binding_conditions:
            return (
                "feature-gate",
                f"has binding conditions and {self._features.gate('binding_conditions')} is off",
            )
        if not device_on_node(pooled.device, pooled.source, self._node):
            return "node", f"not on node {self._node.name}"
        for selection in ask.selections:
            try:
                matches = selection.matches(pooled)
            except EvaluationError as error:
                raise _FailedError(f"{selection.label} on device {pooled.id}: {error}") from error
            if not matches:
                return "selector", f"{selection.label} is false"
        return None

    def _too_small(
        self, device: int, ask: Subrequest, shares: dict[int, Mapping[str, Quantity]]
    ) -> Obstacle | None:
        """Return why the device can't serve a subrequest of this size even if it is free, else None.

        Side effect: stores in `shares` the capacity that a share of the device consumes.
        """
        if not self._features.consumable_capacity:
            return None
        pooled, fractional = self._supply.devices[device], self._features.fractional_capacity_range
        capacities = pooled.device.capacity
        if missing := next((name for name in ask.capacity if name not in capacities), None):
            return "capacity", f"has no capacity {missing}"
        try:
            consumed = consumed_capacity(ask.capacity, capacities, fractional=fractional)
        except CapacityError as error:
            raise _FailedError(f"device {pooled.id}: {error}") from error
        for name, amount in consumed.items():
            if not obeys_policy(amount, capacities[name].request_policy, fractional=fractional):
                return "capacity", f"capacity {name}: the request policy allows no {amount}"
            if amount > capacities[name].value:
                return "capacity", f"capacity {name}: {amount} needed, the device has {capacities[name].value}"
        if self._supply.shared_out[device] is not None:
            shares[device] = consumed
        return None

    def _unusable(
        self, device: int, ask: Subrequest, shares: Mapping[int, Mapping[str, Quantity]]
    ) -> Obstacle | None:
        found = self._state.full(self._draws({device: shares[device]})[device]) if device in shares else None
        return found or next(self._limits(device, ask), None)

    def _limits(self, device: int, ask: Subrequest) -> Iterator[Obstacle]:
        pooled = self._supply.devices[device]
        if gate := self._gate_off(pooled):
            yield "feature-gate", gate
        # A device that already has a share has already consumed its counters.
        consumes = self._state.consumes(ask) and not self._supply.shared_out[device]
        if self._supply.counters[device] and consumes:
            # Kubernetes compares every counter of the pool, so one counter below zero blocks the whole pool.
            if overdrawn := self._supply.overdrawn.get((pooled.id.driver, pooled.id.pool)):
                yield "counter", f"{overdrawn} is overdrawn by the devices in use"
            if shortage := self._state.shortage(device):
                yield shortage
        if self._features.device_taints and (taint := repelling_taint(pooled.device, ask.tolerations)):
            yield "taint", f"taint {taint} is not tolerated"

    def _gate_off(self, pooled: PooledDevice) -> str | None:
        """Return the feature gate that makes the device unavailable to every request, as text for messages."""
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
