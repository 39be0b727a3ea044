"""`SliceReader` reads what `decode` reads, and keeps equal parts once."""

import json
from typing import Any

import pytest

from dradriver.errors import InvalidObjectError
from dradriver.model.encoding.codec import decode
from dradriver.model.resource import slice_reader
from dradriver.model.resource.device import Device
from dradriver.model.resource.slice_reader import SliceReader, _RawDevice, _RawSlice, _RawSpec
from dradriver.model.resource.slices import ResourceSlice, ResourceSliceSpec

DEVICE: dict[str, Any] = {
    "name": "gpu-0",
    "attributes": {"uuid": {"string": "a"}, "slots": {"int": 3}, "list": {"strings": ["a", "b"]}},
    "capacity": {"memory": {"value": "40Gi"}},
    "consumesCounters": [{"counterSet": "set", "counters": {"memory": {"value": "1"}}}],
    "taints": [{"key": "a", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}],
    "bindingConditions": ["a"],
    "bindingFailureConditions": ["b"],
    "bindsToNode": True,
    "allowMultipleAllocations": True,
    "nodeName": "node-1",
}


def text(**spec: object) -> bytes:
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "slice-1"},
        "spec": {
            "driver": "gpu.example.com",
            "pool": {"name": "pool", "generation": 1, "resourceSliceCount": 1},
            "perDeviceNodeSelection": True,
            **spec,
        },
    }
    return json.dumps(body).encode()


@pytest.mark.parametrize(
    "spec",
    [
        {"devices": [DEVICE, {"name": "gpu-1"}]},
        {"sharedCounters": [{"name": "set", "counters": {"memory": {"value": 8}}}]},
        {"devices": [{"name": "gpu-0", "attributes": None}], "nodeName": None},
        {"skipNodeOperations": ["Prepare"], "partitionTypeAttribute": "a/b", "unknown": 1},
    ],
)
def test_it_reads_what_decode_reads(spec: dict[str, object]) -> None:
    assert SliceReader().read(text(**spec)) == decode(ResourceSlice, text(**spec))


def test_equal_parts_are_one_object() -> None:
    reader = SliceReader()
    first, second = (reader.read(text(devices=[DEVICE])).spec.devices[0] for _ in range(2))
    assert first is not second
    assert first.consumes_counters[0] is second.consumes_counters[0]
    assert first.attributes is second.attributes
    assert first.capacity is second.capacity


def test_a_device_with_a_unique_attribute_shares_the_others() -> None:
    reader = SliceReader()
    unique = {**DEVICE, "attributes": {**DEVICE["attributes"], "uuid": {"string": "b"}}}
    first, second = (reader.read(text(devices=[each])).spec.devices[0] for each in (DEVICE, unique))
    assert first.attributes["slots"] is second.attributes["slots"]
    assert second.attributes["uuid"].value == "b"


def test_parts_that_are_not_read_any_more_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slice_reader, "_MAX_PARTS", 2)
    reader = SliceReader()

    def read(name: str) -> str:
        return reader.read(text(devices=[DEVICE, {"name": name}])).spec.devices[0].name

    often = read("gpu-1")
    rare = reader.read(text(devices=[{"name": "rare"}])).spec.devices[0].name
    names = [read(f"gpu-{number}") for number in range(2, 9)]
    assert all(name is often for name in names)
    assert reader.read(text(devices=[{"name": "rare"}])).spec.devices[0].name is not rare


@pytest.mark.parametrize(
    "spec",
    [
        {"devices": 1},
        {"devices": [{"name": 1}]},
        {"devices": [{**DEVICE, "capacity": {"memory": {"value": "many"}}}]},
        {"devices": [{**DEVICE, "consumesCounters": [1]}]},
        {"sharedCounters": [{}]},
    ],
)
def test_errors_are_those_of_decode(spec: dict[str, object]) -> None:
    errors = []
    for read in (SliceReader().read, lambda data: decode(ResourceSlice, data)):
        with pytest.raises(InvalidObjectError) as caught:
            read(text(**spec))
        errors.append(caught.value.problems)
    assert errors[0] == errors[1]


@pytest.mark.parametrize(
    ("raw", "real"), [(_RawDevice, Device), (_RawSpec, ResourceSliceSpec), (_RawSlice, ResourceSlice)]
)
def test_raw_types_have_all_fields(raw: type, real: type) -> None:
    assert raw.__struct_fields__ == real.__struct_fields__  # type: ignore[attr-defined]
