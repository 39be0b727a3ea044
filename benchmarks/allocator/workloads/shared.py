"""Workloads of nodes with devices of their own, beside pools that several nodes reach."""

import random
from collections.abc import Iterator
from typing import Final

from benchmarks.allocator.workloads.alike import filled
from benchmarks.allocator.workloads.claims import (
    COMPUTE,
    GPUS,
    SHARES,
    SLICES_PER_GPU,
    claim_of,
    draw_kinds,
    gpu_classes,
    one_claim,
)
from benchmarks.allocator.workloads.devices import Template, mig_node, plain_node, slices_of
from benchmarks.allocator.workloads.differing import IN, mig_claim
from benchmarks.allocator.workloads.stream import Workload, named_nodes, node_names
from dradriver.allocator import AllocationNode
from dradriver.model.core.node_selector import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from dradriver.model.encoding.codec import encode
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool
from dradriver.testing.builders import device_class, device_request

__all__ = ["network", "racks"]

_NETWORK: Final = "net.example.com"
_INTERFACES: Final = 1000
_SPEEDS: Final = (100, 200)

_MEMORY: Final = "memory.example.com"
_RACK: Final = "example.com/rack"
_RACK_NODES: Final = 20
_RACK_GPUS: Final = 4
_RACK_GIBIBYTES: Final = 8192
_BLOCKS: Final = {64: 96, 128: 64, 512: 16}
"""Sizes of a rack's memory blocks in GiB, with their numbers. Together they exceed the rack's memory."""


def network(nodes: int, seed: int, sample: int = 0) -> Workload:
    """Return a workload of MIG nodes and a pool of network interfaces that all nodes reach.

    Of 100 pods, 70 request a MIG device, 15 an interface, and 15 both.
    """
    template = Template(mig_node(GPUS))
    specs = {profile: mig_claim(IN.format(profile)) for profile in SHARES}
    needs = {profile: {"compute": float(COMPUTE[profile])} for profile in SHARES}
    shares = {profile: 0.7 * share for profile, share in SHARES.items()}
    for profile, share in SHARES.items():
        specs[f"{profile} and interface"] = claim_of(
            device_request("mig.example.com", IN.format(profile), name="gpu"),
            device_request(_NETWORK, _by_speed(200), name="net"),
        )
        needs[f"{profile} and interface"] = {"compute": COMPUTE[profile], "200": 1}
        shares[f"{profile} and interface"] = 0.15 * share
    specs["interface"], needs["interface"], shares["interface"] = (
        one_claim(_NETWORK, _by_speed(100)),
        {"100": 1},
        15,
    )
    available = {"compute": nodes * GPUS * SLICES_PER_GPU, **{str(speed): _INTERFACES / 2 for speed in _SPEEDS}}

    def slices() -> Iterator[bytes]:
        yield from filled(template, node_names(nodes))
        yield from map(encode, slices_of(_interfaces(), _NETWORK, None))

    return Workload(
        name=f"MIG and a pool of all nodes, {nodes} nodes",
        nodes=named_nodes(nodes),
        slices=slices,
        classes=(*gpu_classes(), device_class(_NETWORK)),
        pods=tuple(specs[kind] for kind in draw_kinds(random.Random(seed), shares, needs, available)),
        target=50,
        sample=sample,
    )


def _by_speed(speed: int) -> str:
    return f'device.attributes["{_NETWORK}"].speed == {speed}'


def _interfaces() -> Pool:
    return Pool(
        "network",
        devices=[
            Device(
                f"net-{number}",
                {"speed": _SPEEDS[number % 2], "mac": f"02:00:00:00:{number // 256:02x}:{number % 256:02x}"},
            )
            for number in range(_INTERFACES)
        ],
        all_nodes=True,
    )


def racks(nodes: int, seed: int, sample: int = 0) -> Workload:
    """Return a workload of nodes with four GPUs, and a pool of memory for every 20 of them.

    Of 100 pods, 40 request a GPU and memory, 30 only a GPU, and 30 only memory.
    """
    names = node_names(nodes)
    template = Template(plain_node(_RACK_GPUS))
    gpu = device_request("gpu.example.com", name="gpu")
    specs = {"gpu": claim_of(gpu)}
    needs: dict[str, dict[str, float]] = {"gpu": {"gpus": 1}}
    shares = {"gpu": 30.0}
    for size, share in ((64, 0.6), (128, 0.35), (512, 0.05)):
        memory = device_request(_MEMORY, _at_least(size), name="memory")
        specs |= {f"{size}": claim_of(memory), f"gpu and {size}": claim_of(gpu, memory)}
        needs |= {f"{size}": {"memory": size}, f"gpu and {size}": {"gpus": 1, "memory": size}}
        shares |= {f"{size}": 30 * share, f"gpu and {size}": 40 * share}
    count = nodes // _RACK_NODES
    available = {"gpus": nodes * _RACK_GPUS, "memory": count * _RACK_GIBIBYTES}

    def slices() -> Iterator[bytes]:
        yield from filled(template, names)
        for rack in range(count):
            yield from map(encode, slices_of(_memory(f"rack-{rack:02}"), _MEMORY, None))

    return Workload(
        name=f"GPUs and memory of racks, {nodes} nodes",
        nodes=tuple(
            AllocationNode(name, {_RACK: f"rack-{number // _RACK_NODES:02}"})
            for number, name in enumerate(names)
        ),
        slices=slices,
        classes=(*gpu_classes(), device_class(_MEMORY)),
        pods=tuple(specs[kind] for kind in draw_kinds(random.Random(seed), shares, needs, available)),
        sample=sample,
    )


def _at_least(gibibytes: int) -> str:
    return f'device.capacity["{_MEMORY}"].size.compareTo(quantity("{gibibytes}Gi")) >= 0'


def _memory(rack: str) -> Pool:
    requirement = NodeSelectorRequirement(_RACK, "In", (rack,))
    return Pool(
        rack,
        devices=[
            Device(
                f"block-{size}-{number}",
                {"rack": rack},
                {"size": f"{size}Gi"},
                [CounterConsumption("memory", {"size": f"{size}Gi"})],
            )
            for size, count in _BLOCKS.items()
            for number in range(count)
        ],
        counter_sets=[CounterSet("memory", {"size": f"{_RACK_GIBIBYTES}Gi"})],
        node_selector=NodeSelector([NodeSelectorTerm(match_expressions=[requirement])]),
    )
