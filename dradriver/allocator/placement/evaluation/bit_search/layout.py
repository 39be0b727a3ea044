"""The numbering of a node's devices, and the order in which they are tried.

The devices of all pools are numbered together: those of the first pool first. The pools have the order in which
they are tried, so a lower number is the earlier position.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Protocol, TypeAlias

from dradriver.allocator.placement.fleet.blueprint import Blueprint
from dradriver.allocator.placement.fleet.components import ComponentState, iter_bits
from dradriver.allocator.search.packing import FULL_DEVICE_COST
from dradriver.allocator.supply.order import Preference

__all__ = ["Layout", "LayoutPart", "PoolEntry", "Rank"]

Rank: TypeAlias = tuple[Preference, int]
"""A preference, and the devices that have it as bits."""

_FULL_DEVICE: Final[Preference] = (0, *FULL_DEVICE_COST)
_FULL_DEVICE_BINDING: Final[Preference] = (1, *FULL_DEVICE_COST)

_MAX_KNOWN: Final = 4000
"""Maximum number of results that a part caches of each kind."""


class PoolEntry(Protocol):
    """A pool as a node sees it."""

    @property
    def blueprint(self) -> Blueprint:
        """Return the compiled form of the pool."""

    @property
    def states(self) -> Sequence[ComponentState]:
        """Return, for each section of the blueprint, the state of the component."""

    @property
    def free(self) -> int:
        """Return, as bits, the available devices in the slices that the node reaches."""

    @property
    def overdrawn(self) -> bool:
        """Return whether a counter is below zero."""


class LayoutPart:
    """A component in the numbering of a node.

    Attributes:
        pool: the position of its pool.
        number: the number of its section in the pool's blueprint.
        shape: the common part of this component and equal components.
        mask: its devices as bits.
    """

    def __init__(self, pool: int, number: int, blueprint: Blueprint, offset: int) -> None:
        self.pool = pool
        self.number = number
        self._section = section = blueprint.sections[number]
        self.shape = section.shape
        self.mask = section.mask << offset
        self._local = {member + offset: local for local, member in enumerate(section.members)}
        self._binding = blueprint.binding << offset
        self._offset = offset
        self._known_ranks: dict[tuple[ComponentState, int], list[Rank]] = {}
        self._known_lost: dict[tuple[ComponentState, int], int] = {}

    def ranks(self, state: ComponentState, candidates: int) -> list[Rank]:
        """Return the preferences of the available candidates under the order `packed`.

        Args:
            state: the state of the component.
            candidates: some of the component's devices, as bits.
        """
        key = state, candidates
        ranks = self._known_ranks.get(key)
        if ranks is None:
            if len(self._known_ranks) >= _MAX_KNOWN:
                self._known_ranks.clear()
            masks: dict[Preference, int] = {}
            costs = state.costs(self._section.visible)
            for device in iter_bits(candidates):
                local = self._local[device]
                if state.free >> local & 1:
                    preference = self._binding >> device & 1, *costs[local]
                    masks[preference] = masks.get(preference, 0) | 1 << device
            ranks = self._known_ranks[key] = list(masks.items())
        return ranks

    def lost(self, state: ComponentState, chosen: int) -> int:
        """Return, as bits, the devices that are no longer available after a choice (`ComponentState.lost`)."""
        key = state, chosen
        lost = self._known_lost.get(key)
        if lost is None:
            if len(self._known_lost) >= _MAX_KNOWN:
                self._known_lost.clear()
            local = state.lost(self._section.in_component(chosen >> self._offset))
            lost = self._known_lost[key] = self._section.in_pool(local) << self._offset
        return lost


class Layout:
    """The numbering of the devices of nodes whose pools have the same blueprints.

    Attributes:
        offsets: for each pool, the number of its first device.
        size: number of devices.
        parts: the components of all pools.
        part_of: for each device, the index in `parts`; None for a device that consumes nothing.
        without_counters: the devices that consume nothing, as bits.
        binding: the devices with binding conditions, as bits.
        shareable: the devices that several claims may hold, as bits.
    """

    def __init__(self, blueprints: Sequence[Blueprint]) -> None:
        self.parts: list[LayoutPart] = []
        self.part_of: list[int | None] = []
        offsets = []
        for pool, blueprint in enumerate(blueprints):
            offset, first_part = len(self.part_of), len(self.parts)
            offsets.append(offset)
            self.parts += (LayoutPart(pool, n, blueprint, offset) for n in range(len(blueprint.sections)))
            self.part_of += (None if at is None else first_part + at[0] for at in blueprint.section_of)
        self.offsets: Sequence[int] = tuple(offsets)
        self.size = len(self.part_of)
        self.without_counters = self.join(blueprint.without_counters for blueprint in blueprints)
        self.binding = self.join(blueprint.binding for blueprint in blueprints)
        self.shareable = self.join(blueprint.shareable for blueprint in blueprints)

    def join(self, masks: Iterable[int]) -> int:
        """Return, as one set, the devices of all pools.

        Args:
            masks: the devices of each pool, as bits.
        """
        joined = 0
        for mask, offset in zip(masks, self.offsets, strict=True):
            joined |= mask << offset
        return joined

    def locate(self, device: int) -> tuple[int, int]:
        """Return the pool of a device and the device's number in this pool.

        Args:
            device: the number of the device.
        """
        pool = max(pool for pool, offset in enumerate(self.offsets) if offset <= device)
        return pool, device - self.offsets[pool]

    def find_parts(self, candidates: int) -> tuple[tuple[int, int], ...]:
        """Return the indexes of the parts with candidates, each with its candidates as bits.

        Args:
            candidates: the candidates, as bits.
        """
        parts = ((index, part.mask & candidates) for index, part in enumerate(self.parts))
        return tuple((index, own) for index, own in parts if own)

    def ranks(
        self, free: int, states: Sequence[ComponentState], parts: Iterable[tuple[int, int]]
    ) -> Sequence[Rank]:
        """Return the preferences of devices under the order `packed`, ascending.

        Args:
            free: the available devices without counters, as bits.
            states: for each part, the state of the component.
            parts: the parts with devices, each with its devices as bits (`find_parts`).
        """
        masks: dict[Preference, int] = {}
        if free:
            binding = free & self.binding
            masks = {_FULL_DEVICE: free & ~binding, _FULL_DEVICE_BINDING: binding}
        for index, own in parts:
            for preference, mask in self.parts[index].ranks(states[index], own):
                masks[preference] = masks.get(preference, 0) | mask
        return sorted((preference, mask) for preference, mask in masks.items() if mask)
