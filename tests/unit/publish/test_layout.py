"""The order that devices are offered in, and what a publisher refuses before it sends anything."""

from functools import partial

import pytest

from dradriver.errors import InvalidObjectError
from dradriver.model.core.node_selector import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool
from dradriver.publish.layout import layout, refusals

GPU = CounterSet("gpu-0", {"memory": "40Gi", "engines": 7})


def takes(memory: str, engines: int) -> list[CounterConsumption]:
    return [CounterConsumption("gpu-0", {"memory": memory, "engines": engines})]


def test_what_consumes_least_comes_first_and_the_whole_device_last() -> None:
    devices = (
        Device("whole", consumes_counters=takes("40Gi", 7)),
        Device("big", consumes_counters=takes("20Gi", 4)),
        Device("small-b", consumes_counters=takes("5Gi", 1)),
        Device("small-a", consumes_counters=takes("5Gi", 1)),
    )
    counters, slice_ = layout(Pool("p", devices, (GPU,)), "d", "node")
    assert counters.shared_counters == [GPU]
    assert [device.name for device in slice_.devices] == ["small-b", "small-a", "big", "whole"]


def test_devices_that_are_ready_come_before_those_with_binding_conditions() -> None:
    waits = partial(Device, binding_conditions=["attached"], binding_failure_conditions=["failed"])
    devices = (
        waits("slow-small", consumes_counters=takes("5Gi", 1)),
        waits("slow"),
        Device("ready-whole", consumes_counters=takes("40Gi", 7)),
        Device("ready-small", consumes_counters=takes("5Gi", 1)),
    )
    _, slice_ = layout(Pool("p", devices, (GPU,)), "d", "node")
    assert [device.name for device in slice_.devices] == ["ready-small", "ready-whole", "slow", "slow-small"]


def test_devices_without_counters_keep_the_drivers_order() -> None:
    (slice_,) = layout(Pool("p", (Device("b"), Device("a"), Device("c"))), "d", "node")
    assert [device.name for device in slice_.devices] == ["b", "a", "c"]


def test_an_empty_pool_is_one_empty_slice_on_its_node() -> None:
    (empty,) = layout(Pool(), "d", "node")
    assert (empty.pool.name, empty.pool.resource_slice_count, empty.node_name) == ("node", 1, "node")
    assert empty.devices == []


def test_every_slice_carries_the_pools_node_selection() -> None:
    specs = layout(Pool("p", (Device("a"),), (GPU,), all_nodes=True), "d", "node")
    assert [(spec.node_name, spec.all_nodes) for spec in specs] == [(None, True), (None, True)]


def test_a_node_plugin_may_not_select_nodes_per_device() -> None:
    pool = Pool("p", (Device("a", all_nodes=True),), per_device_node_selection=True)
    with pytest.raises(
        InvalidObjectError, match="perDeviceNodeSelection: is for publishers of the control plane"
    ):
        layout(pool, "d", "node")
    (spec,) = layout(pool, "d", None)
    assert spec.per_device_node_selection is True


def test_a_publisher_without_a_node_needs_names_and_node_selections() -> None:
    assert [str(problem).split(":")[0] for problem in refusals(Pool(), None)] == ["name", "nodeSelector"]


def test_a_pools_node_selector_has_exactly_one_term() -> None:
    term = NodeSelectorTerm(match_expressions=[NodeSelectorRequirement("zone", "In", ["a"])])
    assert refusals(Pool("p", node_selector=NodeSelector([term])), None) == []
    (problem,) = refusals(Pool("p", node_selector=NodeSelector([term, term])), None)
    assert str(problem) == "nodeSelector: exactly one node selector term is required"


def test_a_misspelt_counter_set_is_refused() -> None:
    pool = Pool("p", (Device("a", consumes_counters=[CounterConsumption("gpu-1", {"memory": 1})]),), (GPU,))
    with pytest.raises(InvalidObjectError, match="no counter set 'gpu-1'"):
        layout(pool, "d", "node")
