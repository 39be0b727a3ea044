"""Packing of policies while pods come and go: the share of compute that is refused.

Pods arrive at random times and live for random times. A pod that fits on no node does not return. All policies
get the same pods at the same times. The first three mean lifetimes, in which the nodes fill, are not counted.
"""

import contextlib
import heapq
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from benchmarks.allocator.workloads.claims import (
    COMPUTE,
    GPUS,
    SHARES,
    SLICES_PER_GPU,
    gpu_classes,
    profile_claim,
)
from benchmarks.allocator.workloads.devices import Template, mig_node
from dradriver.allocator import ORDERED, PACKED, AllocationNode, Order
from dradriver.allocator.placement import NoNodeFits, Placement, Placer
from dradriver.model.core.meta import ObjectMeta
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.slice_reader import SliceReader

__all__ = ["POLICIES", "SEEDS", "TARGETS", "refused_percent"]

SEEDS: Final = range(1, 7)
TARGETS: Final = {"random node": 1 / 5, "node order": 0.7}
"""Upper limits for the share that `packed` refuses, relative to the share that the policy refuses."""

_NODES: Final = 20
_LOAD: Final = 0.9
_LIFETIMES_BEFORE: Final = 3
_LIFETIMES: Final = 60


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod of the simulation. Times are in mean lifetimes."""

    claim: ResourceClaim
    profile: str
    arrives: float
    leaves: float


def pods(seed: int, nodes: int) -> Iterator[Pod]:
    """Yield pods that would fill the nodes to 90 % on average if none was refused."""
    draw = random.Random(seed)
    specs = {profile: profile_claim(profile) for profile in SHARES}
    mean = sum(COMPUTE[profile] * share for profile, share in SHARES.items()) / sum(SHARES.values())
    rate = _LOAD * nodes * GPUS * SLICES_PER_GPU / mean
    now = draw.expovariate(rate)
    number = 0
    while now < _LIFETIMES_BEFORE + _LIFETIMES:
        (profile,) = draw.choices(list(SHARES), list(SHARES.values()))
        name = f"pod-{number}"
        claim = ResourceClaim(
            metadata=ObjectMeta(namespace="default", name=name, uid=name), spec=specs[profile]
        )
        yield Pod(claim, profile, now, now + draw.expovariate(1))
        now += draw.expovariate(rate)
        number += 1


class Policy:
    """Places pods on the node that the placer finds.

    Args:
        seed: seed of the policy's own choices.
        order: order of devices and nodes.
        nodes: number of nodes.
    """

    def __init__(self, seed: int, order: Order, nodes: int) -> None:
        self.draw = random.Random(seed)
        self.names = [f"node-{number:02}" for number in range(nodes)]
        self.placer = Placer(order=order)
        template, reader = Template(mig_node(GPUS)), SliceReader()
        for device_class in gpu_classes():
            self.placer.put_class(device_class)
        for name in self.names:
            self.placer.put_node(AllocationNode(name))
            for text in template.fill(name):
                self.placer.put_slice(reader.read(text))

    def admit(self, pod: Pod) -> bool:
        """Place the pod and return whether it fits."""
        placement = self.place(pod)
        if placement is not None:
            self.placer.hold([pod.claim], placement)
        return placement is not None

    def place(self, pod: Pod) -> Placement | None:
        """Return the placement of the pod, or None."""
        try:
            return self.placer.place([pod.claim])
        except NoNodeFits:
            return None

    def left(self, pod: Pod) -> None:
        """Remove the pod."""
        self.placer.remove_claim(pod.claim.ref)


class RandomFit(Policy):
    """Takes the first node that fits in random order, which is close to kube-scheduler's behavior."""

    def place(self, pod: Pod) -> Placement | None:
        for name in self.draw.sample(self.names, len(self.names)):
            with contextlib.suppress(NoNodeFits):
                return self.placer.place([pod.claim], may_run_on=lambda node: node.name == name)  # noqa: B023
        return None


Make: TypeAlias = Callable[[int, int], Policy]

POLICIES: Final[Mapping[str, Make]] = {
    "packed": lambda seed, nodes: Policy(seed, PACKED, nodes),
    "random node": lambda seed, nodes: RandomFit(seed, ORDERED, nodes),
    "node order": lambda seed, nodes: Policy(seed, ORDERED, nodes),
}


def refused_percent(make: Make, seed: int, nodes: int = _NODES) -> float:
    """Return the refused compute slices in percent of the requested ones."""
    policy = make(seed, nodes)
    leaving: list[tuple[float, int, Pod]] = []
    offered = refused = 0
    for number, pod in enumerate(pods(seed, nodes)):
        while leaving and leaving[0][0] <= pod.arrives:
            policy.left(heapq.heappop(leaving)[2])
        admitted = policy.admit(pod)
        if admitted:
            heapq.heappush(leaving, (pod.leaves, number, pod))
        if pod.arrives >= _LIFETIMES_BEFORE:
            offered += COMPUTE[pod.profile]
            refused += 0 if admitted else COMPUTE[pod.profile]
    return 100 * refused / offered
