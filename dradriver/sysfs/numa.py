"""`resource.kubernetes.io/numaNode`: the memory that is near a device."""

from pathlib import Path
from typing import Final, Literal, TypeAlias

from dradriver.errors import DriverError, NotFoundError
from dradriver.sysfs.files import SYSFS, read, read_int

__all__ = ["NUMA_NODE", "NumaForm", "NumaValue", "numa_attribute", "numa_node_of_cpu"]

NUMA_NODE: Final = "resource.kubernetes.io/numaNode"
_MOST_NODES: Final = 1024  # the kernel's own limit

NumaForm: TypeAlias = Literal["scalar", "list"]
"""How a NUMA node is published: the node alone, or a list of it and of the nodes that are as good."""

NumaValue: TypeAlias = int | list[int]


def numa_attribute(node: int, *, form: NumaForm = "scalar", sysfs: Path = SYSFS) -> dict[str, NumaValue]:
    """The attribute of a device that knows its NUMA node by itself, such as CPUs and memory. Blocking.

    Args:
        node: the NUMA node.
        form: a list holds the node first, then those of the same socket at the least distance. Lists need the
            feature gate DRAListTypeAttributes in the cluster, which a driver can't find out: let whoever runs
            the cluster choose.
        sysfs: where sysfs is mounted.

    Raises:
        DriverError: there can be no such node. A device near to no node (-1) has no such attribute: it would
            match all the others.
    """
    if not 0 <= node < _MOST_NODES:
        raise DriverError(f"{NUMA_NODE}: {node} is not a node between 0 and {_MOST_NODES - 1}")
    if form == "scalar":
        return {NUMA_NODE: node}
    return {NUMA_NODE: [node, *_as_near(node, sysfs / "devices" / "system")]}


def numa_node_of_cpu(cpu: int, *, sysfs: Path = SYSFS) -> int:
    """The NUMA node that a CPU belongs to. Blocking.

    Raises:
        NotFoundError: there is no such CPU, or the kernel knows no NUMA nodes.
    """
    folder = sysfs / "devices" / "system" / "cpu" / f"cpu{cpu}"
    found = sorted(path.name for path in folder.glob("node[0-9]*"))
    if not found or not (number := found[0].removeprefix("node")).isdecimal():
        raise NotFoundError(f"CPU {cpu} is in no NUMA node ({folder}/node*)")
    return int(number)


def _as_near(node: int, system: Path) -> list[int]:
    """The other nodes of the socket at the least distance, none where the kernel tells no distances."""
    # The n-th distance is taken for node n, as upstream does, although the kernel leaves out nodes that are
    # offline.
    row = read(system / "node" / f"node{node}" / "distance").split()
    if node >= len(row) or not all(text.isdecimal() for text in row):
        return []
    distances = {other: int(text) for other, text in enumerate(row) if other != node}
    least = min(distances.values(), default=0)
    socket = _socket(node, system)
    # A node whose socket is not known (memory without CPUs) is rather kept than lost.
    return [
        other
        for other, distance in distances.items()
        if distance == least and (socket is None or _socket(other, system) in {None, socket})
    ]


def _socket(node: int, system: Path) -> int | None:
    """The socket of a node, by its first CPU; None for a node without CPUs."""
    first = read(system / "node" / f"node{node}" / "cpulist").partition(",")[0].partition("-")[0]
    if not first.isdecimal():
        return None
    return read_int(system / "cpu" / f"cpu{first}" / "topology" / "physical_package_id")
