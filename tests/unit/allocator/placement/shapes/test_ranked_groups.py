"""The node for one shared device, where nodes reach different devices of a pool."""

from typing import Any

import pytest

from dradriver.allocator import PACKED, AllocationNode
from dradriver.allocator.placement import NoNodeFits, Placer
from tests.unit.allocator.placement.fleets import (
    SLOW,
    gpu,
    holder,
    memory,
    own,
    placer_of,
    reads,
    shared,
    takes_memory,
)
from tests.unit.allocator.worlds import claim, devices, request

FAR = [claim(request(expression=reads("place", "== 'far'")))]


def on(node: str, name: str, *bodies: dict[str, Any]) -> dict[str, Any]:
    """Return a device that only this node reaches."""
    return gpu(name, {"nodeName": node}, *bodies, place="far")


def cluster(*far: dict[str, Any], **near: int) -> Placer:
    """Return nodes with so many devices of their own, and a pool of which each node reaches some devices."""
    nodes = [own(node, *(gpu(f"x{n}", place="near") for n in range(count))) for node, count in near.items()]
    pool = [
        shared(*far, perDeviceNodeSelection=True, count=2),
        shared(name="counters", allNodes=True, count=2, sharedCounters=memory("8")),
    ]
    return placer_of(*pool, *nodes, order=PACKED)


def place(placer: Placer, *allowed: str) -> tuple[str, list[str]]:
    may_run_on = (lambda node: node.name in allowed) if allowed else None
    placement = placer.place(FAR, may_run_on=may_run_on)
    return placement.node, devices(placement.allocations)


def test_the_best_device_of_the_pool_decides() -> None:
    """What takes one of eight is better than what takes four, and than a device with binding conditions."""
    far = on("a", "slow", SLOW), on("b", "half", takes_memory("4")), on("c", "small", takes_memory("1"))
    placer = cluster(*far, a=1, b=1, c=1)
    assert place(placer) == ("c", ["small"])
    placer.put_claim(holder("fabric", "small"))
    assert place(placer) == ("b", ["half"])
    placer.put_claim(holder("fabric", "half"))
    assert place(placer) == ("a", ["slow"])
    placer.put_claim(holder("fabric", "slow"))
    with pytest.raises(NoNodeFits):
        place(placer)
    placer.remove_claim("default/fabric-small")
    assert place(placer) == ("c", ["small"])


def test_a_worse_device_is_chosen_if_the_best_is_only_on_nodes_that_are_not_allowed() -> None:
    placer = cluster(on("a", "slow", SLOW), on("b", "half", takes_memory("4")), on("c", "quick"), a=1, b=1, c=1)
    best = place(placer)
    assert place(placer, *({"a", "b", "c"} - {best[0]}))[0] != best[0]
    assert place(placer, "a") == ("a", ["slow"])


def test_of_equal_devices_that_on_the_node_with_the_fewest_available_devices_is_chosen() -> None:
    placer = cluster(*(on(node, f"of-{node}") for node in "abc"), a=2, b=1, c=1)
    assert place(placer) == ("b", ["of-b"])
    placer.put_claim(holder("c", "x0"))
    assert place(placer) == ("c", ["of-c"])


def test_of_equal_devices_and_nodes_the_first_node_by_name_is_chosen() -> None:
    """The devices are listed in another order than the nodes."""
    assert place(cluster(*(on(node, f"of-{node}") for node in "cab"), a=1, b=1, c=1)) == ("a", ["of-a"])


def test_a_node_that_comes_later_is_chosen_if_its_device_is_better() -> None:
    placer = cluster(on("a", "half", takes_memory("4")), on("b", "small", takes_memory("1")), a=1)
    assert place(placer) == ("a", ["half"])
    placer.put_slice(own("b", gpu("x", place="near")))
    placer.put_node(AllocationNode("b"))
    assert place(placer) == ("b", ["small"])


def test_a_device_that_is_released_later_is_chosen_if_it_is_better() -> None:
    placer = cluster(on("a", "half", takes_memory("4")), on("b", "small", takes_memory("1")), a=1, b=1)
    placer.put_claim(holder("fabric", "small"))
    assert place(placer) == ("a", ["half"])
    placer.remove_claim("default/fabric-small")
    assert place(placer) == ("b", ["small"])
