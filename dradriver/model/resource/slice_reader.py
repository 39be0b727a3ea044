"""Decodes the ResourceSlices of a large cluster and stores equal parts of their devices only once.

The nodes of a cluster are similar: consumption, capacities and most attributes of a device often occur in a
thousand slices with equal bytes. Each of these parts is decoded only once. Devices can share the decoded parts,
because values never change.
"""

from typing import Final, TypeVar, cast

import msgspec

from dradriver.errors import InvalidObjectError
from dradriver.model.core.meta import ObjectMeta
from dradriver.model.core.node_selector import NodeSelector
from dradriver.model.encoding.codec import Value, decode
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Attribute, Capacity, Device, Taint
from dradriver.model.resource.slices import PoolReference, ResourceSlice, ResourceSliceSpec

__all__ = ["SliceReader"]

T = TypeVar("T")


class _RawDevice(Value, frozen=True):
    """A `Device` with its large parts still in JSON."""

    name: str
    attributes: dict[str, msgspec.Raw] = {}
    capacity: dict[str, msgspec.Raw] = {}
    consumes_counters: list[msgspec.Raw] = []
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
    """Decodes slices, and keeps each decoded part for slices that contain an equal part."""

    def __init__(self) -> None:
        self._parts: dict[tuple[type, bytes], object] = {}

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
        fields["shared_counters"] = [self._part(CounterSet, each) for each in raw.spec.shared_counters]
        spec = ResourceSliceSpec(**fields)
        return ResourceSlice(api_version=raw.api_version, kind=raw.kind, metadata=raw.metadata, spec=spec)

    def _device(self, raw: _RawDevice) -> Device:
        return Device(
            raw.name,
            {name: self._part(Attribute, each) for name, each in raw.attributes.items()},
            {name: self._part(Capacity, each) for name, each in raw.capacity.items()},
            [self._part(CounterConsumption, each) for each in raw.consumes_counters],
            raw.node_name,
            raw.node_selector,
            raw.all_nodes,
            raw.taints,
            raw.binds_to_node,
            raw.binding_conditions,
            raw.binding_failure_conditions,
            raw.allow_multiple_allocations,
        )

    def _part(self, wanted: type[T], raw: msgspec.Raw) -> T:
        key = wanted, bytes(raw)
        known = self._parts.get(key)
        if known is None:
            known = self._parts[key] = decode(wanted, key[1])
        return cast(T, known)
