"""TPU superpods as in KEP-4815: pools of the cluster whose devices span one host to all hosts of a superpod."""

import random
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Final

from benchmarks.allocator.workloads.claims import one_claim
from benchmarks.allocator.workloads.devices import slices_of
from benchmarks.allocator.workloads.stream import Workload, node_names
from dradriver.allocator import AllocationNode
from dradriver.model.core.node_selector import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from dradriver.model.encoding.codec import encode
from dradriver.model.resource.claim import ClaimSpec
from dradriver.model.resource.counters import MAX_COUNTERS, CounterConsumption, CounterSet
from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool
from dradriver.testing.builders import device_class

__all__ = ["superpods"]

_DRIVER: Final = "tpu.example.com"
_CHIPS: Final = 4
_SHAPES: Final = {(1, 1): 45, (1, 2): 25, (2, 2): 18, (2, 4): 8, (4, 4): 3, (4, 8): 1, (8, 8): 0}
"""Rows and columns of hosts of a device, with the percentage of pods that request it."""
_LABELED: Final = 8
"""Devices of this many hosts and more select their nodes by a label, smaller ones by a list of host names."""
_PODS: Final = 1000
_LOAD: Final = 0.75


class Superpod:
    """A square of hosts with four chips each.

    Args:
        name: the name of the pool.
        hosts: the hosts row by row.
        side: number of hosts of a row.
    """

    def __init__(self, name: str, hosts: Sequence[str], side: int) -> None:
        self.name = name
        self.hosts = hosts
        self.side = side

    def nodes(self) -> Iterator[AllocationNode]:
        """Yield the hosts with a label for each larger device that they belong to."""
        labels: dict[str, dict[str, str]] = {host: {"kubernetes.io/hostname": host} for host in self.hosts}
        for shape, number, hosts in self._blocks():
            if len(hosts) >= _LABELED:
                for host in hosts:
                    labels[host][_label(shape)] = f"{self.name}-{number}"
        return (AllocationNode(host, own) for host, own in labels.items())

    def slices(self) -> Iterator[bytes]:
        """Yield the slices of the superpod's pool."""
        sets = [self.hosts[start : start + MAX_COUNTERS] for start in range(0, len(self.hosts), MAX_COUNTERS)]
        pool = Pool(
            self.name,
            devices=[self._device(*block) for block in self._blocks()],
            counter_sets=[CounterSet(f"tpus-{number}", _counters(part)) for number, part in enumerate(sets)],
            per_device_node_selection=True,
        )
        return map(encode, slices_of(pool, _DRIVER, None))

    def _blocks(self) -> Iterator[tuple[tuple[int, int], int, list[str]]]:
        """Yield shape, number and hosts of each device."""
        for rows, columns in _SHAPES:
            if max(rows, columns) <= self.side:
                starts = product(range(0, self.side, rows), range(0, self.side, columns))
                for number, (row, column) in enumerate(starts):
                    places = product(range(row, row + rows), range(column, column + columns))
                    yield (rows, columns), number, [self.hosts[i * self.side + j] for i, j in places]

    def _device(self, shape: tuple[int, int], number: int, hosts: Sequence[str]) -> Device:
        key, values = "kubernetes.io/hostname", tuple(hosts)
        if len(hosts) >= _LABELED:
            key, values = _label(shape), (f"{self.name}-{number}",)
        requirement = NodeSelectorRequirement(key, "In", values)
        sets: dict[str, list[str]] = {}
        for host in hosts:
            sets.setdefault(f"tpus-{self.hosts.index(host) // MAX_COUNTERS}", []).append(host)
        single = len(hosts) == 1
        return Device(
            f"tpu-{_topology(shape)}-{number}",
            {"topology": _topology(shape), "superpod": self.name},
            {"tpus": _CHIPS * len(hosts)},
            [CounterConsumption(name, _counters(part)) for name, part in sets.items()],
            node_name=hosts[0] if single else None,
            node_selector=None if single else NodeSelector([NodeSelectorTerm(match_expressions=[requirement])]),
        )


def superpods(nodes: int, seed: int, sample: int = 0) -> Workload:
    """Return a workload of superpods, half of the nodes in those of 16 hosts, half in those of 64.

    The pods come and go. A pod requests one device by its topology or by its number of chips.

    Args:
        nodes: number of nodes, a multiple of 128.
        seed: the seed of the pods.
        sample: number of pods for kube-scheduler's plugin.
    """
    names = node_names(nodes)
    sides = [4] * (nodes // 32) + [8] * (nodes // 128)
    pools: list[Superpod] = []
    for number, side in enumerate(sides):
        hosts, names = names[: side * side], names[side * side :]
        pools.append(Superpod(f"superpod-{number:02}", hosts, side))
    draw = random.Random(seed)
    shapes = draw.choices(list(_SHAPES), list(_SHAPES.values()), k=_PODS)
    hosts_of_a_pod = sum(rows * columns for rows, columns in shapes) / _PODS
    return Workload(
        name=f"superpods, {nodes} nodes",
        nodes=tuple(node for pool in pools for node in pool.nodes()),
        slices=lambda: (text for pool in pools for text in pool.slices()),
        classes=(device_class(_DRIVER),),
        pods=tuple(_claim(shape, by_chips=draw.random() < 0.5) for shape in shapes),
        stay=int(_LOAD * nodes / hosts_of_a_pod),
        target=50,
        sample=sample,
    )


def _claim(shape: tuple[int, int], *, by_chips: bool) -> ClaimSpec:
    if not by_chips:
        return one_claim(_DRIVER, f'device.attributes["{_DRIVER}"].topology == "{_topology(shape)}"')
    chips = _CHIPS * shape[0] * shape[1]
    return one_claim(_DRIVER, f'device.capacity["{_DRIVER}"].tpus.compareTo(quantity("{chips}")) == 0')


def _topology(shape: tuple[int, int]) -> str:
    """Return the chips of a device as `rowsxcolumns`; a host has two of each."""
    return f"{2 * shape[0]}x{2 * shape[1]}"


def _label(shape: tuple[int, int]) -> str:
    return f"{_DRIVER}/{_topology(shape)}"


def _counters(hosts: Sequence[str]) -> dict[str, int]:
    return {f"tpus-{host}": _CHIPS for host in hosts}
