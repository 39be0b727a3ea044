"""Fragmentation of components while claims come and go: the share of compute that is refused.

The simulation allocates one partition for each claim on a list of equal components, through the
`ComponentShape` and `ComponentState` of the placer. So it decides as `allocate()` on one node that reaches all
components, without selectors, claims and slices. Claims arrive at random times and live for exponential times.
A claim that does not fit does not return. The first three mean lifetimes, in which the components fill, are not
counted.
"""

import heapq
import random
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import mean
from typing import Final

from benchmarks.allocator.mixes import Mix
from dradriver.allocator.placement.fleet.components import ComponentState

__all__ = ["POLICIES", "SEEDS", "Refusals", "measure"]

SEEDS: Final = range(1, 7)
POLICIES: Final = ("packed", "ordered", "without any fragmentation")

_LIFETIMES_BEFORE: Final = 3
_LIFETIMES: Final = 80


@dataclass(frozen=True, slots=True)
class Refusals:
    """The refused compute in percent of the requested compute, for each seed."""

    percents: list[float]

    @property
    def mean(self) -> float:
        """The mean of all seeds."""
        return mean(self.percents)


def measure(mix: Mix, policy: str, seeds: range = SEEDS, lifetimes: float = _LIFETIMES) -> Refusals:
    """Return what a policy refuses.

    Args:
        mix: the components and the claims.
        policy: one of `POLICIES`. Without any fragmentation, a claim fits if enough compute is left in all
            components together. So this part of the refusals is no matter of packing.
        seeds: seeds of the arrivals. All policies get the same arrivals.
        lifetimes: mean lifetimes that count.
    """
    return Refusals([_refused_percent(mix, policy, seed, lifetimes) for seed in seeds])


def _refused_percent(mix: Mix, policy: str, seed: int, lifetimes: float) -> float:
    board = _Compute(mix) if policy == POLICIES[2] else _Components(mix, packed=policy == POLICIES[0])
    compute = {device.kind: device.compute for device in mix.component.devices}
    leaving: list[tuple[float, int, object]] = []
    offered = refused = 0
    for number, (arrives, leaves, kind) in enumerate(_claims(mix, seed, lifetimes)):
        while leaving and leaving[0][0] <= arrives:
            board.release(heapq.heappop(leaving)[2])
        holding = board.allocate(kind)
        if holding is not None:
            heapq.heappush(leaving, (leaves, number, holding))
        if arrives >= _LIFETIMES_BEFORE:
            offered += compute[kind]
            refused += 0 if holding is not None else compute[kind]
    return 100 * refused / offered


def _claims(mix: Mix, seed: int, lifetimes: float) -> Iterator[tuple[float, float, str]]:
    """Yield arrival, end and kind of the claims. Times are in mean lifetimes."""
    draw = random.Random(f"{mix.name}, seed {seed}")
    compute = {device.kind: device.compute for device in mix.component.devices}
    kinds, shares = list(mix.shares), list(mix.shares.values())
    needed = sum(compute[kind] * share for kind, share in mix.shares.items()) / sum(shares)
    rate = mix.load * mix.count * mix.component.compute / needed
    now = draw.expovariate(rate)
    while now < _LIFETIMES_BEFORE + lifetimes:
        (kind,) = draw.choices(kinds, shares)
        yield now, now + draw.expovariate(1), kind
        now += draw.expovariate(rate)


class _Compute:
    """Counts compute only."""

    def __init__(self, mix: Mix) -> None:
        self._compute = {device.kind: device.compute for device in mix.component.devices}
        self._left = mix.count * mix.component.compute

    def allocate(self, kind: str) -> object:
        """Return what the claim holds, or None if it does not fit."""
        if self._compute[kind] > self._left:
            return None
        self._left -= self._compute[kind]
        return kind

    def release(self, holding: object) -> None:
        """Release what a claim holds."""
        self._left += self._compute[str(holding)]


class _Components:
    """Allocates partitions, in the order `packed` or in the published order."""

    def __init__(self, mix: Mix, *, packed: bool) -> None:
        self._packed = packed
        self._masks = mix.component.masks()
        self._shape = mix.component.shape()
        self._held: list[frozenset[int]] = [frozenset()] * mix.count
        self._states = [self._state(held) for held in self._held]

    def allocate(self, kind: str) -> object:
        """Return what the claim holds, or None if it does not fit."""
        chosen = (self._cheapest if self._packed else self._first)(self._masks[kind])
        if chosen is not None:
            component, device = chosen
            self._change(component, self._held[component] | {device})
        return chosen

    def release(self, holding: object) -> None:
        """Release what a claim holds."""
        assert isinstance(holding, tuple)
        component, device = holding
        self._change(component, self._held[component] - {device})

    def _change(self, component: int, held: frozenset[int]) -> None:
        self._held[component] = held
        self._states[component] = self._state(held)

    def _state(self, held: frozenset[int]) -> ComponentState:
        return self._shape.state(tuple((device, False) for device in sorted(held)))

    def _first(self, mask: int) -> tuple[int, int] | None:
        for component, state in enumerate(self._states):
            if free := mask & state.free:
                return component, (free & -free).bit_length() - 1
        return None

    def _cheapest(self, mask: int) -> tuple[int, int] | None:
        """Return the device with the lowest cost. Components in one state differ only in their order."""
        first: dict[int, tuple[int, ComponentState]] = {}
        for component, state in enumerate(self._states):
            if mask & state.free:
                first.setdefault(state.number, (component, state))
        offers = ((*state.cheapest(mask & state.free, -1), component) for component, state in first.values())
        best = min(offers, key=lambda offer: (offer[0], offer[2]), default=None)
        return None if best is None else (best[2], best[1])
