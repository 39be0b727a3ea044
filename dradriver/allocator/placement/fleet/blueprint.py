"""The part of a pool that is equal on many nodes. It is compiled once for all of them.

Devices are numbered in the order of the pool. Sets of devices are integers with one bit for each device, so
finding the free devices in a set is one operation. The free devices follow from the states of the pool's
components (`fleet.components`).
"""

from collections.abc import Hashable, Iterable, Sequence

from dradriver.allocator.features import Features
from dradriver.allocator.placement.fleet.components import ComponentShape
from dradriver.allocator.placement.fleet.contents import SliceContents
from dradriver.allocator.placement.fleet.sections import Arrangement, Section
from dradriver.allocator.supply.devices_in_use import PoolKey
from dradriver.allocator.supply.pools import (
    GatheredSlices,
    PooledDevice,
    PoolOnNode,
    PoolView,
    offered_devices,
)
from dradriver.model.resource.claim import DeviceId
from dradriver.model.resource.slices import ResourceSlice

__all__ = ["Blueprint", "find_device"]


class Blueprint:
    """A pool without its names and its attribute values.

    Args:
        number: see below.
        view: see below.
        gathered: the slices of the pool.
        contents: the contents of the slices of the view, in their order.
        division: the components of the pool; None if it can't be used.
        sets: see below.
        features: the enabled features.

    Attributes:
        number: the number of the blueprint. Equal pools have equal numbers.
        view: the first pool with this blueprint. Its devices represent the devices of all pools with this
            blueprint.
        problem, ignored: see `PoolOnNode`.
        size: the number of devices.
        every: all devices, as bits.
        devices: the devices that the node reaches, as bits.
        is_binding: whether one of `devices` has binding conditions.
        binding: all devices with binding conditions, as bits.
        sections: the components.
        section_of: for each device, its section and its number in the section; None for a device that consumes
            nothing.
        without_counters: the devices that consume nothing, as bits.
        fitting: the devices for which the counters suffice if no other device is held, as bits.
        shareable: the devices that several claims may hold, as bits.
        sets: the names of the counter sets in `view`, in the order in which its slices first name them.
    """

    def __init__(
        self,
        number: int,
        view: PoolView,
        gathered: GatheredSlices,
        contents: Sequence[SliceContents],
        division: tuple[Arrangement, list[ComponentShape]] | None,
        sets: Sequence[str],
        features: Features,
    ) -> None:
        self.number = number
        self.view = view
        self.sets = tuple(sets)
        self.problem = gathered.problem or view.invalid_under(features)
        self.ignored = gathered.ignored
        self._contents = contents
        self._known: dict[int, PooledDevice] = {}
        reached = set(map(id, gathered.reached))
        self.size = self.devices = self.binding = self.shareable = 0
        for each in contents:
            count = len(each.devices)
            if id(each.source) in reached:
                self.devices |= (1 << count) - 1 << self.size
            self.binding |= each.binding << self.size
            self.shareable |= each.shareable << self.size
            self.size += count
        self.every = (1 << self.size) - 1
        self.is_binding = bool(self.binding & self.devices)
        if not features.consumable_capacity:
            self.shareable = 0
        self._take_sections(*(division or (Arrangement((), self.size), [])))

    def _take_sections(self, arrangement: Arrangement, shapes: Sequence[ComponentShape]) -> None:
        self.section_of = arrangement.section_of
        self.without_counters = self.fitting = arrangement.without_counters
        self.sections: list[Section] = []
        for shape, members, mask, first in zip(
            shapes, arrangement.members, arrangement.masks, arrangement.firsts, strict=True
        ):
            visible = sum([1 << local for local, number in enumerate(members) if self.devices >> number & 1])
            section = Section(shape, members, mask, first, visible)
            self.sections.append(section)
            self.fitting |= section.in_pool(shape.state(()).free)

    @property
    def kinds(self) -> list[int]:
        """Return the number of the kind of each device (`contents.SliceContents`)."""
        return [kind for each in self._contents for kind in each.kinds]

    @property
    def bodies(self) -> list[Hashable]:
        """Return the body of each device, with the operations that its slice skips."""
        bodies: list[Hashable] = []
        for each in self._contents:
            skipped = tuple(each.source.spec.skip_node_operations)
            bodies += [(body, skipped) for body in each.bodies] if skipped else each.bodies
        return bodies

    def device(self, number: int) -> PooledDevice:
        """Return a device of `view`, but without its consumption."""
        known = self._known.get(number)
        if known is None:
            known = self._known[number] = find_device(self.view.key, self.view.slices, number)
        return known

    def on_node(self, view: PoolView) -> PoolOnNode:
        """Return a pool with this blueprint as its node sees it."""
        devices = tuple(device for number, device in enumerate(view.devices) if self.devices >> number & 1)
        return PoolOnNode(view, devices, self.problem, self.ignored)


def find_device(key: PoolKey, slices: Iterable[ResourceSlice], number: int) -> PooledDevice:
    """Return a device of a pool, but without its consumption.

    Args:
        key: driver and pool name.
        slices: the slices of the pool, in their order.
        number: the number of the device.

    Raises:
        IndexError: the pool has no device with this number.
    """
    at = number
    for source in slices:
        devices = offered_devices(source)
        if at < len(devices):
            return PooledDevice(DeviceId(*key, devices[at].name), devices[at], source)
        at -= len(devices)
    raise IndexError(number)
