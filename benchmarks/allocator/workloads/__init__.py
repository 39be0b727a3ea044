"""The workloads: nodes, devices and pods, drawn from a seed.

- `stream`: a workload, and the file from which both programs read it.
- `claims`: claims, classes and the draw of pods.
- `devices`: nodes with GPUs.
- `alike`: nodes that differ only in names and in values that no selector reads.
- `differing`: nodes with their own values or cards.
- `shared`: nodes with their own devices, beside pools that several nodes reach.
- `superpods`: TPU superpods, whose devices span nodes.
- `combined`: claims with several requests, or with alternatives.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from benchmarks.allocator.workloads.alike import grouped, mig, plain
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
from benchmarks.allocator.workloads.stream import Workload, write
from benchmarks.allocator.workloads.superpods import superpods

__all__ = ["WORKLOADS", "Workload", "write"]

WORKLOADS: Final[dict[str, Callable[[int], Workload]]] = {
    "plain": partial(plain, 500, sample=1000),
    "mig-100": partial(mig, 100, sample=500),
    "mig-500": partial(mig, 500, sample=200),
    "mig-5000": partial(mig, 5000, sample=20),
    "groups-100": partial(grouped, 100, sample=300),
    "in-100": partial(guarded, 100, sample=300),
    "in-500": partial(guarded, 500, sample=60),
    "in-groups-100": partial(guarded_groups, 100, sample=300),
    "texts-100": partial(other_cards, 100, sample=200),
    "sizes-100": partial(sizes, 100, sample=300),
    "superpods-256": partial(superpods, 256, sample=300),
    "network-100": partial(network, 100, sample=300),
    "matched-100": partial(matched, 100, sample=200),
    "choices-100": partial(choices, 100, sample=300),
    "racks-200": partial(racks, 200, sample=300),
    "named-500": partial(named_cards, 500, sample=60),
    **{
        f"spread-{nodes}-{percent}": partial(spread, nodes, percent, sample=sample)
        for nodes, sample in ((500, 60), (2000, 30), (5000, 20))
        for percent in (1, 10, 100)
    },
}
"""Functions that return a workload for a seed, by their name on the command line."""
