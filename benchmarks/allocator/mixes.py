"""Mixes of claims for components of partitions: MIG devices of GPUs, and slices of TPU pools.

A component has the counters and devices that a driver publishes (KEP-4815). Its devices are in the published
order, the smallest first.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dradriver.allocator.placement.fleet.components import ComponentShape
from dradriver_gpu_mig.card.simulator.catalog import CATALOG, GpuModel

__all__ = ["MIXES", "Component", "Mix"]

_NANOS: Final = 10**9

_GPUS: Final = 160
_SHARES: Final = {1: 50, 2: 25, 3: 15, 4: 5, 7: 5}
"""Share of claims for profiles with this number of compute slices."""
_SHARE_OF_DOUBLE_MEMORY: Final = 15
"""Share of claims for the profile with one compute slice and twice the memory."""

_B200: Final = (
    ("1g.23gb", 1, 2, 1, range(7)),
    ("1g.45gb", 1, 2, 2, (0, 2, 4, 6)),
    ("2g.45gb", 2, 3, 2, (0, 2, 4)),
    ("3g.90gb", 3, 6, 4, (0, 4)),
    ("4g.90gb", 4, 8, 4, (0,)),
    ("7g.180gb", 7, 16, 8, (0,)),
)
"""Profile, compute slices, copy engines, memory slices and starts.

Source: NVIDIA Multi-Instance GPU User Guide, Supported MIG Profiles. The other models are in the catalog of the
GPU driver's simulator, with the placements that `nvidia-smi mig -lgipp` reports.
"""

_TPUS_PER_HOST: Final = 4


@dataclass(frozen=True)
class Device:
    """A partition: its kind, its compute and the amounts that it takes of counters."""

    kind: str
    compute: int
    takes: Mapping[str, int]


@dataclass(frozen=True)
class Component:
    """One component.

    Attributes:
        amounts: the total of each counter, by its name.
        devices: the partitions, in the published order.
        compute: the compute of the undivided device.
    """

    amounts: Mapping[str, int]
    devices: Sequence[Device]
    compute: int

    def shape(self) -> ComponentShape:
        """Return the component as the allocator represents it."""
        index = {name: at for at, name in enumerate(self.amounts)}
        needs = [
            tuple((index[name], amount * _NANOS) for name, amount in each.takes.items())
            for each in self.devices
        ]
        amounts = tuple(amount * _NANOS for amount in self.amounts.values())
        return ComponentShape(amounts, 1, needs, [() for _ in needs])

    def masks(self) -> dict[str, int]:
        """Return the devices of each kind, as bits."""
        masks: dict[str, int] = {}
        for number, device in enumerate(self.devices):
            masks[device.kind] = masks.get(device.kind, 0) | 1 << number
        return masks


@dataclass(frozen=True)
class Mix:
    """Claims that arrive at some equal components.

    Attributes:
        name: name in the table.
        component: one of the components.
        count: number of components.
        shares: relative number of claims for each kind.
        load: offered compute, as a part of all compute.
        target: upper limit for the share that `packed` refuses, relative to the share that `ordered` refuses.
            For MIG it applies to the mean of all mixes.
    """

    name: str
    component: Component
    count: int
    shares: Mapping[str, float]
    load: float
    target: float


def gpu(model: GpuModel) -> Component:
    """Return a GPU with every placement of its profiles without media extensions."""
    profiles = [each.to_profile() for each in model.profiles if "+" not in each.name]
    rows = [
        (
            each.name,
            each.slices,
            {
                "memory": each.memory >> 20,
                "multiprocessors": each.engines.multiprocessors,
                "copy-engines": each.engines.copy_engines,
                "decoders": each.engines.decoders,
            },
            each.placements[0].size,
            [placement.start for placement in each.placements],
        )
        for each in profiles
    ]
    return _gpu(rows, model.memory_slices)


def b200() -> Component:
    """Return a B200. The guide lists fractions, so memory and compute are counted in slices."""
    rows = [
        (name, slices, {"compute": slices, "copy-engines": engines}, size, starts)
        for name, slices, engines, size, starts in _B200
    ]
    return _gpu(rows, 8)


def _gpu(
    rows: Iterable[tuple[str, int, Mapping[str, int], int, Iterable[int]]], memory_slices: int
) -> Component:
    """Return a GPU from rows of profile, compute slices, engines, memory slices and starts, smallest first."""
    rows = sorted(rows, key=lambda row: (row[3], row[1]))
    whole = rows[-1]
    cells = {f"memory-slice-{number}": 1 for number in range(memory_slices)}
    devices = [
        Device(
            name,
            slices,
            {key: amount for key, amount in engines.items() if amount}
            | {f"memory-slice-{number}": 1 for number in range(start, start + size)},
        )
        for name, slices, engines, size, starts in rows
        for start in starts
    ]
    return Component({**whole[2], **cells}, devices, whole[1])


def tpu_pool(side: int) -> Component:
    """Return a pool of `side` x `side` hosts with all aligned slices, as in KEP-4815.

    A host has 2x2 TPUs. The slices are squares and rectangles of two squares. Each of them consumes the TPUs of
    its hosts.
    """
    slices = [(rows, columns) for rows in _powers(side) for columns in (rows, 2 * rows) if columns <= side]
    devices = [
        Device(
            f"{2 * rows}x{2 * columns}",
            rows * columns,
            {
                f"tpus-{top + row}-{left + column}": _TPUS_PER_HOST
                for row in range(rows)
                for column in range(columns)
            },
        )
        for rows, columns in slices
        for top in range(0, side, rows)
        for left in range(0, side, columns)
    ]
    amounts = {f"tpus-{row}-{column}": _TPUS_PER_HOST for row in range(side) for column in range(side)}
    return Component(amounts, devices, side * side)


def _powers(side: int) -> Iterator[int]:
    size = 1
    while size <= side:
        yield size
        size *= 2


def _mig(name: str, component: Component) -> Mix:
    compute = {device.kind: device.compute for device in component.devices}
    double = {
        device.kind
        for device in component.devices
        if device.compute == 1 and "memory-slice-0" in device.takes and "memory-slice-1" in device.takes
    }
    shares = {
        kind: _SHARE_OF_DOUBLE_MEMORY if kind in double else _SHARES[slices] for kind, slices in compute.items()
    }
    return Mix(f"{_GPUS} x {name}, load 90 %", component, _GPUS, shares, 0.9, 0.75)


def _tpu(side: int, count: int, hosts: int, load: float, target: float) -> Mix:
    """Return a mix in which all kinds of slices up to a number of hosts ask for equal parts of the compute."""
    component = tpu_pool(side)
    compute = {device.kind: device.compute for device in component.devices}
    shares = {kind: 1 / size for kind, size in compute.items() if size <= hosts}
    name = f"{count} x {side}x{side} TPU hosts, slices up to {hosts} hosts, load {100 * load:.0f} %"
    return Mix(name, component, count, shares, load, target)


MIXES: Final[Mapping[str, Sequence[Mix]]] = {
    "churn-tpu": [
        _tpu(side, count, hosts, load, target)
        for side, count, hosts in ((8, 4, 16), (8, 4, 32), (16, 1, 64))
        for load, target in ((0.9, 0.97), (0.7, 1))
    ],
    "churn-mig": [
        *(_mig(name, gpu(CATALOG[model])) for name, model in (("A30", "a30"), ("A100", "a100-40"))),
        *(_mig(name, gpu(CATALOG[model])) for name, model in (("H100", "h100-80"), ("H200", "h200-141"))),
        _mig("B200", b200()),
    ],
}
"""All mixes, by their name on the command line."""
