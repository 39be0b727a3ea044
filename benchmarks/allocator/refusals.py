"""Time of a refusal: claims for one device more than a node has."""

import time
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from benchmarks.allocator.workloads import Workload
from benchmarks.allocator.workloads.claims import GPUS, gpu_classes, one_claim, profile_claim
from benchmarks.allocator.workloads.devices import PLACEHOLDER, Template, mig_node, plain_node
from benchmarks.allocator.workloads.stream import named_nodes
from benchmarks.report import percentile
from dradriver.allocator import AllocationNode, InUse, Inventory, Order, Refusal, allocate
from dradriver.model.core.meta import ObjectMeta
from dradriver.model.resource.claim import ClaimSpec, ResourceClaim
from dradriver.model.resource.slices import ResourceSlice

__all__ = ["REFUSALS", "TARGET_MS", "Excess", "p99_ms"]

TARGET_MS: Final = 5.0
_RUNS: Final = 100
_3G: Final = "3g.20gb"


def _times(spec: ClaimSpec, count: int) -> ClaimSpec:
    """Return a claim with `count` copies of its only request."""
    (request,) = spec.devices.requests
    requests = [replace(request, name=f"{request.name}-{number}") for number in range(count)]
    return ClaimSpec(replace(spec.devices, requests=requests))


@dataclass(frozen=True)
class Excess:
    """A claim for one device more than a node has.

    Attributes:
        name: name in the table.
        slices: the slices of the node.
        claim: the claim.
    """

    name: str
    slices: tuple[ResourceSlice, ...]
    claim: ClaimSpec

    @property
    def workload(self) -> Workload:
        """Return the workload for the peer. It has only three pods, because each refusal takes it seconds."""
        (node,) = named_nodes(1)
        return Workload(
            name=self.name,
            nodes=(node,),
            slices=lambda: Template(self.slices).fill(node.name),
            classes=gpu_classes(),
            pods=(self.claim,) * 3,
        )


REFUSALS: Final = (
    Excess(
        "nine requests for a GPU, eight GPUs", plain_node(GPUS), _times(one_claim("gpu.example.com"), GPUS + 1)
    ),
    Excess("17 requests for 3g.20gb, eight A100-40", mig_node(GPUS), _times(profile_claim(_3G), 17)),
    Excess("one request for 17 3g.20gb, eight A100-40", mig_node(GPUS), profile_claim(_3G, count=17)),
)
"""Refusals by an empty node."""


def p99_ms(excess: Excess, order: Order) -> tuple[float, float]:
    """Return the 99th percentile of a refusal in milliseconds of wall time and of CPU time.

    The inventory is parsed before.
    """
    inventory = Inventory.of(excess.slices)
    known = {device_class.metadata.name: device_class for device_class in gpu_classes()}
    claim = ResourceClaim(metadata=ObjectMeta(namespace="default", name="claim"), spec=excess.claim)

    def refuse() -> tuple[float, float]:
        start, used = time.perf_counter(), time.process_time()
        try:
            allocate([claim], inventory, known, InUse(), AllocationNode(PLACEHOLDER), order=order)
        except Refusal as refusal:
            if refusal.kind == "node":
                return time.perf_counter() - start, time.process_time() - used
            raise
        raise AssertionError(f"{excess.name}: there is one device too many in the claim")

    wall, cpu = zip(*(refuse() for _ in range(_RUNS)), strict=True)
    return 1e3 * percentile(wall, 99), 1e3 * percentile(cpu, 99)
