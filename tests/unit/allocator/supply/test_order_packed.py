"""`PACKED`: the smallest sufficient device, in the fullest counter set, that spoils least."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from dradriver.allocator import ORDERED, PACKED, Features, Order, Refusal
from dradriver.model.resource.claim import Allocation, ClaimStatus, ResourceClaim
from dradriver.model.resource.slices import ResourceSlice
from tests.unit.allocator.worlds import a100, claim, devices, profile, request, slice_, try_on


def held(wanted: ResourceClaim, allocation: Allocation) -> ResourceClaim:
    return replace(wanted, status=ClaimStatus(allocation=allocation))


def placed(slices: Sequence[ResourceSlice], *profiles: str) -> list[str]:
    """Return the devices that the claims get, one claim after the other."""
    holders: list[ResourceClaim] = []
    names = []
    for number, wanted in enumerate(profiles):
        one = claim(request(expression=profile(wanted)), name=f"c{number}")
        found = try_on(slices, one, in_use=holders, order=PACKED)
        holders.append(held(one, found[one.metadata.uid]))
        names += devices(found)
    return names


def gpu(device: str) -> str:
    return device.split("-mig-", maxsplit=1)[0]


def test_a_request_for_any_device_gets_the_smallest() -> None:
    large = {"name": "large", "consumesCounters": [{"counterSet": "set", "counters": {"c": {"value": "4"}}}]}
    small = {"name": "small", "consumesCounters": [{"counterSet": "set", "counters": {"c": {"value": "1"}}}]}
    shared = slice_("counters", count=2, sharedCounters=[{"name": "set", "counters": {"c": {"value": "4"}}}])
    slices = [slice_("devices", large, small, count=2), shared]
    assert devices(try_on(slices, claim(request()), order=PACKED)) == ["small"]
    assert devices(try_on(slices, claim(request()), order=ORDERED)) == ["large"]


def test_a_partition_is_placed_on_a_partitioned_gpu() -> None:
    first, *others = placed(a100(4), *["1g.5gb"] * 7)
    assert {gpu(device) for device in others} == {gpu(first)}


def test_a_small_partition_avoids_placements_of_large_ones() -> None:
    """One 1g and one 2g on the same GPU leave a placement for a 4g or a 3g."""
    names = placed(a100(1), "1g.5gb", "2g.10gb", "4g.20gb")
    assert len(names) == 3


def test_full_gpus_stay_undivided_as_long_as_possible() -> None:
    names = placed(a100(2), "1g.5gb", "2g.10gb", "3g.20gb", "7g.40gb")
    assert len({gpu(device) for device in names[:3]}) == 1
    assert gpu(names[3]) != gpu(names[0])


def test_a_device_with_binding_conditions_comes_last() -> None:
    slow = {"name": "a", "bindingConditions": ["ready"], "bindingFailureConditions": ["failed"]}
    slices = [slice_("a", slow, "b")]
    assert devices(try_on(slices, claim(request()), order=PACKED)) == ["b"]
    assert devices(try_on(slices, claim(request()), order=ORDERED)) == ["a"]


@pytest.mark.parametrize(("order", "taken"), [(PACKED, ["free"]), (ORDERED, [])])
def test_with_the_gate_off_it_skips_devices_with_groups_where_kubernetes_skips_pools(
    order: Order, taken: list[str]
) -> None:
    """KEP-5963, version skew, "Devices skipped"."""
    uses = {"counterSet": "set", "counters": {"c": {"value": "1"}}}
    grouped = {"name": "grouped", "consumesCounters": [{**uses, "compatibilityGroups": ["mig"]}]}
    shared = slice_("counters", count=2, sharedCounters=[{"name": "set", "counters": {"c": {"value": "4"}}}])
    slices = [slice_("devices", grouped, "free", count=2), shared]
    try:
        found = devices(try_on(slices, claim(request()), order=order, features=Features()))
    except Refusal:
        found = []
    assert found == taken
