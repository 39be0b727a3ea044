from typing import Literal

import pytest

from dradriver.control.taints.published_taints import PublishedTaints
from dradriver.control.taints.tainted_slices import TaintedSlices
from dradriver.model.core.meta import ObjectMeta
from dradriver.model.resource.claim import DeviceId
from dradriver.model.resource.device import Device, Taint
from dradriver.model.resource.taint_rule import DeviceTaintRule, DeviceTaintRuleSpec, DeviceTaintSelector
from dradriver.testing import builders

BROKEN = Taint(key="example.com/broken", effect="NoExecute")
ANY = DeviceTaintSelector()
FIRST = DeviceId(builders.DRIVER, "node-1", "device-0")


def rule(
    selector: DeviceTaintSelector | None,
    effect: Literal["None", "NoSchedule", "NoExecute"] = "NoSchedule",
    name: str = "rule",
) -> DeviceTaintRule:
    taint = Taint(key=f"example.com/{name}", effect=effect)
    return DeviceTaintRule(
        metadata=ObjectMeta(name=name, uid=name),
        spec=DeviceTaintRuleSpec(taint=taint, device_selector=selector),
    )


def tainted(*rules: DeviceTaintRule, device: Device | None = None) -> dict[str, list[str]]:
    """Which keys the devices of a slice of two have."""
    source = builders.slice_(device or builders.device("device-0"), builders.device("device-1"))
    slices = TaintedSlices()
    slices.set_rules(rules)
    found = slices.add_taints(source)
    return {each.name: [taint.key for taint in each.taints] for each in found.spec.devices}


@pytest.mark.parametrize(
    ("selector", "devices"),
    [
        (ANY, {"device-0", "device-1"}),
        (None, {"device-0", "device-1"}),
        (DeviceTaintSelector(driver=builders.DRIVER), {"device-0", "device-1"}),
        (DeviceTaintSelector(pool="node-1", device="device-1"), {"device-1"}),
        (DeviceTaintSelector(device="device-0"), {"device-0"}),
        (DeviceTaintSelector(driver="other.example.com", device="device-0"), set()),
        (DeviceTaintSelector(pool="node-2"), set()),
    ],
    ids=["empty-selects-all", "so-does-none", "driver", "pool-and-device", "device", "other", "pool"],
)
def test_all_fields_of_a_selector_must_match(selector: DeviceTaintSelector | None, devices: set[str]) -> None:
    assert {name for name, keys in tainted(rule(selector)).items() if keys} == devices


def test_a_rule_without_a_selector_selects_no_device() -> None:
    assert not rule(None).selects(*FIRST[:3])
    assert rule(ANY).selects(*FIRST[:3])


def test_taints_of_rules_come_after_those_of_the_driver() -> None:
    found = tainted(rule(ANY, name="b"), rule(ANY, name="a"), device=Device("device-0", taints=[BROKEN]))
    assert found["device-0"] == ["example.com/broken", "example.com/a", "example.com/b"]


def test_unchanged_slices_stay_the_same_objects() -> None:
    here, there = builders.slice_(builders.device()), builders.slice_(builders.device(), node_name="node-2")
    both, only = rule(ANY), rule(DeviceTaintSelector(pool="node-2"), name="only")
    slices = TaintedSlices()
    slices.set_rules([both])
    first = [slices.add_taints(each) for each in (here, there)]
    slices.set_rules([both, only])
    second = [slices.add_taints(each) for each in (here, there)]
    assert second[0] is first[0]
    assert [len(each.spec.devices[0].taints) for each in second] == [1, 2]
    slices.set_rules([])
    assert [slices.add_taints(each) for each in (here, there)] == [here, there]


def test_evicting_taints_are_found_by_device() -> None:
    published = PublishedTaints()
    assert not published
    healthy = builders.slice_(builders.device())
    broken = builders.slice_(Device("device-0", taints=[BROKEN]))
    assert not published.apply(None, healthy)
    assert list(published.apply(healthy, broken)) == [FIRST]
    assert [found.taint for found in published.find(FIRST)] == [BROKEN]
    assert published.count_selected(rule(ANY)) == 1
    assert list(published.apply(broken, None)) == [FIRST]
    assert not published


def test_slices_of_older_generations_do_not_count() -> None:
    published = PublishedTaints()
    published.apply(None, builders.slice_(Device("device-0", taints=[BROKEN]), name="old"))
    newer = builders.slice_(builders.device(), generation=2, name="new")
    assert list(published.apply(None, newer)) == [FIRST]
    assert published.find(FIRST) == ()
    assert list(published.apply(newer, None)) == [FIRST]
    assert len(published.find(FIRST)) == 1
