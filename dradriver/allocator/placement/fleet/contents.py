"""The content of slices, in a form in which equal slices are found quickly and stored once.

Most nodes of a cluster have the same hardware. Their slices differ in names (of slice, pool, node, devices and
counter sets) and in the values of some attributes, such as serial numbers. Everything else is equal and takes
most of the memory. So each device is divided into three parts: its name, the values of its attributes
(`columns`), and a *body* with everything else. Equal bodies have one number. Large parts of equal bodies are
stored once.

Names and values can make a pool invalid. Therefore a value that breaks a rule stays in the body, and
`has_valid_names` is False if a name breaks a rule.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from itertools import count
from typing import TypeAlias, TypeVar

from msgspec.structs import astuple, force_setattr

from dradriver.allocator.placement.fleet.columns import ColumnInterner, Columns
from dradriver.allocator.supply.pools import offered_devices
from dradriver.model import names
from dradriver.model.quantity import exact_key
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import MAX_ATTRIBUTE_LENGTH, Attribute, Capacity, Device, Version
from dradriver.model.resource.rules import counter_set_problems, device_problems
from dradriver.model.resource.slices import ResourceSlice

__all__ = ["ContentsInterner", "SliceContents", "Take"]

T = TypeVar("T")

Take: TypeAlias = tuple[int, tuple[int, ...]]
"""What a device takes of counter sets: the number of its consumption, and the sets.

The sets are numbered in the order in which the slice first names them. Two devices with equal takes take equal
amounts of equal counters and have equal compatibility groups.
"""


@dataclass(frozen=True, slots=True)
class SliceContents:
    """The content of one slice.

    Attributes:
        source: the slice.
        key: the key of the content. Slices that differ only in names and values of attributes have equal keys.
        devices: the names of its devices.
        sets: the names of its counter sets, in the order in which they first occur in the slice.
        columns: the values of the attributes of its devices.
        kinds: for each device, a number. Devices with equal numbers have the same names of attributes and equal
            capacities, so a selector distinguishes them only by the values of attributes.
        bodies: for each device, the number of its body.
        takes: for each device, what it takes of counter sets.
        counters: for each counter set of the slice, the number of its counters. Sets with equal numbers have
            equal amounts of equal counters.
        binding: the devices with binding conditions, as bits.
        shareable: the devices that several claims may hold, as bits.
        has_groups: whether a device has compatibility groups.
        is_valid: whether the parts of the slice break no rule, apart from names and from references to
            counters.
        has_valid_names: whether each name of a device or counter set is valid. Uniqueness in the pool is not
            checked.
    """

    source: ResourceSlice
    key: Hashable
    devices: tuple[str, ...]
    sets: tuple[str, ...]
    columns: Columns
    kinds: tuple[int, ...]
    bodies: tuple[int, ...]
    takes: tuple[Take, ...]
    counters: tuple[int, ...]
    binding: int
    shareable: int
    has_groups: bool
    is_valid: bool
    has_valid_names: bool


class ContentsInterner:
    """Divides slices into parts and stores equal parts once. `clear` forgets the stored parts.

    Attributes:
        columns: stores the values of attributes.
    """

    def __init__(self) -> None:
        self.columns = ColumnInterner()
        self._next = count()
        self._numbers: dict[Hashable, int] = {}
        self._consumptions: dict[Hashable, tuple[int, tuple[CounterConsumption, ...]]] = {}
        self._with_groups: set[int] = set()
        self._capacities: dict[Hashable, tuple[int, dict[str, Capacity]]] = {}
        self._attributes: dict[Hashable, tuple[Hashable, Hashable]] = {}
        self._interned: dict[Hashable, Hashable] = {}
        self._valid_names: dict[tuple[str, ...], bool] = {}
        self._valid_bodies: dict[int, bool] = {}

    def contents(self, source: ResourceSlice) -> SliceContents:
        """Return the content of the slice.

        Side effect: parts of the slice's devices are replaced by equal parts that are already stored.
        """
        spec = source.spec
        sets: dict[str, int] = {}
        shared = tuple(self._counter_set(counter_set, sets) for counter_set in spec.shared_counters)
        offered = offered_devices(source)
        values: dict[str, list[Hashable]] = {}
        kinds, bodies, takes = [], [], []
        for at, device in enumerate(offered):
            kind = self._kind(device, at, len(offered), values)
            take = self._take(device, sets)
            kinds.append(kind)
            takes.append(take)
            bodies.append(self._body(device, kind, take))
        devices = self._intern(tuple([device.name for device in offered]))
        set_names = self._intern(tuple(sets))
        body_numbers = self._intern(tuple(bodies))
        # An explicit false differs from an absent field, because setting the field requires a feature gate.
        per_device = spec.per_device_node_selection
        skipped = tuple(spec.skip_node_operations)
        key = shared, per_device, spec.partition_type_attribute, skipped, body_numbers
        is_valid = (
            not per_device
            and spec.node_selector is None
            and all(self._is_valid_body(*each) for each in zip(body_numbers, offered, strict=True))
            and not any(next(counter_set_problems(each), None) for each in spec.shared_counters)
        )
        return SliceContents(
            source,
            self.number(key),
            devices,
            set_names,
            self.columns.of_slice(values),
            self._intern(tuple(kinds)),
            body_numbers,
            self._intern(tuple(takes)),
            tuple([self.number(counters) for _, counters in shared]),
            sum([1 << at for at, device in enumerate(offered) if device.binding_conditions]),
            sum([1 << at for at, device in enumerate(offered) if device.shareable]),
            not self._with_groups.isdisjoint([consumption for consumption, _ in takes]),
            is_valid,
            self._are_valid(devices + set_names),
        )

    def number(self, key: Hashable) -> int:
        """Return the number of a key. Equal keys have equal numbers."""
        known = self._numbers.get(key)
        if known is None:
            known = self._numbers[key] = next(self._next)
        return known

    @property
    def size(self) -> int:
        """Return the number of stored parts."""
        return len(self._numbers) + len(self._interned) + len(self._attributes) + self.columns.size

    def clear(self) -> None:
        """Forget the stored parts. Numbers are not reused, so a part that is stored later gets a new number."""
        for known in (self._numbers, self._interned, self._attributes, self._valid_names, self._valid_bodies):
            known.clear()
        self.columns.clear()

    def _intern(self, value: T) -> T:
        return self._interned.setdefault(value, value)  # type: ignore[return-value]

    def _is_valid_body(self, body: int, device: Device) -> bool:
        """Return whether a device with this body breaks no rule, apart from names."""
        known = self._valid_bodies.get(body)
        if known is None:
            known = self._valid_bodies[body] = next(device_problems(device), None) is None
        return known

    def _are_valid(self, texts: tuple[str, ...]) -> bool:
        known = self._valid_names.get(texts)
        if known is None:
            known = self._valid_names[texts] = all(names.dns_label(text) is None for text in texts)
        return known

    @staticmethod
    def _counter_set(counter_set: CounterSet, sets: dict[str, int]) -> tuple[int, Hashable]:
        counters = tuple((name, exact_key(counter.value)) for name, counter in counter_set.counters.items())
        return sets.setdefault(counter_set.name, len(sets)), counters

    def _kind(self, device: Device, at: int, devices: int, values: dict[str, list[Hashable]]) -> int:
        """Return the number of the device's kind, and add the values of its attributes to `values`.

        Args:
            device: the device.
            at: its position in the slice.
            devices: the number of devices in the slice.
            values: for each attribute, the value of each device.
        """
        fixed: list[Hashable] = []
        for name, attribute in device.attributes.items():
            value, part = self._attribute(attribute)
            column = values.get(name)
            if column is None:
                column = values[name] = [None] * devices
            column[at] = value
            fixed += (name, part)
        capacity = self._capacity(device) if device.capacity else None
        return self.number((capacity, tuple(fixed), device.allow_multiple_allocations))

    def _take(self, device: Device, sets: dict[str, int]) -> Take:
        taken = device.consumes_counters
        sets_of = tuple([sets.setdefault(each.counter_set, len(sets)) for each in taken])
        return self._intern((self._consumption(device), sets_of))

    def _body(self, device: Device, kind: int, take: Take) -> int:
        return self.number(
            (
                take,
                kind,
                tuple([(taint.key, taint.value, taint.effect) for taint in device.taints]),
                device.binds_to_node,
                tuple(device.binding_conditions),
                tuple(device.binding_failure_conditions),
                (device.node_name, device.all_nodes, device.node_selector is None),
            )
        )

    def _consumption(self, device: Device) -> int:
        # The key does not contain the names of counter sets. They differ between nodes if a driver names the
        # sets after serial numbers.
        taken = device.consumes_counters
        key = tuple(
            [
                (
                    tuple([(name, exact_key(counter.value)) for name, counter in each.counters.items()]),
                    tuple(each.compatibility_groups),
                )
                for each in taken
            ]
        )
        number, stored = self._consumptions.setdefault(key, (len(self._consumptions), taken))
        if stored is taken and any(each.compatibility_groups for each in taken):
            self._with_groups.add(number)
        if stored is not taken and stored == taken:
            force_setattr(device, "consumes_counters", stored)
        elif stored is not taken:
            for mine, other in zip(taken, stored, strict=True):
                force_setattr(mine, "counters", other.counters)
        return number

    def _capacity(self, device: Device) -> int:
        key = tuple(
            [
                (name, exact_key(each.value), each.request_policy and self._policy(each))
                for name, each in device.capacity.items()
            ]
        )
        number, stored = self._capacities.setdefault(key, (len(self._capacities), device.capacity))
        force_setattr(device, "capacity", stored)
        return number

    @staticmethod
    def _policy(capacity: Capacity) -> Hashable:
        policy = capacity.request_policy
        if policy is None:
            return None
        allowed = policy.valid_range
        bounds = (allowed.min, allowed.max, allowed.step) if allowed else ()
        amounts = (policy.default, *bounds, *policy.valid_values)
        return len(bounds), tuple(each and exact_key(each) for each in amounts)

    def _attribute(self, attribute: Attribute) -> tuple[Hashable, Hashable]:
        """Return the value of an attribute, and the part of the attribute that belongs to the body."""
        try:
            known = self._attributes.get(attribute)
        except TypeError:  # an attribute with a list is not hashable
            fields = tuple(tuple(each) if isinstance(each, list) else each for each in astuple(attribute))
            known = self._attributes.get(fields)
            if known is None:
                known = self._attributes[fields] = _split_attribute(attribute, fields)
            return known
        if known is None:
            known = self._attributes[attribute] = _split_attribute(attribute, attribute)
        return known


def _split_attribute(attribute: Attribute, key: Hashable) -> tuple[Hashable, Hashable]:
    present = [each for each in astuple(attribute) if each is not None]
    if len(present) != 1:
        return key, key
    value = attribute.value
    scalars = value if isinstance(value, tuple) else (value,)
    read = tuple((type(scalar).__name__, scalar) for scalar in scalars)
    # Versions and long texts stay in the body, because an invalid one makes the pool or the device invalid.
    plain = all(
        not isinstance(scalar, Version)
        and not (isinstance(scalar, str) and len(scalar.encode()) > MAX_ATTRIBUTE_LENGTH)
        for scalar in scalars
    )
    if isinstance(value, tuple):
        return ("list", read), len(read) if plain else key
    return read[0], None if plain else key
