"""The workloads: nodes, and pods with one claim each, drawn from a seed. Both sides read them from one file."""

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.allocator.devices import DRIVER, PLACEHOLDER, mig_node, plain_node
from dradriver.model.encoding.codec import builtins
from dradriver.model.resource.claim import ClaimSpec, DeviceRequests
from dradriver.model.resource.deviceclass import DeviceClass
from dradriver.model.resource.slices import ResourceSlice
from dradriver.testing.builders import device_class, device_request

__all__ = [
    "COMPUTE",
    "GPUS",
    "SHARES",
    "SLICES_PER_GPU",
    "WORKLOADS",
    "Workload",
    "classes",
    "grouped",
    "mig",
    "one_claim",
    "profile_claim",
    "write",
]

GPUS: Final = 8
_PLAIN_GPUS: Final = 10
_FILL: Final = 0.9
_OF: Final = f'device.attributes["{DRIVER}"]'

SHARES: Final = {"1g.5gb": 50, "2g.10gb": 25, "3g.20gb": 15, "4g.20gb": 5, "7g.40gb": 5}
"""How often pods want a profile, in percent."""

COMPUTE: Final = {profile: int(profile[0]) for profile in SHARES}
"""Compute slices of a profile; a GPU has seven."""

SLICES_PER_GPU: Final = 7


@dataclass(frozen=True)
class Workload:
    """Pods to be placed one after the other.

    Attributes:
        name: as it stands in the table.
        nodes: how many nodes.
        slices: the slices of one node.
        kinds: by name the claims that pods have.
        pods: for each pod its kind.
        target: how many times faster than kube-scheduler's plugin placing these pods must be.
        sample: how many of the pods kube-scheduler's plugin is given, which would take too long for all.
        gates: the feature gates that are not at their defaults.
    """

    name: str
    nodes: int
    slices: tuple[ResourceSlice, ...]
    kinds: Mapping[str, ClaimSpec]
    pods: tuple[str, ...]
    target: float
    sample: int
    gates: Mapping[str, bool] = field(default_factory=dict)

    @property
    def node_names(self) -> list[str]:
        """The names, which sort as they are numbered."""
        return [f"node-{number:05}" for number in range(self.nodes)]


def one_claim(device_class: str, *selectors: str, count: int = 1) -> ClaimSpec:
    """A claim for devices of a class."""
    return ClaimSpec(DeviceRequests(requests=[device_request(device_class, *selectors, count=count)]))


def classes() -> list[DeviceClass]:
    """One class for each type of device."""
    return [
        device_class(f"{kind}.example.com", f'device.driver == "{DRIVER}" && {_OF}.type == "{kind}"')
        for kind in ("gpu", "mig", "vgpu")
    ]


def profile_claim(profile: str, count: int = 1) -> ClaimSpec:
    """A claim for MIG devices of a profile."""
    return one_claim("mig.example.com", f'{_OF}.profile == "{profile}"', count=count)


def plain(nodes: int, seed: int) -> Workload:
    """Whole GPUs; the seed changes nothing, as all pods are alike."""
    del seed
    pods = ("gpu",) * int(nodes * _PLAIN_GPUS * _FILL)
    kinds = {"gpu": one_claim("gpu.example.com")}
    return Workload(f"plain GPUs, {nodes} nodes", nodes, plain_node(_PLAIN_GPUS), kinds, pods, 10, 1000)


def mig(nodes: int, seed: int, target: float, sample: int) -> Workload:
    """MIG devices, as many as make up 90 % of the compute slices."""
    kinds = {profile: profile_claim(profile) for profile in SHARES}
    pods = _drawn(random.Random(seed), SHARES, COMPUTE, nodes * GPUS)
    return Workload(f"MIG, {nodes} nodes", nodes, mig_node(GPUS), kinds, pods, target, sample)


def grouped(nodes: int, seed: int, target: float, sample: int) -> Workload:
    """The same beside vGPUs, for which one pod of five asks: a GPU is cut in one way or the other."""
    kinds = {profile: profile_claim(profile) for profile in SHARES} | {"vgpu": one_claim("vgpu.example.com")}
    shares = SHARES | {"vgpu": 25}
    pods = _drawn(random.Random(seed), shares, COMPUTE | {"vgpu": SLICES_PER_GPU / 4}, nodes * GPUS)
    return Workload(
        f"MIG and vGPU in groups, {nodes} nodes",
        nodes,
        mig_node(GPUS, grouped=True),
        kinds,
        pods,
        target,
        sample,
        {"DRADeviceCompatibilityGroups": True},
    )


def _drawn(
    draw: random.Random, shares: Mapping[str, int], compute: Mapping[str, float], gpus: int
) -> tuple[str, ...]:
    """Kinds of pods by their shares, until they would fill the GPUs as far as is wanted."""
    room = gpus * SLICES_PER_GPU * _FILL
    pods: list[str] = []
    while True:
        (kind,) = draw.choices(list(shares), list(shares.values()))
        room -= compute[kind]
        if room < 0:
            return tuple(pods)
        pods.append(kind)


WORKLOADS: Final = {
    "plain": lambda seed: plain(500, seed),
    "mig-100": lambda seed: mig(100, seed, 50, 500),
    "mig-500": lambda seed: mig(500, seed, 100, 200),
    "mig-5000": lambda seed: mig(5000, seed, 300, 20),
    "groups-100": lambda seed: grouped(100, seed, 50, 300),
}
"""The workloads by the name for the command line, from a seed."""


def write(workload: Workload, path: Path) -> None:
    """Writes the file that both programs read."""
    content = {
        "gates": dict(workload.gates),
        "nodes": workload.node_names,
        "placeholder": PLACEHOLDER,
        "slices": builtins(workload.slices),
        "classes": builtins(classes()),
        "claims": {name: builtins(spec) for name, spec in workload.kinds.items()},
        "pods": workload.pods,
    }
    path.write_text(json.dumps(content))
