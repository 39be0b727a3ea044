"""The order of published devices, and the pools that a publisher rejects before it sends a request."""

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


def test_devices_are_ordered_by_consumption_whole_devices_last() -> None:
    devices = (
        Device("whole", consumes_counters=takes("40Gi", 7)),
        Device("big", consumes_counters=takes("20Gi", 4)),
        Device("small-b", consumes_counters=takes("5Gi", 1)),
        Device("small-a", consumes_counters=takes("5Gi", 1)),
    )
    counters, slice_ = layout(Pool("p", devices, (GPU,)), "d", "node")
    assert counters.shared_counters == [GPU]
    assert [device.name for device in slice_.devices] == ["small-b", "small-a", "big", "whole"]


def test_a_size_counts_all_counters_of_connected_sets() -> None:
    """Two sets are one component, because a device consumes from both."""
    boards = [CounterSet("upper", {"h0": 4, "h1": 4}), CounterSet("lower", {"h2": 4})]
    upper = CounterConsumption("upper", {"h0": 4, "h1": 4})
    lower = CounterConsumption("lower", {"h2": 4})
    devices = (
        Device("all", consumes_counters=[upper, lower]),
        Device("pair", consumes_counters=[upper]),
        Device("one", consumes_counters=[lower]),
        Device("none"),
    )
    published = layout(Pool("p", devices, tuple(boards)), "d", "node")[-1]
    assert [device.name for device in published.devices] == ["none", "one", "pair", "all"]


def test_devices_with_binding_conditions_come_last() -> None:
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


def test_every_slice_has_the_node_selection_of_the_pool() -> None:
    specs = layout(Pool("p", (Device("a"),), (GPU,), all_nodes=True), "d", "node")
    assert [(spec.node_name, spec.all_nodes) for spec in specs] == [(None, True), (None, True)]


def test_a_node_plugin_may_not_select_nodes_per_device() -> None:
    pool = Pool("p", (Device("a", all_nodes=True),), per_device_node_selection=True)
    with pytest.raises(
        InvalidObjectError, match="perDeviceNodeSelection: must not be set by the plugin of a node"
    ):
        layout(pool, "d", "node")
    (spec,) = layout(pool, "d", None)
    assert spec.per_device_node_selection is True


def test_a_publisher_without_a_node_requires_names_and_node_selections() -> None:
    assert [str(problem).split(":")[0] for problem in refusals(Pool(), None)] == ["name", "nodeSelector"]


def test_a_pools_node_selector_has_exactly_one_term() -> None:
    term = NodeSelectorTerm(match_expressions=[NodeSelectorRequirement("zone", "In", ["a"])])
    assert refusals(Pool("p", node_selector=NodeSelector([term])), None) == []
    (problem,) = refusals(Pool("p", node_selector=NodeSelector([term, term])), None)
    assert str(problem) == "nodeSelector: exactly one node selector term is required"


def test_an_unknown_counter_set_is_rejected() -> None:
    pool = Pool("p", (Device("a", consumes_counters=[CounterConsumption("gpu-1", {"memory": 1})]),), (GPU,))
    with pytest.raises(InvalidObjectError, match="no counter set 'gpu-1'"):
        layout(pool, "d", "node")
