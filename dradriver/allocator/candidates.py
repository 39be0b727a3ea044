"""Which devices may serve a request, before any is chosen, and why the others may not."""

from collections.abc import Iterator
from dataclasses import dataclass

from dradriver.allocator.asks import Ask
from dradriver.allocator.explain import Reason
from dradriver.allocator.features import Features
from dradriver.allocator.nodes import Node, device_on_node
from dradriver.allocator.state import Obstacle, State
from dradriver.allocator.supply import Supply
from dradriver.allocator.taints import repelling_taint
from dradriver.cel.errors import EvaluationError

__all__ = ["Candidates", "Filter"]


class _SelectorFailedError(Exception):
    """A selector failed on a device: which one, on which, and how."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The devices for one kind of ask.

    Attributes:
        devices: those that may serve it, by position; for `All` every device that it must get.
        rejections: the other devices, grouped by obstacle.
        errors: devices among the candidates on which a selector fails, with the message.
        missing: for `All`: why not every device that matches can be had.
    """

    devices: tuple[int, ...]
    rejections: tuple[Reason, ...]
    errors: dict[int, str]
    missing: tuple[Reason, ...] = ()


class Filter:
    """Finds the candidates of asks on one node; asks of one kind share them."""

    def __init__(self, supply: Supply, state: State, node: Node, features: Features) -> None:
        self._supply = supply
        self._state = state
        self._node = node
        self._features = features
        self._known: dict[object, Candidates] = {}

    def candidates(self, ask: Ask) -> Candidates:
        """The devices for this ask."""
        key = ask.kind, ask.count is None
        if key not in self._known:
            self._known[key] = self._all(ask) if ask.count is None else self._some(ask)
        return self._known[key]

    def _some(self, ask: Ask) -> Candidates:
        devices: list[int] = []
        rejected: dict[Obstacle, list[int]] = {}
        errors: dict[int, str] = {}
        for device in range(len(self._supply.devices)):
            try:
                # What is in use is not even looked at, as in Kubernetes: its selector errors do not matter.
                obstacle = self._held(device, ask) or self._mismatch(device, ask) or self._unusable(device, ask)
            except _SelectorFailedError as error:
                errors[device] = str(error)
                obstacle = None
            if obstacle is None:
                devices.append(device)
            else:
                rejected.setdefault(obstacle, []).append(device)
        return Candidates(tuple(devices), self._reasons(rejected), errors)

    def _all(self, ask: Ask) -> Candidates:
        devices: list[int] = []
        mismatched: dict[Obstacle, list[int]] = {}
        missing: dict[Obstacle, list[int]] = {}
        errors: dict[int, str] = {}
        for device in range(len(self._supply.devices)):
            try:
                mismatch = self._mismatch(device, ask)
            except _SelectorFailedError as error:
                errors[device] = str(error)
                mismatch = None
            if mismatch:
                mismatched.setdefault(mismatch, []).append(device)
                continue
            devices.append(device)
            if obstacle := self._held(device, ask) or self._unusable(device, ask):
                missing.setdefault(obstacle, []).append(device)
        return Candidates(tuple(devices), self._reasons(mismatched), errors, self._reasons(missing))

    def _reasons(self, found: dict[Obstacle, list[int]]) -> tuple[Reason, ...]:
        names = self._supply.devices
        return tuple(
            Reason(code, text, tuple(names[device].id for device in devices))
            for (code, text), devices in found.items()
        )

    def _held(self, device: int, ask: Ask) -> Obstacle | None:
        held_by = self._supply.held_by[device]
        return ("in-use", f"in use by claim {', '.join(held_by)}") if held_by and not ask.admin else None

    def _mismatch(self, device: int, ask: Ask) -> Obstacle | None:
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
                raise _SelectorFailedError(f"{selection.label} on device {pooled.id}: {error}") from error
            if not matches:
                return "selector", f"{selection.label} is false"
        return None

    def _unusable(self, device: int, ask: Ask) -> Obstacle | None:
        return next(self._limits(device, ask), None)

    def _limits(self, device: int, ask: Ask) -> Iterator[Obstacle]:
        pooled = self._supply.devices[device]
        if self._supply.counters[device]:
            if not self._features.partitionable_devices:
                yield (
                    "feature-gate",
                    f"consumes counters and {self._features.gate('partitionable_devices')} is off",
                )
            # Kubernetes compares every counter of the pool, so one below zero stops the whole pool.
            if overdrawn := self._supply.overdrawn.get((pooled.id.driver, pooled.id.pool)):
                yield "counter", f"{overdrawn} is overdrawn by the devices in use"
            if shortage := self._state.shortage(device):
                yield shortage
        if self._features.device_taints and (taint := repelling_taint(pooled.device, ask.tolerations)):
            yield "taint", f"taint {taint.key}={taint.value}:{taint.effect} is not tolerated"
