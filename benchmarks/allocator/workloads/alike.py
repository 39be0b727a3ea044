"""Workloads whose nodes differ only in names and in values that no selector reads."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from benchmarks.allocator.workloads.claims import (
    FILL,
    GPUS,
    SHARES,
    draw_profiles,
    gpu_classes,
    one_claim,
    profile_claim,
)
from benchmarks.allocator.workloads.devices import Template, mig_node, plain_node
from benchmarks.allocator.workloads.stream import Workload, named_nodes, node_names
from dradriver.model.resource.claim import ClaimSpec

__all__ = ["filled", "grouped", "mig", "mig_workload", "plain"]

ALIKE_TARGET: Final = 100
_PLAIN_GPUS: Final = 10


def filled(template: Template, nodes: Iterable[str]) -> Iterator[bytes]:
    """Yield the slices of nodes with the same devices."""
    for node in nodes:
        yield from template.fill(node)


def plain(nodes: int, seed: int, sample: int = 0) -> Workload:
    """Return a workload of whole GPUs. The seed has no effect, because all pods are equal."""
    del seed
    template = Template(plain_node(_PLAIN_GPUS))
    return Workload(
        name=f"plain GPUs, {nodes} nodes",
        nodes=named_nodes(nodes),
        slices=lambda: filled(template, node_names(nodes)),
        classes=gpu_classes(),
        pods=(one_claim("gpu.example.com"),) * int(nodes * _PLAIN_GPUS * FILL),
        target=ALIKE_TARGET,
        sample=sample,
    )


def mig(nodes: int, seed: int, sample: int = 0) -> Workload:
    """Return a workload of MIG devices that need 90 % of the compute slices."""
    specs = {profile: profile_claim(profile) for profile in SHARES}
    return mig_workload(f"MIG, {nodes} nodes", nodes, seed, specs, target=ALIKE_TARGET, sample=sample)


def grouped(nodes: int, seed: int, sample: int = 0) -> Workload:
    """Return a workload of MIG devices and vGPUs, which one pod of five requests.

    A GPU is divided either into MIG devices or into vGPUs.
    """
    specs = {profile: profile_claim(profile) for profile in SHARES} | {"vgpu": one_claim("vgpu.example.com")}
    name = f"MIG and vGPU in groups, {nodes} nodes"
    return mig_workload(name, nodes, seed, specs, target=ALIKE_TARGET, sample=sample)


def mig_workload(
    name: str, nodes: int, seed: int, specs: Mapping[str, ClaimSpec], *, target: float, sample: int
) -> Workload:
    """Return a workload of nodes with eight A100.

    Args:
        name: name in the table.
        nodes: number of nodes.
        seed: the seed of the pods.
        specs: the claim for each profile. If there is one for `vgpu`, the devices have compatibility groups.
        target: factor by which placing must be faster than with kube-scheduler's plugin.
        sample: number of pods for kube-scheduler's plugin.
    """
    groups = "vgpu" in specs
    template = Template(mig_node(GPUS, grouped=groups))
    return Workload(
        name=name,
        nodes=named_nodes(nodes),
        slices=lambda: filled(template, node_names(nodes)),
        classes=gpu_classes(),
        pods=tuple(specs[kind] for kind in draw_profiles(seed, nodes * GPUS, vgpus=groups)),
        target=target,
        sample=sample,
        gates={"DRADeviceCompatibilityGroups": True} if groups else {},
    )
