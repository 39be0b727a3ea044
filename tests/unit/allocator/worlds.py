"""Small clusters for the tests of the allocator."""

from collections.abc import Mapping, Sequence
from typing import Any

from dradriver.allocator import (
    ORDERED,
    AllocationNode,
    Features,
    InUse,
    Inventory,
    Meter,
    Order,
    Reporter,
    allocate,
)
from dradriver.model.core.meta import ObjectMeta
from dradriver.model.encoding.codec import from_builtins
from dradriver.model.resource.claim import Allocation, ResourceClaim
from dradriver.model.resource.deviceclass import DeviceClass
from dradriver.model.resource.slices import ResourceSlice
from tests.conformance.allocator.a100 import a100_slices

Json = dict[str, Any]

DRIVER = "gpu.example.com"
NODE = AllocationNode("node-1")
CLASSES = {"gpu": DeviceClass(metadata=ObjectMeta(name="gpu"))}


def slice_(name: str, *devices: str | Json, pool: str = "pool", **spec: Any) -> ResourceSlice:
    """Return a slice that completes its pool on node-1; devices by name or as a body."""
    generation, count = spec.pop("generation", 1), spec.pop("count", 1)
    body = {
        "driver": DRIVER,
        "nodeName": NODE.name,
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
        "devices": [{"name": device} if isinstance(device, str) else device for device in devices],
        **spec,
    }
    return from_builtins(ResourceSlice, {"metadata": {"name": name}, "spec": body})


def claim(*requests: Json, name: str = "claim", constraints: Sequence[Json] = ()) -> ResourceClaim:
    """Return a claim without an allocation."""
    return from_builtins(
        ResourceClaim,
        {
            "metadata": {"name": name, "namespace": "default", "uid": name},
            "spec": {"devices": {"requests": list(requests), "constraints": list(constraints)}},
        },
    )


def request(name: str = "gpu", expression: str = "", **fields: Any) -> Json:
    """Return a request for devices of class gpu."""
    selectors = [{"cel": {"expression": expression}}] if expression else []
    return {"name": name, "exactly": {"deviceClassName": "gpu", "selectors": selectors, **fields}}


def a100(gpus: int) -> list[ResourceSlice]:
    """Return the slices of a node with A100s."""
    return [from_builtins(ResourceSlice, raw) for raw in a100_slices(NODE.name, gpus)]


def profile(name: str) -> str:
    """Return the selector of a MIG profile."""
    return f"device.attributes['gpu.nvidia.com'].profile == '{name}'"


def try_on(
    slices: Sequence[ResourceSlice],
    *claims: ResourceClaim,
    in_use: Sequence[ResourceClaim] = (),
    features: Features | None = None,
    reporter: Reporter | None = None,
    order: Order = ORDERED,
    meter: Meter | None = None,
) -> Mapping[str, Allocation]:
    """Allocate the claims on node-1."""
    return allocate(
        claims,
        Inventory.of(slices),
        CLASSES,
        InUse.of(in_use),
        NODE,
        features=features or Features(),
        reporter=reporter,
        order=order,
        meter=meter,
    )


def devices(found: Mapping[str, Allocation]) -> list[str]:
    """Return the allocated devices of all claims."""
    return [result.device for allocation in found.values() for result in allocation.devices.results]
