"""The groups in force travel with the allocation and win over a slice that changed (KEP-5963)."""

from typing import Any

import msgspec
import pytest

from dradriver.allocator import PACKED, Features, Refusal
from dradriver.allocator.snapshot import SNAPSHOT_DRIVER, declared_groups, groups_in_force, snapshot_of
from dradriver.model.claim import (
    Allocation,
    AllocationConfig,
    ClaimStatus,
    DeviceAllocation,
    OpaqueConfig,
    ResourceClaim,
)
from dradriver.model.codec import builtins, from_builtins
from dradriver.model.counters import CounterConsumption
from dradriver.model.device import Device
from dradriver.model.slices import ResourceSlice
from tests.unit.allocator.worlds import DRIVER, claim, devices, request, slice_, try_on

ON = Features(compatibility_groups=True)


def pool(**groups: list[str]) -> list[ResourceSlice]:
    """Partitions of one GPU with these groups."""

    def partition(name: str, own: list[str]) -> dict[str, Any]:
        uses = {"counterSet": "gpu-0", "counters": {"slices": {"value": "1"}}, "compatibilityGroups": own}
        return {"name": name, "attributes": {"name": {"string": name}}, "consumesCounters": [uses]}

    counters = [{"name": "gpu-0", "counters": {"slices": {"value": "7"}}}]
    return [
        slice_("devices", *(partition(name, own) for name, own in groups.items()), count=2),
        slice_("counters", count=2, sharedCounters=counters),
    ]


def named(device: str, name: str = "claim") -> ResourceClaim:
    return claim(request(expression=f"device.attributes['gpu.example.com'].name == '{device}'"), name=name)


def holder(slices: list[ResourceSlice], device: str, features: Features = ON) -> ResourceClaim:
    wanted = named(device, "holder")
    found = try_on(slices, wanted, features=features)["holder"]
    return ResourceClaim(metadata=wanted.metadata, status=ClaimStatus(allocation=found))


def joins(slices: list[ResourceSlice], device: str, *holders: ResourceClaim) -> bool:
    try:
        return devices(try_on(slices, named(device), in_use=holders, features=ON)) == [device]
    except Refusal:
        return False


def test_they_stand_in_the_configuration_under_our_own_name() -> None:
    [entry] = builtins(holder(pool(a=["mig"], b=["vgpu"]), "a").status.allocation)["devices"]["config"]
    assert entry == {
        "source": "FromClass",
        "opaque": {
            "driver": SNAPSHOT_DRIVER,
            "parameters": {"groups": {"0": {"gpu-0": ["mig"]}}, "kind": "CompatibilityGroups"},
        },
    }


def test_nothing_is_recorded_while_the_gate_is_off() -> None:
    allocation = holder(pool(a=[], b=[]), "a", Features()).allocation
    assert allocation is not None
    assert allocation.devices.config == []


@pytest.mark.parametrize("now", [["vgpu"], [], ["other"]])
def test_a_changed_slice_changes_no_decision(now: list[str]) -> None:
    before = pool(a=["mig"], b=["mig"], c=["vgpu"], d=[])
    held = holder(before, "a")
    after = pool(a=now, b=["mig"], c=["vgpu"], d=[])
    for device in ("b", "c", "d"):
        assert joins(after, device, held) is joins(before, device, held) is (device == "b")


def test_a_device_that_left_the_slice_still_says_with_whom_it_goes() -> None:
    held = holder(pool(a=["mig"], b=["mig"], c=["vgpu"]), "a")
    assert joins(pool(b=["mig"], c=["vgpu"]), "b", held)
    assert not joins(pool(b=["mig"], c=["vgpu"]), "c", held)


def test_a_device_without_groups_is_recorded_too() -> None:
    held = holder(pool(a=[], b=["mig"]), "a")
    assert not joins(pool(a=["mig"], b=["mig"]), "b", held)


def test_a_claim_from_elsewhere_is_judged_by_the_slice() -> None:
    held = holder(pool(a=[], b=["mig"]), "a", Features(compatibility_groups=True))
    assert held.allocation is not None
    results = held.allocation.devices.results
    foreign = ResourceClaim(
        metadata=held.metadata,
        status=ClaimStatus(allocation=Allocation(devices=DeviceAllocation(results=results))),
    )
    assert joins(pool(a=["mig"], b=["mig"]), "b", foreign)


def test_what_a_user_writes_into_a_claim_counts_for_nothing() -> None:
    parameters = msgspec.Raw(b'{"groups":{"0":{"gpu-0":["vgpu"]}},"kind":"CompatibilityGroups"}')
    entry = AllocationConfig(source="FromClaim", opaque=OpaqueConfig(SNAPSHOT_DRIVER, parameters))
    assert groups_in_force(Allocation(devices=DeviceAllocation(config=[entry]))) == {}


@pytest.mark.parametrize(
    "parameters", [b"null", b"[]", b'{"kind":"CompatibilityGroups","groups":{"x":{}}}', b"{"]
)
def test_what_cannot_be_read_counts_as_not_recorded(parameters: bytes) -> None:
    entry = AllocationConfig(source="FromClass", opaque=OpaqueConfig(SNAPSHOT_DRIVER, msgspec.Raw(parameters)))
    assert groups_in_force(Allocation(devices=DeviceAllocation(config=[entry]))) == {}


def test_the_largest_claim_needs_two_entries_of_the_size_that_the_api_server_takes() -> None:
    long = "x" * 62
    taken = [CounterConsumption(long + end, {"c": 1}, [long + "1", long + "2"]) for end in "ab"]
    entries = snapshot_of([declared_groups(Device(f"d{n}", consumes_counters=taken)) for n in range(32)], 0)
    assert len(entries) == 2
    assert all(len(bytes(entry.opaque.parameters)) <= 10_240 for entry in entries if entry.opaque)
    recorded = groups_in_force(Allocation(devices=DeviceAllocation(config=entries)))
    assert set(recorded) == set(range(32))


def test_a_claim_without_room_for_an_entry_goes_without() -> None:
    taken = [CounterConsumption("set", {"c": 1}, ["mig"])]
    assert snapshot_of([declared_groups(Device("d", consumes_counters=taken))], 64) == []


def test_after_the_gate_is_turned_off_packed_still_keeps_others_from_the_counter_set() -> None:
    """KEP-5963, version skew: what has no groups may not join a set that is used with groups."""
    slices = pool(a=["mig"], free=[])
    held = holder(slices, "a")
    with pytest.raises(Refusal) as caught:
        try_on(slices, named("free"), in_use=[held], order=PACKED)
    assert "counter set gpu-0 is used with compatibility groups mig, not no groups" in caught.value.text()
    assert devices(try_on(slices, named("free"), order=PACKED)) == ["free"]


def test_gpus_on_which_other_groups_are_in_force_are_not_alike() -> None:
    """On each GPU p and q can be had, each alone; together only where `c` is in force."""

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
