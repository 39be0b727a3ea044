"""Nodes that look equal and are not: each needs its own verdict."""

import json
from typing import Any

import pytest

from dradriver.allocator import AllocationNode, Features, Refusal
from dradriver.allocator.placement import NoNodeFits, Placer
from dradriver.model.encoding.codec import from_builtins
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.recorded_groups import SNAPSHOT_DRIVER
from dradriver.model.resource.slices import ResourceSlice
from tests.unit.allocator.worlds import CLASSES, DRIVER, Json, claim, request, slice_

SHARE = "00000000-0000-4000-8000-000000000001"
MODEL = f"device.attributes['{DRIVER}'].model == 'big'"


def cluster(*slices: ResourceSlice, **features: bool) -> Placer:
    """Return a placer with a node for each node name in the slices."""
    placer = Placer(features=Features(**features))
    placer.put_class(CLASSES["gpu"])
    for source in slices:
        placer.put_slice(source)
        if source.spec.node_name is not None:
            placer.put_node(AllocationNode(source.spec.node_name))
    return placer


def gpu(node: str, *members: Json, called: str = "gpu", **taken: Any) -> list[ResourceSlice]:
    """Return a pool of devices that consume from one counter set."""
    memory = {"memory": {"value": "1"}}
    consumed = {"counterSet": called, "counters": memory, **taken}
    pool: dict[str, Any] = {"pool": node, "nodeName": node, "count": 2}
    return [
        slice_(f"{node}-a", *({**member, "consumesCounters": [consumed]} for member in members), **pool),
        slice_(f"{node}-b", sharedCounters=[{"name": called, "counters": memory}], **pool),
    ]


def holder(node: str, device: str, groups: str = "", **share: object) -> ResourceClaim:
    """Return a claim that holds a device of the node's pool, with the recorded groups as JSON."""
    result = {"request": "r", "driver": DRIVER, "pool": node, "device": device, **share}
    parameters = {"kind": "CompatibilityGroups", "groups": {"0": json.loads(groups)}} if groups else {}
    opaque = {"driver": SNAPSHOT_DRIVER, "parameters": parameters}
    allocation = {"devices": {"results": [result], "config": [{"source": "FromClass", "opaque": opaque}]}}
    return from_builtins(ResourceClaim, {
        "metadata": {"name": f"of-{node}", "namespace": "default"}, "spec": {"devices": {}},
        "status": {"allocation": allocation},
    })  # fmt: skip


def test_a_selector_that_fails_fails_where_the_device_is_not_held() -> None:
    """Kubernetes skips devices in use. Both nodes have the same devices left, and one shows the error."""
    members: list[Json] = [{"name": "odd"}, {"name": "big", "attributes": {"model": {"string": "big"}}}]
    placer = cluster(*gpu("node-1", *members), *gpu("node-2", *members))
    placer.put_claim(holder("node-1", "odd"))
    placer.put_claim(holder("node-2", "big"))
    with pytest.raises(Refusal, match=r"node-2/odd.*no such key"):
        placer.place([claim(request(expression=MODEL))])
    placer.put_claim(holder("node-2", "odd"))
    with pytest.raises(NoNodeFits):
        placer.place([claim(request(expression=MODEL))])


def test_a_derived_attribute_is_compared_with_what_devices_publish() -> None:
    """No selector reads the attribute. One request computes it, the other uses the published value."""

    def node(name: str, model: str) -> ResourceSlice:
        members = [{"name": f"gpu-{n}", "attributes": {"model": {"string": model}}} for n in range(2)]
        return slice_(name, *members, pool=name, nodeName=name)

    computed = request("one", derivedAttributes=[{"name": f"{DRIVER}/model", "expression": "'big'"}])
    pair = claim(computed, request("two"), constraints=[{"matchAttribute": f"{DRIVER}/model"}])
    placer = cluster(node("node-1", "small"), node("node-2", "big"), derived_attributes=True)
    assert placer.place([pair]).node == "node-2"


def test_groups_recorded_for_a_counter_set_that_left_the_node_do_not_block_another_set() -> None:
    """A GPU moved from one node to another. The claim that used it still names its counter set."""
    features = Features(compatibility_groups=True)
    placer = Placer(features=features)
    placer.put_class(CLASSES["gpu"])
    free: dict[str, Any] = {"counters": {"memory": {"value": "0"}}, "compatibilityGroups": ["mig"]}
    for node, called in (("node-2", "gpu-that-moved"), ("node-1", "gpu-that-came")):
        placer.put_node(AllocationNode(node))
        for source in gpu(node, {"name": "mig-0"}, {"name": "mig-1"}, called=called, **free):
            placer.put_slice(source)
        placer.place([claim(request("one"), request("two"))])
    placer.put_claim(holder("node-1", "gone", '{"gpu-that-moved": ["vgpu"]}'))
    assert placer.place([claim(request("again"), request("again-too"))]).node == "node-1"


def test_a_slice_with_per_device_node_selection_false_needs_the_gate() -> None:
    explicit = slice_("a", "gpu", pool="a", nodeName="node-1", perDeviceNodeSelection=False)
    silent = slice_("b", "gpu", pool="b", nodeName="node-2")
    placer = cluster(explicit, silent, partitionable_devices=False)
    assert placer.place([claim(request())]).node == "node-2"


def member(name: str, groups: str, **memory: str) -> Json:
    """Return a device that consumes from the counter set `gpu`."""
    counters = {counter: {"value": amount} for counter, amount in memory.items()}
    consumed = {"counterSet": "gpu", "counters": counters, "compatibilityGroups": groups.split()}
    return {"name": name, "consumesCounters": [consumed]}


def pool(node: str, *members: Json, **memory: str) -> list[ResourceSlice]:
    """Return a pool with the counter set `gpu`."""
    spec: dict[str, Any] = {"pool": node, "nodeName": node, "count": 2}
    counters = {counter: {"value": amount} for counter, amount in memory.items()}
    shared = [{"name": "gpu", "counters": counters}]
    return [slice_(f"{node}-a", *members, **spec), slice_(f"{node}-b", sharedCounters=shared, **spec)]


PAIR: ResourceClaim = claim(request("one"), request("two"))


def test_nodes_with_equal_available_devices_differ_if_other_groups_are_in_force() -> None:
    """On both nodes p and q are available alone. They are available together only if `c` is in force."""
    members = [
        member("x", "a b", slot="1"),
        member("y", "a c", slot="1"),
        member("p", "a c", slot="0"),
        member("q", "b c", slot="0"),
    ]
    placer = cluster(
        *pool("node-1", *members, slot="1"), *pool("node-2", *members, slot="1"), compatibility_groups=True
    )
    placer.put_claim(holder("node-1", "x"))
    placer.put_claim(holder("node-2", "y"))
    assert placer.place([PAIR]).node == "node-2"


def test_nodes_with_equal_available_devices_differ_if_other_amounts_are_left() -> None:
    """On both nodes p and q are available alone. They are available together only if two are left."""
    members = [member("x", "", slot="1", memory="2"), member("y", "", slot="1", memory="1")]
    members += [member("p", "", memory="1"), member("q", "", memory="1")]
    nodes = (pool(name, *members, slot="1", memory="3") for name in ("node-1", "node-2"))
    placer = cluster(*(source for each in nodes for source in each))
    placer.put_claim(holder("node-1", "x"))
    placer.put_claim(holder("node-2", "y"))
    assert placer.place([PAIR]).node == "node-2"


def test_nodes_differ_by_the_capacity_that_shares_consume() -> None:
    shared = {"name": "gpu", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "4"}}}
    nodes = [slice_(name, shared, pool=name, nodeName=name) for name in ("node-1", "node-2")]
    placer = cluster(*nodes)
    for node, amount in (("node-1", "3"), ("node-2", "1")):
        placer.put_claim(holder(node, "gpu", consumedCapacity={"memory": amount}, shareID=SHARE))
    assert placer.place([claim(request(capacity={"requests": {"memory": "2"}}))]).node == "node-2"


def test_recorded_groups_count_only_on_their_node() -> None:
    """The slices are equal on both nodes. On the first a claim recorded another group."""
    members = [member(name, "mig", slot="0") for name in ("p", "q")]
    nodes = (pool(name, *members, slot="1") for name in ("node-1", "node-2"))
    placer = cluster(*(source for each in nodes for source in each), compatibility_groups=True)
    placer.put_claim(holder("node-1", "p", '{"gpu": ["vgpu"]}'))
    placer.put_claim(holder("node-2", "p", '{"gpu": ["mig"]}'))
    assert placer.place([claim(request())]).node == "node-2"


def test_a_counter_below_zero_blocks_all_devices_that_consume_on_its_node() -> None:
    members = [member("x", "", slot="2"), member("y", "", memory="1")]
    nodes = (pool(name, *members, slot="1", memory="1") for name in ("node-1", "node-2"))
    placer = cluster(*(source for each in nodes for source in each))
    placer.put_claim(holder("node-1", "x"))
    assert placer.place([claim(request())]).node == "node-2"


def test_lists_match_if_they_have_a_value_in_common() -> None:
    def gpus(node: str, *numbers: list[int]) -> ResourceSlice:
        members = [
            {"name": f"gpu-{n}", "attributes": {"numa": {"ints": each}}} for n, each in enumerate(numbers)
        ]
        return slice_(node, *members, pool=node, nodeName=node)

    pair = claim(request(count=2), constraints=[{"matchAttribute": f"{DRIVER}/numa"}])
    placer = cluster(gpus("node-1", [0, 1], [2, 3]), gpus("node-2", [0, 1], [1, 2]), list_type_attributes=True)
    assert placer.place([pair]).node == "node-2"


def test_a_shared_device_is_available_only_on_nodes_that_reach_it() -> None:
    """Both nodes reach the slice, and each reaches another device of it."""
    members = [
        {"name": "small", "nodeName": "node-1", "attributes": {"model": {"string": "small"}}},
        {"name": "big", "nodeName": "node-2", "attributes": {"model": {"string": "big"}}},
    ]
    placer = cluster(slice_("s", *members, nodeName=None, perDeviceNodeSelection=True))
    placer.put_node(AllocationNode("node-1"))
    placer.put_node(AllocationNode("node-2"))
    assert placer.place([claim(request(expression=MODEL))]).node == "node-2"


def test_values_are_compared_across_the_pools_of_a_node() -> None:
    def gpu(node: str, pool: str, rack: str) -> ResourceSlice:
        device = {"name": "gpu", "attributes": {"rack": {"string": rack}}}
        return slice_(f"{node}-{pool}", device, pool=f"{node}-{pool}", nodeName=node)

    racks = {"node-1": ("a", "b"), "node-2": ("c", "c")}
    placer = cluster(
        *(gpu(node, pool, rack) for node, two in racks.items() for pool, rack in zip("xy", two, strict=True))
    )
    pair = claim(request(count=2), constraints=[{"matchAttribute": f"{DRIVER}/rack"}])
    assert placer.place([pair]).node == "node-2"


def test_a_shared_device_in_use_is_in_use_on_all_nodes() -> None:
    placer = cluster(slice_("s", "gpu", pool="fabric", nodeName=None, allNodes=True))
    placer.put_node(AllocationNode("node-1"))
    assert placer.place([claim(request())]).node == "node-1"
    placer.put_claim(holder("fabric", "gpu"))
    with pytest.raises(NoNodeFits):
        placer.place([claim(request())])
    placer.remove_claim("default/of-fabric")
    assert placer.place([claim(request())]).node == "node-1"


def test_a_deleted_claim_releases_its_device_for_a_claim_that_was_refused() -> None:
    placer = cluster(slice_("s", "gpu", pool="node-1", nodeName="node-1"))
    placer.put_claim(holder("node-1", "gpu"))
    with pytest.raises(NoNodeFits):
        placer.place([claim(request())])
    placer.remove_claim("default/of-node-1")
    assert placer.place([claim(request())]).node == "node-1"


def test_a_new_generation_makes_the_pool_incomplete_until_all_its_slices_exist() -> None:
    def of(name: str, generation: int) -> ResourceSlice:
        return slice_(name, f"gpu-{name}", pool="node-1", nodeName="node-1", generation=generation, count=2)

    placer = cluster(of("a", 1), of("b", 1))
    assert placer.place([claim(request())]).node == "node-1"
    placer.put_slice(of("a", 2))
    with pytest.raises(NoNodeFits):
        placer.place([claim(request())])
    placer.put_slice(of("c", 2))
    (result,) = placer.place([claim(request())]).allocations["claim"].devices.results
    assert result.device == "gpu-a"
