"""Two nodes have slices that differ in one part. This part decides: the pod gets the second node."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from dradriver.allocator import AllocationNode, Features, Refusal
from dradriver.allocator.placement import NoNodeFits, Placer
from dradriver.model.encoding.codec import from_builtins
from dradriver.model.resource.deviceclass import DeviceClass
from dradriver.model.resource.slices import ResourceSlice
from tests.unit.allocator.worlds import CLASSES, DRIVER, Json, claim, request, slice_


@dataclass(frozen=True)
class Part:
    """The difference between two slices.

    Attributes:
        worse: the device of the first node, or its slice.
        better: the same of the second node.
        wanted: what the pod asks for, of one device.
    """

    worse: Json
    better: Json
    wanted: Json = field(default_factory=dict)


def taint(value: str = "", effect: str = "NoSchedule") -> Json:
    return {"taints": [{"key": "bad", "value": value, "effect": effect}]}


def tolerating(**rest: str) -> Json:
    return {"tolerations": [{"key": "bad", **rest}]}


def memory(value: str, **policy: Any) -> Json:
    return {"capacity": {"memory": {"value": value, **policy}}, "allowMultipleAllocations": True}


def takes(amount: str, *groups: str) -> Json:
    counters = {"memory": {"value": amount}}
    return {"consumesCounters": [{"counterSet": "gpu", "counters": counters, "compatibilityGroups": [*groups]}]}


def selecting(expression: str) -> Json:
    return {"selectors": [{"cel": {"expression": expression}}]}


POLICY = {"requestPolicy": {"default": "1", "validValues": ["1"]}}
TWO = {"capacity": {"requests": {"memory": "2"}}}
MODEL = f"device.attributes['{DRIVER}'].?model.orValue('') == 'big'"
PARTS = {
    "a taint": Part(taint(), {}),
    "the value of a taint": Part(taint("x"), taint(), tolerating(operator="Equal")),
    "the effect of a taint": Part(
        taint(effect="NoExecute"), taint(), tolerating(operator="Exists", effect="NoSchedule")
    ),
    "an attribute": Part({}, {"attributes": {"model": {"string": "big"}}}, selecting(MODEL)),
    "the value of an attribute": Part(
        {"attributes": {"model": {"string": "small"}}},
        {"attributes": {"model": {"string": "big"}}},
        selecting(MODEL),
    ),
    "a capacity": Part(memory("1"), memory("2"), TWO),
    "a request policy": Part(memory("2", **POLICY), memory("2"), TWO),
    "whether it can be shared": Part(
        {"allowMultipleAllocations": False},
        {"allowMultipleAllocations": True},
        selecting("device.allowMultipleAllocations"),
    ),
    "what it takes of a counter": Part(takes("2"), takes("1")),
    "compatibility groups": Part(takes("0", "a"), takes("0", "b"), {"count": 2}),
    "how much there is of a counter": Part({"counter": "0"}, {"counter": "1"}),
    "how many slices there are": Part({"slices": 3}, {"slices": 2}),
    "skipped operations": Part({"skips": ["NodePrepareResources", "NodeUnprepareResources"]}, {"skips": []}),
    "the driver": Part({"driver": "other.example.com"}, {}, selecting(f"device.driver == '{DRIVER}'")),
}


def slices(node: str, part: Json) -> list[ResourceSlice]:
    """Return a pool with a counter set and one device, or two devices if groups matter."""
    device = {"name": "gpu", **takes("1"), **part}
    driver, skips = device.pop("driver", DRIVER), device.pop("skips", [])
    count, amount = device.pop("slices", 2), device.pop("counter", "1")
    pool: dict[str, Any] = {"pool": node, "nodeName": node, "count": count, "driver": driver}
    with_groups = bool(device["consumesCounters"][0]["compatibilityGroups"])
    others = [{"name": "other", **takes("0", "b")}] if with_groups else []
    shared = [{"name": "gpu", "counters": {"memory": {"value": amount}}}]
    return [
        slice_(f"{node}-a", device, *others, skipNodeOperations=skips, **pool),
        slice_(f"{node}-b", sharedCounters=shared, **pool),
    ]


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_the_pod_gets_the_second_node(part: Part) -> None:
    placer = Placer(features=Features(compatibility_groups=True))
    placer.put_class(CLASSES["gpu"])
    pod = [claim(request(**part.wanted))]
    for node, content in (("node-1", part.worse), ("node-2", part.better)):
        with pytest.raises(NoNodeFits):
            placer.place(pod)
        placer.put_node(AllocationNode(node))
        for source in slices(node, content):
            placer.put_slice(source)
    assert placer.place(pod).node == "node-2"


def of_one_device(node: str, **spec: Any) -> ResourceSlice:
    return slice_(node, "gpu", pool=node, nodeName=node, **spec)


def test_declared_features_decide_which_nodes_get_devices_that_skip_node_operations() -> None:
    placer = Placer(features=Features(optional_node_operations=True))
    placer.put_class(CLASSES["gpu"])
    for node, declared in (("node-1", []), ("node-2", ["DRAOptionalNodeOperations"])):
        placer.put_node(AllocationNode(node, declared_features=frozenset(declared)))
        placer.put_slice(of_one_device(node, skipNodeOperations=["NodePrepareResources"]))
    assert placer.place([claim(request())]).node == "node-2"


def test_labels_decide_which_shared_devices_are_reached() -> None:
    placer = Placer()
    placer.put_class(CLASSES["gpu"])
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
    placer.put_slice(slice_("s", "gpu", nodeName=None, nodeSelector={"nodeSelectorTerms": terms}))
    placer.put_node(AllocationNode("node-1", {"zone": "b"}))
    with pytest.raises(NoNodeFits):
        placer.place([claim(request())])
    placer.put_node(AllocationNode("node-1", {"zone": "a"}))
    assert placer.place([claim(request())]).node == "node-1"


def test_values_are_compared_with_those_of_shared_devices() -> None:
    """No selector reads the attribute. Only on the second node both devices have equal values."""

    def gpu(name: str, rack: str) -> Json:
        return {"name": name, "attributes": {"rack": {"string": rack}}}

    placer = Placer()
    placer.put_class(CLASSES["gpu"])
    placer.put_slice(slice_("fabric", gpu("far", "b"), pool="fabric", nodeName=None, allNodes=True))
    for node, rack in (("node-1", "a"), ("node-2", "b")):
        placer.put_node(AllocationNode(node))
        placer.put_slice(slice_(node, gpu("near", rack), pool=node, nodeName=node))
    pair = claim(request(count=2), constraints=[{"matchAttribute": f"{DRIVER}/rack"}])
    assert placer.place([pair]).node == "node-2"


def test_the_allocation_has_the_binding_conditions_of_its_device() -> None:
    placer = Placer()
    placer.put_class(CLASSES["gpu"])
    for node, conditions in {"node-1": ["attached"], "node-2": ["powered"]}.items():
        gpu = {"name": "gpu", "bindingConditions": conditions, "bindingFailureConditions": ["failed"]}
        placer.put_node(AllocationNode(node))
        placer.put_slice(slice_(node, gpu, pool=node, nodeName=node))
        placed = placer.place([claim(request())], may_run_on=lambda each, node=node: each.name == node)  # type: ignore[misc]
        (result,) = placed.allocations["claim"].devices.results
        assert list(result.binding_conditions) == conditions


def test_a_changed_or_removed_class_changes_the_placement() -> None:
    placer = Placer()
    for node in ("node-1", "node-2"):
        placer.put_node(AllocationNode(node))
        placer.put_slice(
            slice_(node, {"name": "gpu", "attributes": {"node": {"string": node}}}, pool=node, nodeName=node)
        )
    placer.put_class(CLASSES["gpu"])
    assert placer.place([claim(request())]).node == "node-1"
    second = {"selectors": [{"cel": {"expression": f"device.attributes['{DRIVER}'].node == 'node-2'"}}]}
    placer.put_class(from_builtins(DeviceClass, {"metadata": {"name": "gpu"}, "spec": second}))
    assert placer.place([claim(request())]).node == "node-2"
    placer.remove_class("gpu")
    with pytest.raises(Refusal, match="device class gpu does not exist"):
        placer.place([claim(request())])
