"""The devices that the search on bit sets chooses, and when it leaves a claim to the full search."""

from collections.abc import Sequence

import pytest

from dradriver.allocator import ORDERED, PACKED, Features, Inventory, Order
from dradriver.allocator.device_choice import parse_claims
from dradriver.allocator.meter import Meter
from dradriver.allocator.placement.evaluation.verdicts import REFUSED
from dradriver.allocator.request.cel_selectors import CelSelectors
from dradriver.model.resource.claim import DeviceResult, ResourceClaim
from dradriver.model.resource.slices import ResourceSlice
from dradriver.testing.builders import allocated
from tests.unit.allocator.bit_nodes import BitNode
from tests.unit.allocator.worlds import (
    CLASSES,
    DRIVER,
    NODE,
    Json,
    a100,
    claim,
    devices,
    profile,
    request,
    slice_,
    try_on,
)

FEATURES = Features(list_type_attributes=False)
ROOT = "resource.kubernetes.io/pcieRoot"
GPU = f"device.driver == '{DRIVER}'"
NIC = "device.driver == 'nic.example.com'"


def at_root(name: str, root: str) -> Json:
    return {"name": name, "attributes": {ROOT: {"string": root}}}


GPUS_AND_NICS = [
    slice_("gpus", at_root("gpu-0", "a"), at_root("gpu-1", "b"), at_root("gpu-2", "b")),
    slice_("nics", at_root("nic-0", "c"), at_root("nic-1", "b"), driver="nic.example.com", pool="nics"),
]


def value(amount: int) -> Json:
    return {"value": str(amount)}


def first(*names: tuple[str, str, int]) -> Json:
    """Return a request with alternatives: (name, expression, count)."""
    alternatives = [
        {"name": name, "deviceClassName": "gpu", "count": count, "selectors": [{"cel": {"expression": each}}]}
        for name, each, count in names
    ]
    return {"name": "gpu", "firstAvailable": alternatives}


def choose(
    slices: Sequence[ResourceSlice],
    *claims: ResourceClaim,
    held: Sequence[ResourceClaim] = (),
    order: Order = PACKED,
    max_steps: int = 400,
) -> list[str] | str | None:
    """Return the chosen devices; else REFUSED, or None if only the full search can decide."""
    parsed = parse_claims(claims, CLASSES, FEATURES, CelSelectors(), Meter())
    node = BitNode(NODE, Inventory.of(slices), held, FEATURES, order)
    decided = node.decide(parsed, max_steps)
    return [device.device for _, device in decided[1]] if isinstance(decided, tuple) else decided


def held_partition(device: str) -> ResourceClaim:
    """Return a claim that holds a device of an A100."""
    holder = claim(request(), name=f"holder-of-{device}")
    return allocated(
        holder, DeviceResult(request="gpu", driver="gpu.nvidia.com", pool=NODE.name, device=device)
    )


@pytest.mark.parametrize("order", [ORDERED, PACKED], ids=lambda order: order.name)
def test_match_attribute_finds_a_gpu_and_a_nic_of_one_root(order: Order) -> None:
    same_root = [{"matchAttribute": ROOT}]
    pair = claim(request("gpu", GPU), request("nic", NIC), constraints=same_root)
    assert choose(GPUS_AND_NICS, pair, order=order) == ["gpu-1", "nic-1"]
    apart = claim(request("gpu", GPU, count=3), request("nic", NIC), constraints=same_root)
    assert choose(GPUS_AND_NICS, apart, order=order) is REFUSED


def test_distinct_attribute_takes_different_values() -> None:
    different = [{"distinctAttribute": ROOT}]
    assert choose(GPUS_AND_NICS, claim(request(count=3), constraints=different)) == ["gpu-0", "gpu-1", "nic-0"]
    assert choose(GPUS_AND_NICS, claim(request(count=4), constraints=different)) is REFUSED


def test_a_constraint_binds_only_the_requests_that_it_names() -> None:
    named = [{"distinctAttribute": ROOT, "requests": ["two"]}]
    wanted = claim(request("one"), request("two", count=2), constraints=named)
    assert choose(GPUS_AND_NICS, wanted) == ["gpu-0", "gpu-1", "nic-0"]


def test_devices_without_the_attribute_satisfy_no_constraint() -> None:
    slices = [slice_("gpus", "bare", at_root("gpu-0", "a"))]
    assert choose(slices, claim(request(), constraints=[{"matchAttribute": ROOT}])) == ["gpu-0"]


def test_chosen_devices_use_up_the_counters() -> None:
    eight = claim(request("gpu", profile("1g.5gb"), count=8))
    assert choose(a100(1), eight) is REFUSED
    chosen = choose(a100(2), eight, order=ORDERED)
    assert isinstance(chosen, list)
    assert [device.split("-")[1] for device in chosen] == ["0"] * 7 + ["1"]


def test_held_devices_have_used_up_their_counters() -> None:
    held = [held_partition("gpu-0-mig-3g-20gb-0")]
    assert choose(a100(1), claim(request("gpu", profile("3g.20gb"))), held=held) == ["gpu-0-mig-3g-20gb-4"]
    assert choose(a100(1), claim(request("gpu", profile("4g.20gb"))), held=held) is REFUSED


def test_all_claims_of_a_pod_share_the_counters() -> None:
    halves = [claim(request("gpu", profile("3g.20gb")), name=name) for name in ("one", "two", "three")]
    assert choose(a100(1), *halves[:2]) == ["gpu-0-mig-3g-20gb-4", "gpu-0-mig-3g-20gb-0"]
    assert choose(a100(1), *halves) is REFUSED


def test_no_device_serves_two_requests() -> None:
    assert choose([slice_("gpus", "a", "b")], claim(request("one"), request("two"))) == ["a", "b"]
    assert choose([slice_("gpus", "a")], claim(request("one"), request("two"))) is REFUSED


def test_the_next_alternative_serves_if_the_later_requests_need_the_devices() -> None:
    pick = first(("two", GPU, 2), ("one", "true", 1))
    assert choose([slice_("gpus", "a", "b", "c")], claim(pick, request("rest"))) == ["a", "b", "c"]
    assert choose([slice_("gpus", "a", "b")], claim(pick, request("rest"))) == ["a", "b"]


def test_a_claim_gets_at_most_32_devices() -> None:
    slices = [slice_("gpus", *(f"gpu-{number:02}" for number in range(40)))]
    pick = first(("many", "true", 30), ("few", "true", 1))
    chosen = choose(slices, claim(pick, request("rest", count=3)))
    assert isinstance(chosen, list)
    assert len(chosen) == 4
    one, two = (claim(request(count=20), name=name) for name in ("one", "two"))
    assert len(choose(slices, one, two) or ()) == 40


def test_it_gives_up_after_the_last_step() -> None:
    pair = claim(request(count=2))
    assert choose([slice_("gpus", "a", "b")], pair, max_steps=2) == ["a", "b"]
    assert choose([slice_("gpus", "a", "b")], pair, max_steps=1) is None


def test_equivalent_choices_are_tried_once() -> None:
    # No GPU has room for four small partitions and two halves. Eight equal GPUs need no more steps than one.
    wanted = claim(
        request("small", profile("1g.5gb"), count=4),
        request("half", profile("3g.20gb"), count=2),
        constraints=[{"matchAttribute": "gpu.nvidia.com/parentUUID"}],
    )
    assert choose(a100(1), wanted, max_steps=98) is REFUSED
    assert choose(a100(8), wanted, max_steps=98) is REFUSED
    assert choose(a100(1), wanted, max_steps=97) is None


@pytest.mark.parametrize("order", [ORDERED, PACKED], ids=lambda order: order.name)
def test_binding_conditions_make_the_rating_worse(order: Order) -> None:
    late: Json = {"name": "a", "bindingConditions": ["ready"], "bindingFailureConditions": ["failed"]}
    node = BitNode(NODE, Inventory.of([slice_("gpus", late, "b")]), [], FEATURES, order)
    one, two = (
        node.decide(parse_claims([claim(request(count=count))], CLASSES, FEATURES, CelSelectors(), Meter()))
        for count in (1, 2)
    )
    assert isinstance(one, tuple)
    assert isinstance(two, tuple)
    if order is PACKED:
        assert [device.device for _, device in (*one[1], *two[1])] == ["b", "b", "a"]
        assert (one[0], two[0]) == ((0, 10**6, 10**6, 0, 10**6, 2), (1, 2 * 10**6, 2 * 10**6, 0, 2 * 10**6, 2))
    else:
        assert [device.device for _, device in (*one[1], *two[1])] == ["a", "a", "b"]
        assert (one[0], two[0]) == ((1,), (1,))


def test_devices_out_of_reach_have_no_influence_on_the_order() -> None:
    def part(name: str, gpu: str, cores: int) -> Json:
        return {"name": name, "consumesCounters": [{"counterSet": gpu, "counters": {"cores": value(cores)}}]}

    sets = [{"name": gpu, "counters": {"cores": value(4)}} for gpu in ("gpu-0", "gpu-1")]
    counters = slice_("counters", count=3, sharedCounters=sets, nodeName=None, allNodes=True)
    here = slice_("here", part("gpu-0-small", "gpu-0", 1), part("gpu-1-small", "gpu-1", 1), count=3)
    far = slice_("far", part("gpu-0-whole", "gpu-0", 4), count=3, nodeName="node-2")
    one = claim(request())
    assert (
        choose([counters, here, far], one)
        == ["gpu-0-small"]
        == devices(try_on([counters, here, far], one, order=PACKED))
    )
    whole_in_reach = slice_("far", part("gpu-0-whole", "gpu-0", 4), count=3)
    assert choose([counters, here, whole_in_reach], one) == ["gpu-1-small"]


def test_it_leaves_a_counter_below_zero_to_the_full_search() -> None:
    held = [held_partition(f"gpu-0-mig-{name}-0") for name in ("3g-20gb", "4g-20gb")]
    assert choose(a100(1), claim(request("gpu", profile("1g.5gb"))), held=held[:1]) is not None
    assert choose(a100(1), claim(request("gpu", profile("1g.5gb"))), held=held) is None
