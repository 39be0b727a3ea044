"""Claims and classes of the workloads, and the draw of pods."""

import random
from collections.abc import Mapping
from typing import Final

from benchmarks.allocator.workloads.devices import DRIVER
from dradriver.model.core.meta import ObjectMeta
from dradriver.model.core.node_selector import NodeSelector
from dradriver.model.resource.claim import (
    Allocation,
    ClaimSpec,
    ClaimStatus,
    DeviceAllocation,
    DeviceConstraint,
    DeviceRequest,
    DeviceRequests,
    DeviceResult,
    ResourceClaim,
)
from dradriver.model.resource.deviceclass import DeviceClass
from dradriver.testing.builders import device_class, device_request

__all__ = [
    "COMPUTE",
    "FILL",
    "GPUS",
    "OF_GPU",
    "SHARES",
    "SLICES_PER_GPU",
    "claim_of",
    "draw_kinds",
    "draw_profiles",
    "gpu_classes",
    "held_claim",
    "one_claim",
    "profile_claim",
]

GPUS: Final = 8
"""Cards of a node, where nodes don't differ in it."""

FILL: Final = 0.9
"""Share of the devices that the pods of a workload need."""

OF_GPU: Final = f'device.attributes["{DRIVER}"]'

SHARES: Final = {"1g.5gb": 50, "2g.10gb": 25, "3g.20gb": 15, "4g.20gb": 5, "7g.40gb": 5}
"""Percentage of pods that request each profile."""

COMPUTE: Final = {profile: int(profile[0]) for profile in SHARES}
"""Compute slices of a profile. A GPU has seven."""

SLICES_PER_GPU: Final = 7


def claim_of(*requests: DeviceRequest, match: str | None = None) -> ClaimSpec:
    """Return a claim with these requests.

    Args:
        requests: the requests.
        match: an attribute that must be equal for all devices of the claim; None: no such constraint.
    """
    constraints = [DeviceConstraint(match_attribute=match)] if match else []
    return ClaimSpec(DeviceRequests(requests=list(requests), constraints=constraints))


def one_claim(device_class: str, *selectors: str, count: int = 1) -> ClaimSpec:
    """Return a claim for devices of a class."""
    return claim_of(device_request(device_class, *selectors, count=count))


def profile_claim(profile: str, count: int = 1) -> ClaimSpec:
    """Return a claim for MIG devices of a profile."""
    return one_claim("mig.example.com", f'{OF_GPU}.profile == "{profile}"', count=count)


def held_claim(name: str, node: str, *devices: str) -> ResourceClaim:
    """Return a claim that holds devices of a node's GPU pool."""
    results = [DeviceResult(request="device", driver=DRIVER, pool=node, device=device) for device in devices]
    allocation = Allocation(
        devices=DeviceAllocation(results=results), node_selector=NodeSelector.for_node(node)
    )
    return ResourceClaim(
        metadata=ObjectMeta(namespace="default", name=name, uid=name, resource_version="1"),
        spec=one_claim(DRIVER, count=len(devices)),
        status=ClaimStatus(allocation=allocation),
    )


def gpu_classes() -> tuple[DeviceClass, ...]:
    """Return one class for each type of device of the GPU driver."""
    return tuple(
        device_class(f"{kind}.example.com", f'device.driver == "{DRIVER}" && {OF_GPU}.type == "{kind}"')
        for kind in ("gpu", "mig", "vgpu")
    )


def draw_profiles(seed: int, gpus: int, *, vgpus: bool = False) -> list[str]:
    """Return profiles of pods that need 90 % of the compute slices of the GPUs.

    Args:
        seed: the seed of the draw.
        gpus: number of GPUs that no claim holds.
        vgpus: whether there is a pod with the kind `vgpu` for every four others.
    """
    shares = {**SHARES, "vgpu": 25} if vgpus else SHARES
    needs = {kind: {"compute": COMPUTE.get(kind, SLICES_PER_GPU / 4)} for kind in shares}
    return draw_kinds(random.Random(seed), shares, needs, {"compute": gpus * SLICES_PER_GPU})


def draw_kinds(
    draw: random.Random,
    shares: Mapping[str, float],
    needs: Mapping[str, Mapping[str, float]],
    available: Mapping[str, float],
) -> list[str]:
    """Return kinds of pods, drawn by their shares, until the next one would need more than 90 %.

    Args:
        draw: the random numbers.
        shares: the weight of each kind.
        needs: the amounts that a pod of each kind needs.
        available: the amounts of all nodes together.
    """
    kinds, weights = list(shares), list(shares.values())
    left = {name: amount * FILL for name, amount in available.items()}
    drawn: list[str] = []
    while True:
        (kind,) = draw.choices(kinds, weights)
        for name, amount in needs[kind].items():
            left[name] -= amount
        if min(left.values()) < 0:
            return drawn
        drawn.append(kind)
