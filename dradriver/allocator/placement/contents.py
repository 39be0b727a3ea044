"""The content of slices, in a form in which equal slices of a cluster are found quickly and stored once.

Most nodes of a cluster have the same hardware. Their slices differ in names (of slice, pool, node, devices and
counter sets) and in the values of some attributes (serial numbers). The rest is equal and takes most of the
memory. So each device has three parts: its name, the values of its attributes, and a *body* with everything
else. Equal bodies share a number. Large parts of equal bodies are stored once.

Names and values can make a pool invalid, so those that break a rule stay part of the body.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from itertools import count
from typing import TypeAlias, TypeVar

from msgspec.structs import astuple, force_setattr

from dradriver.allocator.supply.pools import offered_devices
from dradriver.model import names
from dradriver.model.quantity import exact
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import MAX_ATTRIBUTE_LENGTH, Attribute, Capacity, Device, Version
from dradriver.model.resource.slices import ResourceSlice

__all__ = ["ContentsInterner", "SliceContents", "Values"]

T = TypeVar("T")

Values: TypeAlias = tuple[tuple[str, Hashable], ...]
"""The attributes of one device: name and value. A scalar is (type, value), a list is a tuple of such pairs."""


@dataclass(frozen=True, slots=True)
class SliceContents:
    """The content of one slice.

    Attributes:
        source: the slice.
        key: equal for slices that differ only in names and values of attributes.
        devices: the names of its devices.
        sets: the names of its counter sets, in the order in which they are met.
        attributes: for each device, the values of its attributes.
        proper: whether no name breaks a rule that one slice can show.
    """

    source: ResourceSlice
    key: Hashable
    devices: tuple[str, ...]
    sets: tuple[str, ...]
    attributes: tuple[Values, ...]
    proper: bool


class ContentsInterner:
    """Divides slices into parts and stores equal parts once, until `forget`."""

    def __init__(self) -> None:
        self._next = count()
        self._numbers: dict[Hashable, int] = {}
        self._consumptions: dict[Hashable, tuple[int, tuple[CounterConsumption, ...]]] = {}
        self._capacities: dict[Hashable, tuple[int, dict[str, Capacity]]] = {}
        self._attributes: dict[Hashable, tuple[Hashable, Hashable]] = {}
        self._same: dict[Hashable, Hashable] = {}
        self._proper: dict[tuple[str, ...], bool] = {}

    def contents(self, source: ResourceSlice) -> SliceContents:
        """Return the content of the slice.

        Parts of its devices are replaced by equal parts that are known already.
        """
        spec = source.spec
        sets: dict[str, int] = {}
        shared = tuple(self._counter_set(counter_set, sets) for counter_set in spec.shared_counters)
        offered = offered_devices(source)
        cut = [self._cut(device, sets) for device in offered]
        devices = self._once(tuple(device.name for device in offered))
        named = self._once(tuple(sets))
        bodies = tuple(body for body, _ in cut)
        # An explicit false differs from an absent field, because the field needs a feature gate.
        choosing = spec.per_device_node_selection
        key = (shared, choosing, spec.partition_type_attribute, tuple(spec.skip_node_operations), bodies)
        attributes = self._once(tuple(values for _, values in cut))
        return SliceContents(
            source, self.number(key), devices, named, attributes, self._are_proper(devices + named)
        )

    def number(self, key: Hashable) -> int:
        """Return a number that is the same for equal keys."""
        known = self._numbers.get(key)
        if known is None:
            known = self._numbers[key] = next(self._next)
        return known

    @property
    def size(self) -> int:
        """Return the number of stored parts."""
        return len(self._numbers) + len(self._same) + len(self._attributes)

    def forget(self) -> None:
        """Forget the parts. Numbers are not reused, so later parts count as new."""
        for known in (self._numbers, self._same, self._attributes, self._proper):
            known.clear()

    def _once(self, value: T) -> T:
        return self._same.setdefault(value, value)  # type: ignore[return-value]

    def _are_proper(self, texts: tuple[str, ...]) -> bool:
        known = self._proper.get(texts)
        if known is None:
            known = self._proper[texts] = all(names.dns_label(text) is None for text in texts)
        return known

    def _counter_set(self, counter_set: CounterSet, sets: dict[str, int]) -> Hashable:
        counters = tuple((name, exact(counter.value)) for name, counter in counter_set.counters.items())
        return sets.setdefault(counter_set.name, len(sets)), counters

    def _cut(self, device: Device, sets: dict[str, int]) -> tuple[Hashable, Values]:
        values = []
        fixed: list[Hashable] = []
        for name, attribute in device.attributes.items():
            value, part = self._attribute(attribute)
            values.append((name, value))
            fixed += (name, part)
        consumption = self._consumption(device)
        sets_of = tuple([sets.setdefault(taken.counter_set, len(sets)) for taken in device.consumes_counters])
        body = (
            consumption,
            sets_of,
            self._capacity(device) if device.capacity else None,
            tuple(fixed),
            tuple([(taint.key, taint.value, taint.effect) for taint in device.taints]),
            device.binds_to_node,
            tuple(device.binding_conditions),
            tuple(device.binding_failure_conditions),
            device.allow_multiple_allocations,
            (device.node_name, device.all_nodes, device.node_selector is None),
        )
        return self.number(body), self._once(tuple(values))

    def _consumption(self, device: Device) -> int:
        # The names of the counter sets are not part of it: they differ between nodes if a driver names the
        # sets after serial numbers.
        taken = device.consumes_counters
        key = tuple(
            [
                (
                    tuple([(name, exact(counter.value)) for name, counter in each.counters.items()]),
                    tuple(each.compatibility_groups),
                )
                for each in taken
            ]
        )
        number, first = self._consumptions.setdefault(key, (len(self._consumptions), taken))
        if first is not taken and first == taken:
            force_setattr(device, "consumes_counters", first)
        elif first is not taken:
            for mine, other in zip(taken, first, strict=True):
                force_setattr(mine, "counters", other.counters)
        return number

    def _capacity(self, device: Device) -> int:
        key = tuple(
            [
                (name, exact(each.value), each.request_policy and self._policy(each))
                for name, each in device.capacity.items()
            ]
        )
        number, first = self._capacities.setdefault(key, (len(self._capacities), device.capacity))
        force_setattr(device, "capacity", first)
        return number

    @staticmethod
    def _policy(capacity: Capacity) -> Hashable:
        policy = capacity.request_policy
        if policy is None:
            return None
        allowed = policy.valid_range
        bounds = (allowed.min, allowed.max, allowed.step) if allowed else ()
        amounts = (policy.default, *bounds, *policy.valid_values)
        return len(bounds), tuple(each and exact(each) for each in amounts)

    def _attribute(self, attribute: Attribute) -> tuple[Hashable, Hashable]:
        """Return the value, and the part of it that belongs to the body."""
        try:
            known = self._attributes.get(attribute)
        except TypeError:  # it holds a list
            fields = tuple(tuple(each) if isinstance(each, list) else each for each in astuple(attribute))
            known = self._attributes.get(fields)
            if known is None:
                known = self._attributes[fields] = _read(attribute, fields)
            return known
        if known is None:
            known = self._attributes[attribute] = _read(attribute, attribute)
        return known


def _read(attribute: Attribute, whole: Hashable) -> tuple[Hashable, Hashable]:
    given = [each for each in astuple(attribute) if each is not None]
    if len(given) != 1:
        return whole, whole
    value = attribute.value
    scalars = value if isinstance(value, tuple) else (value,)
    read = tuple((type(scalar).__name__, scalar) for scalar in scalars)
    # An invalid version or a text that is too long makes the pool invalid or the device unreadable.
    plain = all(
        not isinstance(scalar, Version)
        and not (isinstance(scalar, str) and len(scalar.encode()) > MAX_ATTRIBUTE_LENGTH)
        for scalar in scalars
    )
    if isinstance(value, tuple):
        return ("list", read), len(read) if plain else whole
    return read[0], None if plain else whole
