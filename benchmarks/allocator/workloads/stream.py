"""A workload, and the file from which both programs read it.

Each line of the file is a word and a JSON object. So neither the benchmark nor a program has more than one
slice's text in memory at a time. The lines are in this order:

- `settings`: `gates`, and `stay`.
- `class`: a DeviceClass.
- `node`: the name and labels of a node.
- `slice`: a ResourceSlice.
- `held`: a ResourceClaim with an allocation, whose devices are in use at the start.
- `pod`: the spec of the only claim of a pod.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from dradriver.allocator import AllocationNode
from dradriver.model.encoding.codec import encode
from dradriver.model.resource.claim import ClaimSpec, ResourceClaim
from dradriver.model.resource.deviceclass import DeviceClass

__all__ = ["Workload", "named_nodes", "node_names", "write"]


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Pods to place one after the other.

    Attributes:
        name: name in the table.
        nodes: the nodes.
        slices: returns the ResourceSlices of all pools, as JSON.
        classes: the DeviceClasses.
        pods: the claim of each pod.
        held: claims with allocations. Their devices are in use at the start.
        target: factor by which placing must be faster than with kube-scheduler's plugin.
        sample: number of pods for kube-scheduler's plugin, for which all pods would take too long.
        stay: number of pods that have their devices at one time. Before each further pod, the oldest one
            leaves, whether it was placed or not. 0: all pods stay.
        gates: feature gates that differ from their defaults.
    """

    name: str
    nodes: tuple[AllocationNode, ...]
    slices: Callable[[], Iterable[bytes]]
    classes: tuple[DeviceClass, ...]
    pods: tuple[ClaimSpec, ...]
    held: tuple[ResourceClaim, ...] = ()
    target: float = 20
    sample: int = 0
    stay: int = 0
    gates: Mapping[str, bool] = field(default_factory=dict)


def node_names(nodes: int) -> list[str]:
    """Return names of nodes. They sort in the order of their numbers."""
    return [f"node-{number:05}" for number in range(nodes)]


def named_nodes(nodes: int) -> tuple[AllocationNode, ...]:
    """Return nodes without labels."""
    return tuple(map(AllocationNode, node_names(nodes)))


def write(workload: Workload, path: Path, pods: int | None = None) -> None:
    """Write the file that both programs read.

    Args:
        workload: the workload.
        path: the file. It is replaced.
        pods: number of pods, from the first one; None writes all.
    """
    with path.open("wb") as file:
        for word, text in _lines(workload, pods):
            file.write(b"%s %s\n" % (word, text))


def _lines(workload: Workload, pods: int | None) -> Iterator[tuple[bytes, bytes]]:
    yield b"settings", encode({"gates": workload.gates, "stay": workload.stay})
    for device_class in workload.classes:
        yield b"class", encode(device_class)
    for node in workload.nodes:
        yield b"node", encode({"name": node.name, "labels": node.labels})
    for text in workload.slices():
        yield b"slice", text
    for claim in workload.held:
        yield b"held", encode(claim)
    for spec in islice(workload.pods, pods):
        yield b"pod", encode(spec)
