"""Decodes the ResourceSlices of a large cluster and stores equal parts of their devices only once.

The nodes of a cluster are similar: names, consumption, capacities and most attributes of devices often occur in
a thousand slices with equal bytes. Each of these parts is decoded only once. Devices can share the decoded
parts, because values never change.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, Generic, TypeVar

import msgspec
from msgspec.structs import force_setattr

from dradriver.errors import InvalidObjectError
from dradriver.model.core.meta import ObjectMeta
from dradriver.model.core.node_selector import NodeSelector
from dradriver.model.encoding.codec import Value, decode
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Attribute, Capacity, Device, Taint
from dradriver.model.resource.slices import PoolReference, ResourceSlice, ResourceSliceSpec

__all__ = ["SliceReader"]

T = TypeVar("T")

_MAX_PARTS: Final = 8192
"""Parts of one type that a reader keeps at least, if it has read so many: those that it has read last."""
_NOTHING: Final = msgspec.Raw(b"{}")
_EMPTY: Final = msgspec.Raw(b"[]")


class _RawDevice(Value, frozen=True):
    """A `Device` with its large parts still in JSON."""

    name: msgspec.Raw
    attributes: msgspec.Raw = _NOTHING
    capacity: msgspec.Raw = _NOTHING
    consumes_counters: msgspec.Raw = _EMPTY
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: list[Taint] = []
    binds_to_node: bool | None = None
    binding_conditions: list[str] = []
    binding_failure_conditions: list[str] = []
    allow_multiple_allocations: bool | None = None


class _RawSpec(Value, frozen=True, kw_only=True):
    """A `ResourceSliceSpec` with its large parts still in JSON."""

    driver: str
    pool: PoolReference
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: list[_RawDevice] = []
    shared_counters: list[msgspec.Raw] = []
    partition_type_attribute: str | None = None
    skip_node_operations: list[str] = []


class _RawSlice(Value, frozen=True, kw_only=True):
    """A `ResourceSlice` with its large parts still in JSON."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: _RawSpec


_RAW: Final = msgspec.json.Decoder(_RawSlice)


class SliceReader:
    """Decodes slices, and keeps decoded parts for slices that contain equal parts.

    The parts that it has read last are kept, so a reader can follow a cluster as long as it wants.
    """

    def __init__(self) -> None:
        self._names = _Parts(partial(decode, str))
        self._attribute_maps = _Parts(self._read_attributes)
        self._attributes = _Parts(partial(decode, Attribute))
        self._capacities = _Parts(partial(decode, dict[str, Capacity]))
        self._consumptions = _Parts(partial(decode, tuple[CounterConsumption, ...]))
        self._counter_sets = _Parts(partial(decode, CounterSet))

    def read(self, data: bytes, subject: str = "") -> ResourceSlice:
        """Return the result of `decode(ResourceSlice, data, subject)`.

        Raises:
            InvalidObjectError: the text is not a ResourceSlice. The problem names the field.
        """
        try:
            return self._slice(_RAW.decode(data))
        except (InvalidObjectError, msgspec.DecodeError, UnicodeDecodeError):
            # After any failure `decode` is used, because it handles nulls and its error names the field.
            return decode(ResourceSlice, data, subject)

    def _slice(self, raw: _RawSlice) -> ResourceSlice:
        fields = {name: getattr(raw.spec, name) for name in _RawSpec.__struct_fields__}
        fields["devices"] = [self._device(device) for device in raw.spec.devices]
        fields["shared_counters"] = [self._counter_sets.read(each) for each in raw.spec.shared_counters]
        spec = ResourceSliceSpec(**fields)
        return ResourceSlice(api_version=raw.api_version, kind=raw.kind, metadata=raw.metadata, spec=spec)

    def _device(self, raw: _RawDevice) -> Device:
        device = Device(
            self._names.read(raw.name),
            {},
            {},
            self._consumptions.read(raw.consumes_counters),
            raw.node_name,
            raw.node_selector,
            raw.all_nodes,
            raw.taints,
            raw.binds_to_node,
            raw.binding_conditions,
            raw.binding_failure_conditions,
            raw.allow_multiple_allocations,
        )
        # The constructor would copy the mappings.
        force_setattr(device, "attributes", self._attribute_maps.read(raw.attributes))
        force_setattr(device, "capacity", self._capacities.read(raw.capacity))
        return device

    def _read_attributes(self, data: bytes) -> dict[str, Attribute]:
        # One attribute of a map is often unique, such as a UUID, and the others are not.
        raw = decode(dict[str, msgspec.Raw], data)
        return {name: self._attributes.read(each) for name, each in raw.items()}


class _Parts(Generic[T]):
    """Decodes parts of one type. Equal texts become one value while the reader keeps this value.

    If `_newest` is full, it becomes `_older`, and the values that nobody has read since then are forgotten.
    """

    def __init__(self, read: Callable[[bytes], T]) -> None:
        self._read = read
        self._newest: dict[bytes, T] = {}
        self._older: dict[bytes, T] = {}

    def read(self, raw: msgspec.Raw) -> T:
        key = bytes(raw)
        known = self._newest.get(key)
        if known is None:
            known = self._older.get(key)
            if known is None:
                known = self._read(key)
            if len(self._newest) >= _MAX_PARTS:
                self._older, self._newest = self._newest, {}
            self._newest[key] = known
        return known
