"""Consumable capacity (KEP-5075): the consumption of a share, and of several shares together."""

import re

import pytest

from dradriver.allocator import Features, Refusal
from dradriver.allocator.supply.capacity import CapacityError, compute_consumption, is_allowed
from dradriver.model.encoding.codec import from_builtins
from dradriver.model.quantity import Quantity
from dradriver.model.resource.claim import ClaimStatus, DeviceResult, ResourceClaim
from dradriver.model.resource.device import Capacity
from tests.unit.allocator.worlds import Json, claim, devices, request, slice_, try_on

NIC: Json = {
    "name": "nic",
    "allowMultipleAllocations": True,
    "capacity": {
        "bandwidth": {
            "value": "10G",
            "requestPolicy": {"default": "1G", "validRange": {"min": "1G", "max": "8G", "step": "1G"}},
        }
    },
}


def wants(amount: str | None = None, name: str = "claim") -> ResourceClaim:
    capacity: Json = {} if amount is None else {"capacity": {"requests": {"bandwidth": amount}}}
    return claim(request(**capacity), name=name)


def allocated(wanted: ResourceClaim, *in_use: ResourceClaim) -> tuple[ResourceClaim, DeviceResult]:
    found = try_on([slice_("a", NIC)], wanted, in_use=in_use)[wanted.metadata.uid]
    holder = ResourceClaim(metadata=wanted.metadata, status=ClaimStatus(allocation=found))
    return holder, found.devices.results[0]


def consumed(wanted: str | None, policy: Json | None, *, fractional: bool = True) -> str:
    capacity = from_builtins(Capacity, {"value": "10", "requestPolicy": policy} if policy else {"value": "10"})
    requests = {} if wanted is None else {"c": Quantity(wanted)}
    return str(compute_consumption(requests, {"c": capacity}, fractional=fractional)["c"])


@pytest.mark.parametrize(
    ("wanted", "policy", "expected"),
    [
        (None, None, "10"),
        ("3", None, "3"),
        (None, {"default": "2"}, "2"),
        ("3", {"default": "1", "validValues": ["1", "4", "8"]}, "4"),
        ("4", {"default": "1", "validValues": ["1", "4", "8"]}, "4"),
        ("9", {"default": "1", "validValues": ["1", "4", "8"]}, "9"),
        ("1", {"default": "2", "validRange": {"min": "2"}}, "2"),
        ("3", {"default": "2", "validRange": {"min": "2"}}, "3"),
        ("3", {"default": "2", "validRange": {"min": "2", "step": "2"}}, "4"),
        ("2100m", {"default": "2", "validRange": {"min": "2", "step": "250m"}}, "2250m"),
    ],
)
def test_a_share_consumes_the_requested_amount_rounded_up(
    wanted: str | None, policy: Json | None, expected: str
) -> None:
    assert consumed(wanted, policy) == expected


def test_without_fractions_steps_are_whole() -> None:
    policy = {"default": "2", "validRange": {"min": "2", "step": "250m"}}
    assert consumed("2100m", policy, fractional=False) == "3"


@pytest.mark.parametrize("wanted", ["9e18", "1e30", "1n"])
def test_an_amount_that_kubernetes_cannot_represent_is_an_error(wanted: str) -> None:
    policy = {"default": "0", "validRange": {"min": "0", "step": "3"}}
    with pytest.raises(CapacityError):
        consumed(wanted if wanted != "9e18" else "9223372036854775807", policy)


def test_an_amount_beyond_the_policy_excludes_the_device() -> None:
    policy = from_builtins(Capacity, NIC["capacity"]["bandwidth"]).request_policy
    assert is_allowed(Quantity("8G"), policy, fractional=True)
    assert not is_allowed(Quantity("9G"), policy, fractional=True)
    assert not is_allowed(Quantity("1500M"), policy, fractional=True)


def test_a_share_has_an_id_and_its_consumed_capacity() -> None:
    _, result = allocated(wants("2500M"))
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", result.share_id or "")
    assert result.consumed_capacity == {"bandwidth": Quantity("3G")}


def test_a_share_id_is_stable_and_unique() -> None:
    (_, one), (_, again), (_, other) = allocated(wants()), allocated(wants()), allocated(wants(name="other"))
    assert one.share_id == again.share_id != other.share_id


def test_shares_of_several_claims_do_not_exceed_the_capacity() -> None:
    first, _ = allocated(wants("8G", "first"))
    second, _ = allocated(wants("2G", "second"), first)
    with pytest.raises(Refusal, match="cannot allocate") as caught:
        allocated(wants("1G", "third"), first, second)
    assert "capacity bandwidth: 1G needed, 0 left" in caught.value.text()


def test_requests_of_one_pod_share_a_device() -> None:
    wanted = claim(*(request(f"r{n}", capacity={"requests": {"bandwidth": "5G"}}) for n in range(2)))
    results = try_on([slice_("a", NIC)], wanted)["claim"].devices.results
    assert [result.device for result in results] == ["nic", "nic"]
    assert len({result.share_id for result in results}) == 2


def test_one_request_takes_one_share_of_a_device() -> None:
    with pytest.raises(Refusal):
        try_on([slice_("a", NIC)], claim(request(count=2)))


def test_counters_are_consumed_by_the_first_share() -> None:
    uses = [{"counterSet": "set", "counters": {"c": {"value": "1"}}}]
    shared = slice_("counters", count=2, sharedCounters=[{"name": "set", "counters": {"c": {"value": "1"}}}])
    slices = [
        slice_("a", {**NIC, "consumesCounters": uses}, {"name": "b", "consumesCounters": uses}, count=2),
        shared,
    ]
    two = [request(f"r{n}", capacity={"requests": {"bandwidth": "1G"}}) for n in range(2)]
    assert devices(try_on(slices, claim(*two))) == ["nic", "nic"]
    with pytest.raises(Refusal):
        try_on(slices, claim(two[0], request("whole", "!device.allowMultipleAllocations")))


def test_a_second_share_leaves_the_counters_to_another_device() -> None:
    uses = [{"counterSet": "set", "counters": {"c": {"value": "1"}}}]
    slices = [
        slice_("a", {**NIC, "consumesCounters": uses}, {"name": "b", "consumesCounters": uses}, count=2),
        slice_("counters", count=2, sharedCounters=[{"name": "set", "counters": {"c": {"value": "2"}}}]),
    ]
    two = [request(f"r{n}", capacity={"requests": {"bandwidth": "1G"}}) for n in range(2)]
    whole = request("whole", "!device.allowMultipleAllocations")
    assert devices(try_on(slices, claim(*two, whole))) == ["nic", "nic", "b"]


def test_with_the_gate_off_a_device_is_allocated_to_one_claim() -> None:
    off = Features(consumable_capacity=False)
    slices = [slice_("a", NIC)]
    [result] = try_on(slices, claim(request()), features=off)["claim"].devices.results
    assert result.share_id is None
    with pytest.raises(Refusal, match="DRAConsumableCapacity feature is disabled"):
        try_on(slices, wants("1G"), features=off)
    holder, _ = allocated(wants("1G"))
    with pytest.raises(Refusal, match="cannot allocate"):
        try_on(slices, claim(request()), features=off, in_use=[holder])


def test_a_device_that_is_no_longer_shareable_stays_with_its_claims() -> None:
    holder, _ = allocated(wants("1G"))
    whole = {"name": "nic"}
    with pytest.raises(Refusal) as caught:
        try_on([slice_("a", whole)], claim(request()), in_use=[holder])
    assert "in use by claim default/claim" in caught.value.text()


def test_devices_whose_shares_consume_more_are_not_equivalent() -> None:
    """`coarse` comes first and has as much left. The small share must still leave it to a large one."""

    def shared(name: str, *sizes: str) -> Json:
        policy = {"default": "4", "validValues": list(sizes)}
        memory = {"value": "5", "requestPolicy": policy}
        return {"name": name, "allowMultipleAllocations": True, "capacity": {"memory": memory}}

    sizes = {"small": "1", "large": "4", "other": "4"}
    requests = [request(name, capacity={"requests": {"memory": size}}) for name, size in sizes.items()]
    found = try_on([slice_("s", shared("coarse", "4"), shared("fine", "1", "4"))], claim(*requests))
    assert devices(found) == ["fine", "coarse", "fine"]


def test_devices_of_one_counter_set_with_less_capacity_left_are_not_equivalent() -> None:
    """The small share must leave the rest of `a` to a large one."""
    consumed = {"counterSet": "set", "counters": {"slots": {"value": "0"}}}
    shared = {
        "allowMultipleAllocations": True,
        "capacity": {"memory": {"value": "4"}},
        "consumesCounters": [consumed],
    }
    slices = [
        slice_("devices", *({"name": name, **shared} for name in "ab"), count=2),
        slice_("counters", count=2, sharedCounters=[{"name": "set", "counters": {"slots": {"value": "1"}}}]),
    ]
    holder = claim(request(capacity={"requests": {"memory": "1"}}), name="holder")
    (found,) = try_on(slices, holder).values()
    held = ResourceClaim(metadata=holder.metadata, status=ClaimStatus(allocation=found))
    requests = [
        request(name, capacity={"requests": {"memory": amount}})
        for name, amount in (("x", "1"), ("y", "3"), ("z", "3"))
    ]
    assert devices(try_on(slices, claim(*requests), in_use=[held])) == ["b", "a", "b"]
