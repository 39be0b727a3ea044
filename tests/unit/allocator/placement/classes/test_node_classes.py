"""Classes of equal nodes: how often a placer evaluates selectors, and which differences count."""

from collections.abc import Callable

import pytest

from dradriver.allocator import PACKED, AllocationNode, CelSelectors, Features, Meter, Order, PooledDevice
from dradriver.allocator.placement import NoNodeFits, Placement, Placer
from dradriver.allocator.request.selectors import Matcher
from dradriver.allocator.supply.order import ORDERED
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.slices import ResourceSlice
from tests.unit.allocator.worlds import CLASSES, DRIVER, claim, devices, request, slice_

Json = dict[str, object]

BIG = f"device.attributes['{DRIVER}'].model == 'big'"


class Counting(CelSelectors):
    """Counts the evaluations of selectors."""

    def __init__(self) -> None:
        self.evaluations = 0

    def compile(self, expression: str, meter: Meter) -> Matcher:
        matches = super().compile(expression, meter)

        def counted(device: PooledDevice, meter: Meter) -> bool:
            self.evaluations += 1
            return matches(device, meter)

        return counted


def gpu(name: str, **attributes: str) -> Json:
    return {"name": name, "attributes": {key: {"string": value} for key, value in attributes.items()}}


def cluster(
    nodes: int,
    hardware: Callable[[str], ResourceSlice],
    order: Order = ORDERED,
    selectors: CelSelectors | None = None,
) -> Placer:
    placer = Placer(order=order, selectors=selectors, features=Features())
    placer.put_class(CLASSES["gpu"])
    for name in (f"node-{number:02}" for number in range(nodes)):
        placer.put_node(AllocationNode(name))
        placer.put_slice(hardware(name))
    return placer


def two_gpus(node: str) -> ResourceSlice:
    """Return nodes whose slices, pools, devices and counter sets all have different names."""
    members = [gpu(f"gpu-{node}-{n}", model="big", uuid=f"{node}/{n}") for n in range(2)]
    return slice_(f"slice-{node}", *members, pool=f"pool-{node}", nodeName=node)


def place(placer: Placer, wanted: ResourceClaim) -> Placement:
    placement = placer.place([wanted])
    placer.hold([wanted], placement)
    return placement


def test_a_selector_is_evaluated_once_for_equal_devices_of_all_nodes() -> None:
    selectors = Counting()
    placer = cluster(30, two_gpus, selectors=selectors)
    for number in range(60):
        place(placer, claim(request(expression=BIG), name=f"claim-{number}"))
    assert selectors.evaluations == 1


def test_selectors_are_not_evaluated_on_equal_nodes_that_come_later() -> None:
    asked = []

    def may_run_on(node: AllocationNode) -> bool:
        asked.append(node.name)
        return True

    cluster(30, two_gpus).place([claim(request(expression=BIG))], may_run_on=may_run_on)
    assert asked == ["node-00"]


def test_a_selector_that_reads_serial_numbers_distinguishes_nodes() -> None:
    mine = f"device.attributes['{DRIVER}'].uuid == 'node-17/1'"
    placement = cluster(30, two_gpus).place([claim(request(expression=mine))])
    assert (placement.node, devices(placement.allocations)) == ("node-17", ["gpu-node-17-1"])


def test_a_constraint_distinguishes_nodes_by_which_values_are_equal() -> None:
    """The values differ on all nodes. Only on the last node two devices have equal values."""

    def hardware(node: str) -> ResourceSlice:
        roots = (node, node) if node == "node-04" else (node, f"{node}-other")
        members = [gpu(f"gpu-{n}", root=root) for n, root in enumerate(roots)]
        return slice_(f"slice-{node}", *members, pool=node, nodeName=node)

    pair = claim(request(count=2), constraints=[{"matchAttribute": f"{DRIVER}/root"}])
    assert cluster(5, hardware).place([pair]).node == "node-04"


def test_packed_prefers_the_node_with_the_fewest_devices_left() -> None:
    placer = cluster(3, two_gpus, PACKED)
    first = place(placer, claim(request(count=2), name="first"))
    placer.remove_claim("default/first")
    assert first.node == "node-00"
    placer.remove_node("node-00")
    assert [place(placer, claim(request(), name=f"c{n}")).node for n in range(3)] == [
        "node-01",
        "node-01",
        "node-02",
    ]


def test_a_changed_slice_affects_only_its_node() -> None:
    placer = cluster(3, two_gpus)
    small = [gpu("gpu-0", model="small", uuid="x")]
    placer.put_slice(slice_("slice-node-00", *small, pool="pool-node-00", nodeName="node-00", generation=2))
    assert placer.place([claim(request(expression=BIG))]).node == "node-01"


def test_reasons_are_given_only_for_the_most_frequent_kinds_of_nodes() -> None:
    def hardware(node: str) -> ResourceSlice:
        members = [gpu(f"gpu-{n}", model="small") for n in range(int(node.removeprefix("node-")) + 1)]
        return slice_(f"slice-{node}", *members, pool=node, nodeName=node)

    with pytest.raises(NoNodeFits) as caught:
        cluster(40, hardware).place([claim(request(expression=BIG))])
    groups = caught.value.groups
    assert sum(len(group.nodes) for group in groups) == 40
    assert [len(group.nodes) for group in groups if not group.refusal.reasons] == [8]
