"""Workloads whose claims have several requests, or requests with alternatives."""

import random
from collections.abc import Iterator, Sequence
from typing import Final

from benchmarks.allocator.workloads.claims import (
    COMPUTE,
    OF_GPU,
    SHARES,
    SLICES_PER_GPU,
    claim_of,
    draw_kinds,
    gpu_classes,
    one_claim,
)
from benchmarks.allocator.workloads.devices import DRIVER, Template, mig_node, slices_of
from benchmarks.allocator.workloads.stream import Workload, named_nodes, node_names
from dradriver.model.encoding.codec import encode
from dradriver.model.resource.claim import (
    CelSelector,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
)
from dradriver.model.resource.device import Device, Version
from dradriver.model.resource.pool import Pool
from dradriver.testing.builders import device_class, device_request

__all__ = ["choices", "matched"]

_NIC: Final = "nic.example.com"
_ROOT: Final = "resource.kubernetes.io/pcieRoot"
_FUNCTIONS: Final = 8

_SIZES: Final = (2, 4, 8)
_FIRMWARES: Final = tuple(map(Version, ("96.0.60", "96.0.74", "97.1.0")))


def matched(nodes: int, seed: int, sample: int = 0) -> Workload:
    """Return a workload of GPUs and network functions of two drivers, which most pods want on one PCIe root.

    Nodes differ in the numbers of GPUs, network cards and roots, and in the names of the roots. Of 100 pods, 50
    request a GPU and a function, 20 two GPUs and a function, 20 a GPU, and 10 a function.
    """
    draw = random.Random(seed)
    pools: list[tuple[str, Pool, Pool]] = []
    gpus = 0
    for node in node_names(nodes):
        roots = [
            f"pci{draw.randrange(16):04x}:{bus:02x}" for bus in draw.sample(range(256), draw.choice((1, 2, 4)))
        ]
        count = draw.choice((4, 6, 8))
        gpus += count
        pools.append((node, _gpus(node, roots, count), _functions(node, roots, draw.choice((4, 8)))))
    gpu, function = device_request("gpu.example.com", name="gpu"), device_request(_NIC, name="net")
    both = device_request("gpu.example.com", name="gpu", count=2)
    specs = {
        "pair": claim_of(gpu, function, match=_ROOT),
        "three": claim_of(both, function, match=_ROOT),
        "gpu": claim_of(gpu),
        "function": claim_of(function),
    }
    shares = {"pair": 50, "three": 20, "gpu": 20, "function": 10}
    needs: dict[str, dict[str, float]] = {
        "pair": {"gpus": 1},
        "three": {"gpus": 2},
        "gpu": {"gpus": 1},
        "function": {},
    }

    def slices() -> Iterator[bytes]:
        for node, cards, functions in pools:
            yield from map(encode, slices_of(cards, DRIVER, node))
            yield from map(encode, slices_of(functions, _NIC, node))

    return Workload(
        name=f"GPU and NIC of one PCIe root, {nodes} nodes",
        nodes=named_nodes(nodes),
        slices=slices,
        classes=(*gpu_classes(), device_class(_NIC)),
        pods=tuple(specs[kind] for kind in draw_kinds(draw, shares, needs, {"gpus": gpus})),
        sample=sample,
    )


def _gpus(node: str, roots: Sequence[str], count: int) -> Pool:
    return Pool(
        devices=[
            Device(
                f"gpu-{number}",
                {"type": "gpu", "uuid": f"GPU-{node}-{number}", _ROOT: roots[number % len(roots)]},
                {"memory": "40Gi"},
            )
            for number in range(count)
        ]
    )


def _functions(node: str, roots: Sequence[str], cards: int) -> Pool:
    return Pool(
        devices=[
            Device(
                f"nic-{card}-vf-{function}",
                {"card": f"{node}-nic-{card}", _ROOT: roots[card % len(roots)]},
            )
            for card in range(cards)
            for function in range(_FUNCTIONS)
        ]
    )


def choices(nodes: int, seed: int, sample: int = 0) -> Workload:
    """Return a workload of MIG devices that pods request by memory, by firmware, or as the first of a list.

    Nodes have two, four or eight cards and one of three versions of the firmware. Of 100 pods, 40 request the
    largest of three profiles that is available, 30 a device with some memory, and 30 one with a firmware of at
    least the second version.
    """
    draw = random.Random(seed)
    kinds = [(cards, firmware) for cards in _SIZES for firmware in _FIRMWARES]
    templates = {kind: Template(mig_node(kind[0], firmware=kind[1])) for kind in kinds}
    cluster = {node: draw.choice(kinds) for node in node_names(nodes)}
    newer = f'{OF_GPU}.firmware.compareTo(semver("{_FIRMWARES[1]}")) >= 0'
    memory = f'device.capacity["{DRIVER}"].memory'
    specs = {
        "list": claim_of(_first_available("3g.20gb", "2g.10gb", "1g.5gb")),
        "memory": one_claim(
            "mig.example.com",
            f'{memory}.compareTo(quantity("9Gi")) >= 0 && {memory}.compareTo(quantity("16Gi")) < 0',
        ),
        **{
            profile: one_claim("mig.example.com", f'{OF_GPU}.profile == "{profile}" && {newer}')
            for profile in SHARES
        },
    }
    needs = {profile: {"compute": COMPUTE[profile], "newer": COMPUTE[profile]} for profile in SHARES}
    shares = {"list": 40, "memory": 30, **{profile: 0.3 * share for profile, share in SHARES.items()}}
    every = sum(cards for cards, _ in cluster.values())
    some = sum(cards for cards, firmware in cluster.values() if firmware != _FIRMWARES[0])
    # A pod with a list takes a larger device than it needs, so the pods need less than the others' 90 %.
    needs |= {"list": {"compute": 4}, "memory": {"compute": 2}}
    drawn = draw_kinds(draw, shares, needs, {"compute": every * SLICES_PER_GPU, "newer": some * SLICES_PER_GPU})
    return Workload(
        name=f"MIG by memory, firmware or a list, {nodes} nodes",
        nodes=named_nodes(nodes),
        slices=lambda: (text for node, kind in cluster.items() for text in templates[kind].fill(node)),
        classes=gpu_classes(),
        pods=tuple(specs[kind] for kind in drawn),
        sample=sample,
    )


def _first_available(*profiles: str) -> DeviceRequest:
    return DeviceRequest(
        "device",
        first_available=[
            DeviceSubRequest(
                name=profile.replace(".", "-"),
                device_class_name="mig.example.com",
                selectors=[DeviceSelector(CelSelector(f'{OF_GPU}.profile == "{profile}"'))],
            )
            for profile in profiles
        ],
    )
