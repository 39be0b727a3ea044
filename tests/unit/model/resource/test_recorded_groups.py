"""The groups in force are recorded in the allocation and take precedence over a changed slice (KEP-5963)."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from dradriver.allocator import ORDERED, PACKED, Features, Order, Refusal
from dradriver.model.encoding.codec import builtins, from_builtins
from dradriver.model.resource.claim import (
    Allocation,
    AllocationConfig,
    ClaimStatus,
    DeviceAllocation,
    DeviceResult,
    OpaqueConfig,
    ResourceClaim,
)
from dradriver.model.resource.recorded_groups import SNAPSHOT_DRIVER, groups_in_force, record_groups_in_config
from dradriver.model.resource.slices import ResourceSlice
from tests.unit.allocator.worlds import DRIVER, claim, devices, request, slice_, try_on

ON = Features(compatibility_groups=True)


def pool(**groups: list[str]) -> list[ResourceSlice]:
    """Return partitions of one GPU with these groups."""

    def partition(name: str, own: list[str]) -> dict[str, Any]:
        uses = {"counterSet": "gpu-0", "counters": {"slices": {"value": "1"}}, "compatibilityGroups": own}
        return {"name": name, "attributes": {"name": {"string": name}}, "consumesCounters": [uses]}

    counters = [{"name": "gpu-0", "counters": {"slices": {"value": "7"}}}]
    return [
        slice_("devices", *(partition(name, own) for name, own in groups.items()), count=2),
        slice_("counters", count=2, sharedCounters=counters),
    ]


NAMED = "device.attributes['gpu.example.com'].name == '{}'"


def named(device: str, name: str = "claim") -> ResourceClaim:
    return claim(request(expression=NAMED.format(device)), name=name)


def holder(slices: list[ResourceSlice], device: str, features: Features = ON) -> ResourceClaim:
    wanted = named(device, "holder")
    found = try_on(slices, wanted, features=features)["holder"]
    return ResourceClaim(metadata=wanted.metadata, status=ClaimStatus(allocation=found))


def joins(slices: list[ResourceSlice], device: str, *holders: ResourceClaim) -> bool:
    try:
        return devices(try_on(slices, named(device), in_use=holders, features=ON)) == [device]
    except Refusal:
        return False


def test_groups_are_recorded_in_the_result_by_counter_set() -> None:
    held = holder(pool(a=["mig"], b=["vgpu"]), "a")
    assert held.results[0].compatibility_groups == {"gpu-0": ["mig"]}
    assert held.allocation is not None
    assert held.allocation.devices.config == []


def test_groups_are_recorded_in_the_configuration_if_the_field_is_dropped() -> None:
    allocation = holder(pool(a=["mig"], b=["vgpu"]), "a").allocation
    assert allocation is not None
    devices_ = builtins(record_groups_in_config(allocation))["devices"]
    assert devices_["config"] == [
        {
            "source": "FromClass",
            "opaque": {
                "driver": SNAPSHOT_DRIVER,
                "parameters": {"groups": {"0": {"gpu-0": ["mig"]}}, "kind": "CompatibilityGroups"},
            },
        }
    ]
    assert "compatibilityGroups" not in devices_["results"][0]


def test_a_device_with_groups_on_one_counter_set_lists_the_others_that_it_consumes_from() -> None:
    uses = [
        {"counterSet": "gpu-0", "counters": {"slices": {"value": "1"}}, "compatibilityGroups": ["mig"]},
        {"counterSet": "gpu-1", "counters": {"slices": {"value": "1"}}},
    ]
    sets = [{"name": name, "counters": {"slices": {"value": "7"}}} for name in ("gpu-0", "gpu-1")]
    slices = [
        slice_(
            "devices", {"name": "a", "attributes": {"name": {"string": "a"}}, "consumesCounters": uses}, count=2
        ),
        slice_("counters", count=2, sharedCounters=sets),
    ]
    assert holder(slices, "a").results[0].compatibility_groups == {"gpu-0": ["mig"], "gpu-1": []}


def test_nothing_is_recorded_while_the_gate_is_off_or_no_device_has_groups() -> None:
    for features in (Features(), ON):
        allocation = holder(pool(a=[], b=[]), "a", features).allocation
        assert allocation is not None
        assert record_groups_in_config(allocation) == allocation
        assert allocation.devices.results[0].compatibility_groups == {}
        assert groups_in_force(allocation) == [None]


def in_config(held: ResourceClaim) -> ResourceClaim:
    """Return the claim as an API server stores it that drops the field."""
    assert held.allocation is not None
    return replace(held, status=ClaimStatus(allocation=record_groups_in_config(held.allocation)))


def as_served(held: ResourceClaim) -> ResourceClaim:
    return from_builtins(ResourceClaim, builtins(held))


@pytest.mark.parametrize("kept", [as_served, in_config])
@pytest.mark.parametrize("now", [["vgpu"], [], ["other"]])
def test_a_changed_slice_changes_no_decision(
    now: list[str], kept: Callable[[ResourceClaim], ResourceClaim]
) -> None:
    before = pool(a=["mig"], b=["mig"], c=["vgpu"], d=[])
    held = kept(holder(before, "a"))
    after = pool(a=now, b=["mig"], c=["vgpu"], d=[])
    for device in ("b", "c", "d"):
        assert joins(after, device, held) is joins(before, device, held) is (device == "b")


def test_a_device_that_left_the_slice_keeps_its_recorded_groups() -> None:
    held = holder(pool(a=["mig"], b=["mig"], c=["vgpu"]), "a")
    assert joins(pool(b=["mig"], c=["vgpu"]), "b", held)
    assert not joins(pool(b=["mig"], c=["vgpu"]), "c", held)


@pytest.mark.parametrize("kept", [as_served, in_config])
def test_a_record_counts_for_devices_without_groups_too(
    kept: Callable[[ResourceClaim], ResourceClaim],
) -> None:
    """A device that the record does not list has no groups, also if its slice has some now."""

    def two_gpus(own: list[str]) -> list[ResourceSlice]:
        def partition(name: str, gpu: str, groups: list[str]) -> dict[str, Any]:
            uses = {"counterSet": gpu, "counters": {"slices": {"value": "1"}}, "compatibilityGroups": groups}
            return {"name": name, "attributes": {"name": {"string": name}}, "consumesCounters": [uses]}

        members = [
            partition("a", "gpu-0", ["mig"]),
            partition("b", "gpu-1", own),
            partition("c", "gpu-1", ["mig"]),
        ]
        sets = [{"name": name, "counters": {"slices": {"value": "7"}}} for name in ("gpu-0", "gpu-1")]
        return [
            slice_("devices", *members, partition("d", "gpu-1", []), count=2),
            slice_("counters", count=2, sharedCounters=sets),
        ]

    both = claim(request("one", NAMED.format("a")), request("two", NAMED.format("b")), name="both")
    found = try_on(two_gpus([]), both, features=ON)["both"]
    held = kept(ResourceClaim(metadata=both.metadata, status=ClaimStatus(allocation=found)))
    assert [joins(two_gpus(["mig"]), name, held) for name in ("c", "d")] == [False, True]


def test_a_claim_without_a_record_has_the_groups_of_the_slice() -> None:
    """None of its devices had groups, or it was allocated by a scheduler that does not record groups."""
    held = holder(pool(a=[], b=["mig"]), "a")
    assert [joins(pool(a=["mig"], b=["mig"], c=[]), name, held) for name in ("b", "c")] == [True, False]
    assert not joins(pool(a=[], b=["mig"]), "b", held)


def test_a_record_in_the_spec_of_a_claim_does_not_count() -> None:
    parameters = msgspec.Raw(b'{"groups":{"0":{"gpu-0":["vgpu"]}},"kind":"CompatibilityGroups"}')
    entry = AllocationConfig(source="FromClaim", opaque=OpaqueConfig(SNAPSHOT_DRIVER, parameters))
    results = [DeviceResult(request="r", driver=DRIVER, pool="pool", device="a")]
    assert groups_in_force(Allocation(devices=DeviceAllocation(results=results, config=[entry]))) == [None]


@pytest.mark.parametrize(
    "parameters", [b"null", b"[]", b'{"kind":"CompatibilityGroups","groups":{"x":{}}}', b"{"]
)
def test_an_unreadable_record_counts_as_not_recorded(parameters: bytes) -> None:
    entry = AllocationConfig(source="FromClass", opaque=OpaqueConfig(SNAPSHOT_DRIVER, msgspec.Raw(parameters)))
    results = [DeviceResult(request="r", driver=DRIVER, pool="pool", device="a")]
    assert groups_in_force(Allocation(devices=DeviceAllocation(results=results, config=[entry]))) == [None]


def holding(*recorded: dict[str, list[str]], config: Sequence[AllocationConfig] = ()) -> Allocation:
    results = [
        DeviceResult(request="r", driver=DRIVER, pool="pool", device=f"d{n}", compatibility_groups=groups)
        for n, groups in enumerate(recorded)
    ]
    return Allocation(devices=DeviceAllocation(results=results, config=list(config)))


def test_the_largest_claim_needs_two_entries_of_the_size_that_the_api_server_accepts() -> None:
    long = "x" * 62
    groups = {long + end: [long + "1", long + "2"] for end in "ab"}
    allocation = record_groups_in_config(holding(*[groups] * 32))
    entries = allocation.devices.config
    assert len(entries) == 2
    assert all(len(bytes(entry.opaque.parameters)) <= 10_240 for entry in entries if entry.opaque)
    assert groups_in_force(allocation) == groups_in_force(holding(*[groups] * 32))


def test_a_claim_without_space_for_an_entry_has_no_record() -> None:
    full = [AllocationConfig(source="FromClaim")] * 64
    allocation = record_groups_in_config(holding({"set": ["mig"]}, config=full))
    assert (allocation.devices.config, groups_in_force(allocation)) == (full, [None])


@pytest.mark.parametrize("order", [ORDERED, PACKED], ids=lambda order: order.name)
def test_recorded_groups_still_block_a_counter_set_after_the_gate_is_turned_off(order: Order) -> None:
    """KEP-5963, version skew: a device without groups may not join a set that is used with groups."""
    held = holder(pool(a=["mig"], free=[]), "a")
    slices = pool(a=[], free=[])
    with pytest.raises(Refusal) as caught:
        try_on(slices, named("free"), in_use=[held], order=order)
    assert "counter set gpu-0 is used with compatibility groups mig, not no groups" in caught.value.text()
    assert devices(try_on(slices, named("free"), order=order)) == ["free"]


def test_with_the_gate_off_packed_skips_the_devices_with_groups_only() -> None:
    slices = pool(a=["mig"], free=[])
    assert devices(try_on(slices, named("free"), order=PACKED)) == ["free"]
    assert not allocatable(slices, "free", ORDERED)
    assert not allocatable(slices, "a", PACKED)


def allocatable(slices: list[ResourceSlice], device: str, order: Order) -> bool:
    try:
        try_on(slices, named(device), order=order)
    except Refusal:
        return False
    return True


def test_gpus_with_other_groups_in_force_are_not_equivalent() -> None:
    """On each GPU p and q are available alone. They are available together only if `c` is in force."""

    def gpu(name: str, in_force: str) -> list[dict[str, Any]]:
        found = []
        for device, groups, slots in (("held", in_force, "1"), ("p", "ac", "0"), ("q", "bc", "0")):
            uses = {
                "counterSet": name,
                "counters": {"slots": {"value": slots}},
                "compatibilityGroups": [*groups],
            }
            attributes = {"gpu": {"string": name}}
            found.append({"name": f"{name}-{device}", "attributes": attributes, "consumesCounters": [uses]})
        return found

    names = {"gpu-0": "ab", "gpu-1": "ac"}
    counters = [{"name": name, "counters": {"slots": {"value": "1"}}} for name in names]
    members = [device for name, in_force in names.items() for device in gpu(name, in_force)]
    slices = [slice_("devices", *members, count=2), slice_("counters", count=2, sharedCounters=counters)]
    results = [{"request": "r", "driver": DRIVER, "pool": "pool", "device": f"{name}-held"} for name in names]
    held = from_builtins(ResourceClaim, {"metadata": {"name": "held", "namespace": "default"},
        "spec": {"devices": {}}, "status": {"allocation": {"devices": {"results": results}}}})  # fmt: skip
    pair = claim(request("one"), request("two"), constraints=[{"matchAttribute": f"{DRIVER}/gpu"}])
    assert devices(try_on(slices, pair, in_use=[held], features=ON)) == ["gpu-1-p", "gpu-1-q"]
