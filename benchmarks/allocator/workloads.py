"""The workloads: nodes, and pods with one claim each, drawn from a seed.

Both programs read them from one file.
"""

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
"""Percentage of pods that request each profile."""

COMPUTE: Final = {profile: int(profile[0]) for profile in SHARES}
"""Compute slices of a profile. A GPU has seven."""

SLICES_PER_GPU: Final = 7


@dataclass(frozen=True)
class Workload:
    """Pods to place one after the other.

    Attributes:
        name: name in the table.
        nodes: number of nodes.
        slices: slices of one node.
        kinds: the pods' claims, by name.
        pods: the kind of each pod.
        target: factor by which placing must be faster than with kube-scheduler's plugin.
        sample: number of pods for kube-scheduler's plugin, for which all pods would take too long.
        gates: feature gates that differ from their defaults.
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
        """Names of the nodes. They sort in the order of their numbers."""
        return [f"node-{number:05}" for number in range(self.nodes)]


def one_claim(device_class: str, *selectors: str, count: int = 1) -> ClaimSpec:
    """Return a claim for devices of a class."""
    return ClaimSpec(DeviceRequests(requests=[device_request(device_class, *selectors, count=count)]))


def classes() -> list[DeviceClass]:
    """Return one class for each type of device."""
    return [
        device_class(f"{kind}.example.com", f'device.driver == "{DRIVER}" && {_OF}.type == "{kind}"')
        for kind in ("gpu", "mig", "vgpu")
    ]


def profile_claim(profile: str, count: int = 1) -> ClaimSpec:
    """Return a claim for MIG devices of a profile."""
    return one_claim("mig.example.com", f'{_OF}.profile == "{profile}"', count=count)


def plain(nodes: int, seed: int) -> Workload:
    """Return a workload of whole GPUs. The seed has no effect, because all pods are equal."""
    del seed
    pods = ("gpu",) * int(nodes * _PLAIN_GPUS * _FILL)
    kinds = {"gpu": one_claim("gpu.example.com")}
    return Workload(f"plain GPUs, {nodes} nodes", nodes, plain_node(_PLAIN_GPUS), kinds, pods, 10, 1000)


def mig(nodes: int, seed: int, target: float, sample: int) -> Workload:
    """Return a workload of MIG devices that need 90 % of the compute slices."""
    kinds = {profile: profile_claim(profile) for profile in SHARES}
    pods = _drawn(random.Random(seed), SHARES, COMPUTE, nodes * GPUS)
    return Workload(f"MIG, {nodes} nodes", nodes, mig_node(GPUS), kinds, pods, target, sample)


def grouped(nodes: int, seed: int, target: float, sample: int) -> Workload:
    """Return a workload of MIG devices and vGPUs, which one pod of five requests.

    A GPU is divided either into MIG devices or into vGPUs.
    """
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
    """Return kinds of pods drawn by their shares, up to the wanted load of the GPUs."""
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
"""Functions that return a workload for a seed, by their name on the command line."""


def write(workload: Workload, path: Path) -> None:
    """Write the file that both programs read."""
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
