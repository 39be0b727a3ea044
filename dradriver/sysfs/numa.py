"""`resource.kubernetes.io/numaNode`: the memory near a device."""

from pathlib import Path
from typing import Final, Literal, TypeAlias

from dradriver.errors import DriverError, NotFoundError
from dradriver.sysfs.files import SYSFS, read, read_int

__all__ = ["NUMA_NODE", "NumaForm", "NumaValue", "numa_attribute", "numa_node_of_cpu"]

NUMA_NODE: Final = "resource.kubernetes.io/numaNode"
_MOST_NODES: Final = 1024  # the kernel's own limit

NumaForm: TypeAlias = Literal["scalar", "list"]
"""Form of a published NUMA node: the node alone, or a list with equally near nodes."""

NumaValue: TypeAlias = int | list[int]


def numa_attribute(node: int, *, form: NumaForm = "scalar", sysfs: Path = SYSFS) -> dict[str, NumaValue]:
    """Return the attribute of a device with a known NUMA node, such as CPUs and memory; blocks on the disk.

    Args:
        node: the NUMA node.
        form: a list has the node first, then those of the same socket at the least distance. Lists need the
            feature gate DRAListTypeAttributes in the cluster. A driver cannot detect it, so make it a setting
            for the cluster's administrator.
        sysfs: the mount point of sysfs.

    Raises:
        DriverError: such a node cannot exist. A device near no node (-1) has no such attribute: it would match
            all others.
    """
    if not 0 <= node < _MOST_NODES:
        raise DriverError(f"{NUMA_NODE}: {node} is not a node between 0 and {_MOST_NODES - 1}")
    if form == "scalar":
        return {NUMA_NODE: node}
    return {NUMA_NODE: [node, *_as_near(node, sysfs / "devices" / "system")]}


def numa_node_of_cpu(cpu: int, *, sysfs: Path = SYSFS) -> int:
    """Return the NUMA node of a CPU; blocks on the disk.

    Raises:
        NotFoundError: the CPU does not exist, or the kernel has no NUMA nodes.
    """
    folder = sysfs / "devices" / "system" / "cpu" / f"cpu{cpu}"
    found = sorted(path.name for path in folder.glob("node[0-9]*"))
    if not found or not (number := found[0].removeprefix("node")).isdecimal():
        raise NotFoundError(f"CPU {cpu} is in no NUMA node ({folder}/node*)")
    return int(number)


def _as_near(node: int, system: Path) -> list[int]:
    """Return the other nodes of the socket at the least distance; empty if the kernel reports no distances."""
    # The n-th distance counts for node n, as upstream does, although the kernel omits offline nodes.
    row = read(system / "node" / f"node{node}" / "distance").split()
    if node >= len(row) or not all(text.isdecimal() for text in row):
        return []
    distances = {other: int(text) for other, text in enumerate(row) if other != node}
    least = min(distances.values(), default=0)
    socket = _socket(node, system)
    # A node with an unknown socket (memory without CPUs) is kept.
    return [
        other
        for other, distance in distances.items()
        if distance == least and (socket is None or _socket(other, system) in {None, socket})
    ]


def _socket(node: int, system: Path) -> int | None:
    """Return the socket of a node, by its first CPU; None for a node without CPUs."""
    first = read(system / "node" / f"node{node}" / "cpulist").partition(",")[0].partition("-")[0]
    if not first.isdecimal():
        return None
    return read_int(system / "cpu" / f"cpu{first}" / "topology" / "physical_package_id")
