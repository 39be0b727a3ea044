"""Time of a refusal: claims for one device more than a node has."""

import time
from typing import Final

from msgspec.structs import replace

from benchmarks.allocator.devices import PLACEHOLDER, mig_node, plain_node
from benchmarks.allocator.workloads import GPUS, Workload, classes, one_claim, profile_claim
from benchmarks.report import percentile
from dradriver.allocator import AllocationNode, InUse, Inventory, Order, Refusal, allocate
from dradriver.model.core.meta import ObjectMeta
from dradriver.model.resource.claim import ClaimSpec, ResourceClaim

__all__ = ["REFUSALS", "TARGET_MS", "p99_ms"]

TARGET_MS: Final = 5.0
_RUNS: Final = 100
_3G: Final = "3g.20gb"


def _times(spec: ClaimSpec, count: int) -> ClaimSpec:
    """Return a claim with `count` copies of its only request."""
    (request,) = spec.devices.requests
    requests = [replace(request, name=f"{request.name}-{number}") for number in range(count)]
    return ClaimSpec(replace(spec.devices, requests=requests))


def _workload(name: str, claim: ClaimSpec, *, mig: bool) -> Workload:
    slices = mig_node(GPUS) if mig else plain_node(GPUS)
    return Workload(name, 1, slices, {"claim": claim}, ("claim",) * 3, 0, 3)


REFUSALS: Final = (
    _workload("nine requests for a GPU, eight GPUs", _times(one_claim("gpu.example.com"), 9), mig=False),
    _workload("17 requests for 3g.20gb, eight A100-40", _times(profile_claim(_3G), 17), mig=True),
    _workload("one request for 17 3g.20gb, eight A100-40", profile_claim(_3G, count=17), mig=True),
)
"""Workloads with empty nodes. The peer gets three pods, because each refusal takes it seconds."""


def p99_ms(workload: Workload, order: Order) -> tuple[float, float]:
    """Return the 99th percentile of a refusal in milliseconds of wall time and of CPU time.

    The inventory is parsed before.
    """
    inventory = Inventory.of(workload.slices)
    known = {device_class.metadata.name: device_class for device_class in classes()}
    claim = ResourceClaim(metadata=ObjectMeta(namespace="default", name="claim"), spec=workload.kinds["claim"])

    def refuse() -> tuple[float, float]:
        start, used = time.perf_counter(), time.process_time()
        try:
            allocate([claim], inventory, known, InUse(), AllocationNode(PLACEHOLDER), order=order)
        except Refusal as refusal:
            if refusal.kind == "node":
                return time.perf_counter() - start, time.process_time() - used
            raise
        raise AssertionError(f"{workload.name}: there is one device too many in the claim")

    wall, cpu = zip(*(refuse() for _ in range(_RUNS)), strict=True)
    return 1e3 * percentile(wall, 99), 1e3 * percentile(cpu, 99)
