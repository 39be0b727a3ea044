"""kube-scheduler's plugin, as the allocator's benchmark runs it, decides as our allocator does."""

from collections.abc import Callable
from functools import partial
from typing import Final

import pytest

from benchmarks.allocator.placing import Cluster, measure
from benchmarks.allocator.programs import Programs
from benchmarks.allocator.workloads import Workload
from benchmarks.allocator.workloads.alike import grouped, mig
from benchmarks.allocator.workloads.combined import choices, matched
from benchmarks.allocator.workloads.differing import (
    guarded,
    guarded_groups,
    named_cards,
    other_cards,
    sizes,
    spread,
)
from benchmarks.allocator.workloads.shared import network, racks
from benchmarks.allocator.workloads.superpods import superpods
from dradriver.allocator.placement import NoNodeFits, Placement
from tests.interop.oracle import GO

pytestmark = [
    pytest.mark.skipif(GO is None, reason="Go is not installed"),
    pytest.mark.timeout(900),
]

_WORKLOADS: Final[dict[str, Callable[[int], Workload]]] = {
    "guarded": partial(guarded, 4),
    "guarded_groups": partial(guarded_groups, 4),
    "other_cards": partial(other_cards, 4),
    "named_cards": partial(named_cards, 4),
    "sizes": partial(sizes, 6),
    "spread": partial(spread, 4, 50),
    "superpods": partial(superpods, 128),
    "network": partial(network, 4),
    "racks": partial(racks, 40),
    "matched": partial(matched, 6),
    "choices": partial(choices, 6),
}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    return Programs(tmp_path_factory.mktemp("programs"), with_peer=True)


@pytest.mark.parametrize("make", [mig, grouped])
def test_both_place_every_pod(programs: Programs, make: Callable[[int, int], Workload]) -> None:
    path = programs.file(make(4, 1), 50)
    theirs = programs.place_by_peer(path, 50)
    assert theirs is not None
    assert not theirs.failure
    assert measure(path, "packed").placed == theirs.placed == theirs.offered == 50


@pytest.mark.parametrize("name", _WORKLOADS)
def test_ordered_takes_the_devices_that_the_plugin_takes_on_its_node(programs: Programs, name: str) -> None:
    path = programs.file(_WORKLOADS[name](1), 100)
    cluster = Cluster(path, "ordered")
    placed = 0
    for number, (claim, choice) in enumerate(
        zip(cluster.claims(), programs.choices_of_peer(path), strict=True)
    ):
        cluster.leave(number)
        if not choice.node:
            with pytest.raises(NoNodeFits):
                cluster.placer.place([claim])
            continue
        allocations = cluster.placer.allocate_on(choice.node, [claim])
        results = allocations[claim.metadata.uid].devices.results
        assert [(each.request, each.id) for each in results] == [
            (each.request, each.id) for each in choice.devices or ()
        ], (number, choice.node)
        cluster.placer.hold([claim], Placement(choice.node, allocations))
        placed += 1
    assert placed
