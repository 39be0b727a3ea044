"""Cards show what is in use, by whom, what is tainted or unhealthy, and what still fits."""

import pytest
from msgspec.structs import replace

from dradriver.model.quantity import Quantity
from dradriver.model.resource.claim import DeviceResult
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Capacity, CapacityRequestPolicy, CapacityRequestPolicyRange, Device
from dradriver.overview import Segment
from dradriver.testing.builders import DRIVER, allocated, claim, slice_
from tests.unit.overview.objects import health_of, holding, mig_slices, only_card, overview, pod_of, rule


def test_the_first_lane_has_the_cells_of_the_devices_in_use() -> None:
    claims = holding("train", "gpu-0-mig-3g-20gb-0"), holding("infer", "gpu-0-mig-1g-5gb-4")
    card = only_card(overview(*mig_slices(), *claims))
    lane = card.lanes[0]
    assert (lane.name, lane.cells, lane.used) == ("memory-slice", 8, "5")
    names = [card.listed[segment.device].name for segment in lane.segments]
    assert names == ["gpu-0-mig-3g-20gb-0", "gpu-0-mig-1g-5gb-4"]
    assert [(segment.start, segment.end) for segment in lane.segments] == [(0, 0.5), (0.5, 0.625)]


def test_a_bar_has_the_parts_of_the_devices_to_scale() -> None:
    card = only_card(overview(*mig_slices(), holding("train", "gpu-0-mig-4g-20gb-0")))
    (lane,) = (each for each in card.lanes if each.name == "multiprocessors")
    assert (lane.cells, lane.used, lane.total) == (0, "56", "98")
    assert lane.segments == (Segment(0, 0, 56 / 98),)


def test_devices_in_use_name_their_claims_and_pods() -> None:
    card = only_card(overview(*mig_slices(), holding("train", "gpu-0-mig-3g-20gb-0", pods=["a", "b"])))
    (device,) = card.listed
    assert (device.claims, device.pods) == (("default/train",), ("default/a", "default/b"))
    assert device.consumes["memory"] == "19968Mi"


def test_devices_that_still_fit_follow_from_counters_and_devices_in_use() -> None:
    card = only_card(overview(*mig_slices(), holding("most", "gpu-0-mig-4g-20gb-0", "gpu-0-mig-2g-10gb-4")))
    assert card.devices == 25
    assert card.fitting == ("gpu-0-mig-1g-5gb-6", "gpu-0-mig-1g-5gb-me-6", "gpu-0-mig-1g-10gb-6")


def test_without_cells_the_largest_counter_is_the_first_lane() -> None:
    counters = CounterSet("domain", {"attachments": 8, "memory": "64Gi"})
    devices = Device("part", consumes_counters=[CounterConsumption("domain", {"memory": "16Gi"})])
    card = only_card(
        overview(slice_(counter_sets=[counters], count=2, name="a"), slice_(devices, count=2, name="b"))
    )
    assert [lane.name for lane in card.lanes] == ["memory", "attachments"]


def test_a_pool_without_counters_has_one_cell_for_each_device() -> None:
    card = only_card(overview(slice_(*map(Device, "abcd")), holding("one", "b", driver=DRIVER)))
    (lane,) = card.lanes
    assert (card.name, lane.name, lane.cells, lane.total, lane.used) == ("node-1", "devices", 4, "4", "1")
    assert lane.segments == (Segment(0, 0.25, 0.5),)
    assert card.fitting == ("a", "c", "d")


def shared_memory(total: str, minimum: str) -> Device:
    policy = CapacityRequestPolicy(valid_range=CapacityRequestPolicyRange(min=minimum))
    return Device("memory", capacity={"size": Capacity(total, policy)}, allow_multiple_allocations=True)


@pytest.mark.parametrize(("minimum", "fitting"), [("1Gi", ("memory",)), ("5Gi", ())])
def test_a_shared_device_fits_while_the_smallest_share_is_free(minimum: str, fitting: tuple[str, ...]) -> None:
    share = DeviceResult(
        request="device",
        driver=DRIVER,
        pool="node-1",
        device="memory",
        share_id="s1",
        consumed_capacity={"size": Quantity("4Gi")},
    )
    card = only_card(overview(slice_(shared_memory("8Gi", minimum)), allocated(claim(name="a"), share)))
    assert card.lanes[0].segments == (Segment(0, 0, 0.5),)
    assert card.fitting == fitting


def test_parts_beyond_a_reduced_counter_are_drawn_at_the_end() -> None:
    taken = [CounterConsumption("set", {"memory": 6})]
    devices = [Device("a", consumes_counters=taken), Device("b", consumes_counters=taken)]
    slices = (
        slice_(counter_sets=[CounterSet("set", {"memory": 10})], count=2, name="a"),
        slice_(*devices, count=2, name="b"),
    )
    card = only_card(overview(*slices, holding("both", "a", "b", driver=DRIVER)))
    assert card.lanes[0].used == "12"
    assert [(each.device, each.start, each.end) for each in card.lanes[0].segments] == [
        (0, 0, 0.6),
        (1, pytest.approx(0.4), 1),
    ]


def test_taints_of_rules_are_listed_with_those_of_drivers() -> None:
    card = only_card(overview(*mig_slices(), rule("r", "repair:NoExecute", device="gpu-0-mig-2g-10gb-0")))
    (device,) = card.listed
    assert (device.name, device.taints, device.claims) == ("gpu-0-mig-2g-10gb-0", ("repair:NoExecute",), ())


def test_unhealthy_devices_are_listed_with_their_health() -> None:
    held = holding("train", "gpu-0-mig-3g-20gb-0", pods=["train-0"])
    reports = health_of("train", **{"gpu.nvidia.com/node-1/gpu-0-mig-3g-20gb-0": "Unhealthy"})
    card = only_card(overview(*mig_slices(), held, pod_of("train", containerStatuses=[reports])))
    assert [device.health for device in card.listed] == ["unhealthy"]


def test_an_invalid_pool_has_no_cards_and_a_problem() -> None:
    devices = Device("a"), Device("a")
    shown = overview(slice_(*devices))
    assert shown.nodes["node-1"].cards == ()
    (problem,) = shown.problems
    assert problem.node == "node-1"
    assert "used 2 times" in problem.problem


def test_an_incomplete_pool_shows_its_devices_but_none_fits() -> None:
    shown = overview(slice_(*map(Device, "ab"), count=2), holding("one", "b", driver=DRIVER))
    assert only_card(shown).fitting == ()
    assert [device.name for device in only_card(shown).listed] == ["b"]
    assert shown.problems[0].problem.startswith("incomplete: 1 of 2 slices")


def test_only_the_newest_generation_is_shown() -> None:
    old, new = slice_(Device("old"), name="a"), slice_(Device("new"), generation=2, name="b")
    assert only_card(overview(old, new)).fitting == ("new",)


def test_the_product_is_the_name_that_the_driver_publishes() -> None:
    named = Device("gpu-0", {"productName": "NVIDIA A100-SXM4-40GB"})
    assert only_card(overview(slice_(named))).product == "NVIDIA A100-SXM4-40GB"
    assert only_card(overview(slice_(replace(named, attributes={})))).product == ""
