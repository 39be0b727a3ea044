"""Every broken rule of a pool is reported with its field."""

import pytest

from dradriver.model.core.node_selector import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Attribute, Device, Taint, Version
from dradriver.model.resource.pool import Pool, problems

TERM = NodeSelectorTerm(match_expressions=[NodeSelectorRequirement("a", "Exists")])
NO_LABEL_VALUE = NodeSelector(
    [NodeSelectorTerm(match_expressions=[NodeSelectorRequirement("zone", "In", ["a", "no spaces"])])]
)
SET = CounterSet("gpu-0", {"memory": "80Gi"})


def consuming(counter_set: str = "gpu-0", counter: str = "memory", *groups: str) -> Device:
    return Device("d", consumes_counters=[CounterConsumption(counter_set, {counter: 1}, groups)])


def test_a_valid_pool_has_no_problems() -> None:
    assert problems(Pool("node-1", (consuming("gpu-0", "memory", "mig"),), (SET,))) == []


@pytest.mark.parametrize(
    ("pool", "path", "message"),
    [
        (Pool("Node_1"), "name", "DNS subdomain"),
        (Pool(devices=(Device("gpu.0"),)), "devices[gpu.0].name", "DNS label"),
        (Pool(devices=(Device("a"), Device("a"))), "devices[a]", "used 2 times"),
        (Pool(counter_sets=(SET, SET)), "sharedCounters[gpu-0]", "used 2 times"),
        (Pool(counter_sets=(CounterSet("gpu-0"),)), "sharedCounters[gpu-0].counters", "at least one"),
        (
            Pool(counter_sets=(CounterSet("gpu-0", {"memorySlice0": 1}),)),
            "sharedCounters[gpu-0].counters[memorySlice0]",
            "DNS label",
        ),
        (
            Pool(devices=(consuming("gpu-1"),), counter_sets=(SET,)),
            "devices[d].consumesCounters[0].counterSet",
            "no counter set 'gpu-1' (it has: gpu-0)",
        ),
        (
            Pool(devices=(consuming("gpu-0", "memroy"),), counter_sets=(SET,)),
            "devices[d].consumesCounters[0].counters[memroy]",
            "no such counter (it has: memory)",
        ),
        (
            Pool(devices=(consuming("gpu-0", "memory", "a", "b", "c"),), counter_sets=(SET,)),
            "devices[d].consumesCounters[0].compatibilityGroups",
            "at most 2",
        ),
        (
            Pool(devices=(consuming("gpu-0", "memory", "a", "a"),), counter_sets=(SET,)),
            "devices[d].consumesCounters[0].compatibilityGroups[1]",
            "named twice",
        ),
        (Pool(devices=(Device("d", {"a-b": 1}),)), "devices[d].attributes[a-b]", "qualified name"),
        (Pool(devices=(Device("d", {"a": "x" * 65}),)), "devices[d].attributes[a]", "at most 64 bytes"),
        (Pool(devices=(Device("d", {"a": Attribute()}),)), "devices[d].attributes[a]", "exactly one"),
        (
            Pool(devices=(Device("d", {"a": Version("1.2")}),)),
            "devices[d].attributes[a].version",
            "not a semantic version",
        ),
        (
            Pool(devices=(Device("d", {f"a{i}": i for i in range(33)}),)),
            "devices[d].attributes",
            "at most 32",
        ),
        (Pool(devices=(Device("d", {"a": list(range(49))}),)), "devices[d].attributes", "at most 48"),
        (Pool(devices=(Device("d", capacity={"m": "-1"}),)), "devices[d].capacity[m].value", "negative"),
        (
            Pool(devices=(Device("d", taints=[Taint(key="a b", effect="NoSchedule")]),)),
            "devices[d].taints[0].key",
            "label key",
        ),
        (
            Pool(devices=(Device("d", taints=[Taint(key=f"k{i}", effect="None") for i in range(17)]),)),
            "devices[d].taints",
            "at most 16",
        ),
        (
            Pool(devices=(Device("d", binding_conditions=["ready"]),)),
            "devices[d].bindingFailureConditions",
            "set together",
        ),
        (
            Pool(devices=(Device("d", binding_conditions=["a"], binding_failure_conditions=["a"]),)),
            "devices[d].bindingFailureConditions[0]",
            "named twice",
        ),
        (Pool(devices=(Device("d", node_name="n"),)), "devices[d].nodeName", "per-device node selection"),
        (
            Pool(devices=(Device("d"),), per_device_node_selection=True),
            "devices[d].nodeName",
            "exactly one of",
        ),
        (
            Pool(
                devices=(Device("d", node_selector=NodeSelector([TERM, TERM])),), per_device_node_selection=True
            ),
            "devices[d].nodeSelector",
            "exactly one node selector term",
        ),
        (Pool(node_selector=NodeSelector([TERM, TERM])), "nodeSelector", "exactly one node selector term"),
        (Pool(all_nodes=True, node_selector=NodeSelector([TERM])), "allNodes", "only one node selection"),
        (
            Pool(node_selector=NO_LABEL_VALUE),
            "nodeSelector.nodeSelectorTerms[0].matchExpressions[0].values[1]",
            "'no spaces' is not a label value",
        ),
        (
            Pool(devices=(Device("d", node_selector=NO_LABEL_VALUE),), per_device_node_selection=True),
            "devices[d].nodeSelector.nodeSelectorTerms[0].matchExpressions[0].values[1]",
            "'no spaces' is not a label value",
        ),
    ],
)
def test_a_broken_rule_is_reported_with_its_field(pool: Pool, path: str, message: str) -> None:
    found = {problem.path: problem.rule for problem in problems(pool)}
    assert message in found[path]
