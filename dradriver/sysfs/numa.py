"""`resource.kubernetes.io/numaNode`: the NUMA node whose memory is nearest to a device."""

from pathlib import Path
from typing import Final, Literal, TypeAlias

from dradriver.errors import DriverError, NotFoundError
from dradriver.sysfs.files import SYSFS, read, read_int

__all__ = ["NUMA_NODE", "NumaForm", "NumaValue", "numa_attribute", "numa_node_of_cpu"]

NUMA_NODE: Final = "resource.kubernetes.io/numaNode"
_MAX_NODES: Final = 1024  # the limit of the Linux kernel

NumaForm: TypeAlias = Literal["scalar", "list"]
"""Form of the published attribute: the NUMA node alone, or a list that starts with it."""

NumaValue: TypeAlias = int | list[int]


def numa_attribute(node: int, *, form: NumaForm = "scalar", sysfs: Path = SYSFS) -> dict[str, NumaValue]:
    """Return the attribute of a device with a known NUMA node, such as CPUs and memory.

    The call blocks while it reads files.

    Args:
        node: the NUMA node.
        form: the form of the value. A list contains the node, followed by the other nodes at the least
            distance, if they are on its socket. Lists require the feature gate DRAListTypeAttributes in the
            cluster. A driver cannot detect the gate, so make the form a setting for the cluster's
            administrator.
        sysfs: the mount point of sysfs.

    Raises:
        DriverError: a node with this number cannot exist. For a device near no node (-1), do not publish the
            attribute: all such devices would match each other.

    Source: `deviceattribute` of `k8s.io/dynamic-resource-allocation`.
    """
    if not 0 <= node < _MAX_NODES:
        raise DriverError(f"attribute {NUMA_NODE}: node {node}: must be between 0 and {_MAX_NODES - 1}")
    if form == "scalar":
        return {NUMA_NODE: node}
    return {NUMA_NODE: [node, *_find_nearest(node, sysfs / "devices" / "system")]}


def numa_node_of_cpu(cpu: int, *, sysfs: Path = SYSFS) -> int:
    """Return the NUMA node of a CPU. The call blocks while it reads files.

    Args:
        cpu: the kernel's number of the CPU.
        sysfs: the mount point of sysfs.

    Raises:
        NotFoundError: the CPU does not exist, or the kernel has no NUMA nodes.
    """
    folder = sysfs / "devices" / "system" / "cpu" / f"cpu{cpu}"
    names = sorted(path.name for path in folder.glob("node[0-9]*"))
    if not names or not (number := names[0].removeprefix("node")).isdecimal():
        raise NotFoundError(f"CPU {cpu}: has no NUMA node ({folder}/node*)")
    return int(number)


def _find_nearest(node: int, system: Path) -> list[int]:
    """Return the other nodes at the least distance that are on the node's socket.

    The list is empty if the kernel reports no distances.
    """
    # As in upstream, the n-th distance is taken for node n, although the kernel omits offline nodes.
    row = read(system / "node" / f"node{node}" / "distance").split()
    if node >= len(row) or not all(text.isdecimal() for text in row):
        return []
    distances = {other: int(text) for other, text in enumerate(row) if other != node}
    shortest = min(distances.values(), default=0)
    socket = _read_socket(node, system)
    # If the socket of a node is unknown (memory without CPUs), the node is kept.
    return [
        other
        for other, distance in distances.items()
        if distance == shortest and (socket is None or _read_socket(other, system) in {None, socket})
    ]


def _read_socket(node: int, system: Path) -> int | None:
    """Return the socket of a node's first CPU; None for a node without CPUs."""
    first = read(system / "node" / f"node{node}" / "cpulist").partition(",")[0].partition("-")[0]
    if not first.isdecimal():
        return None
    return read_int(system / "cpu" / f"cpu{first}" / "topology" / "physical_package_id")
