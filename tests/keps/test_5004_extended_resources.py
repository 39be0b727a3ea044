"""KEP-5004: extended resources backed by DRA, the API server's part: stored and dropped fields.

In 1.37 the gate is locked on; with it off the server here is like 1.35 and older.
"""

from typing import Any, Final

import pytest

from dradriver.kube import CLASSES, PODS, Invalid, PatchKind
from tests.keps.conftest import ControlPlane, request

GATE: Final = "DRAExtendedResource"
OFF: Final = {GATE: False}

CLASS: Final = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {{name: {name}}}
spec:
  selectors: [{{cel: {{expression: "device.driver == 'gpu.example.com'"}}}}]
  extendedResourceName: {resource}
"""
NODE_AND_SLICE: Final = """
apiVersion: v1
kind: Node
metadata: {name: node-1}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: gpus}
spec:
  driver: gpu.example.com
  pool: {name: gpus, generation: 1, resourceSliceCount: 1}
  nodeName: node-1
  devices: [{name: gpu-0}, {name: gpu-1}]
"""


async def apply_class(plane: ControlPlane, name: str = "gpu", resource: str = "example.com/gpu") -> str | None:
    """Apply a class for an extended resource; return the name that was stored."""
    (stored,) = await plane.apply(CLASS.format(name=name, resource=resource))
    found: str | None = stored["spec"].get("extendedResourceName")
    return found


async def read(plane: ControlPlane, name: str = "gpu") -> str | None:
    stored = await plane.client.get(CLASSES, name, into=dict[str, Any])
    found: str | None = stored["spec"].get("extendedResourceName")
    return found


async def test_a_class_names_its_extended_resource(plane: ControlPlane) -> None:
    await plane.start()
    assert await apply_class(plane) == "example.com/gpu"


async def test_two_classes_may_name_one_extended_resource(plane: ControlPlane) -> None:
    """The server accepts both; the scheduler decides which of them it uses."""
    await plane.start()
    assert await apply_class(plane, "old") == await apply_class(plane, "new") == "example.com/gpu"


async def test_the_name_of_a_class_can_be_changed_and_removed(plane: ControlPlane) -> None:
    await plane.start()
    await apply_class(plane)
    assert await apply_class(plane, resource="example.com/other") == "example.com/other"
    await plane.client.patch(
        *(CLASSES, "gpu", "", {"spec": {"extendedResourceName": None}}, PatchKind.MERGE), into=dict
    )
    assert await read(plane) is None


@pytest.mark.parametrize("wrong", ["gpu", "kubernetes.io/gpu", "requests.example.com/gpu", "example.com/g p"])
async def test_a_name_that_is_no_extended_resource_is_rejected(plane: ControlPlane, wrong: str) -> None:
    await plane.start()
    with pytest.raises(Invalid, match="extendedResourceName"):
        await apply_class(plane, resource=wrong)


async def test_with_the_gate_off_the_field_is_dropped_on_write(plane: ControlPlane) -> None:
    await plane.start(OFF)
    assert await apply_class(plane) is None


async def test_enabled_disabled_and_enabled_again(plane: ControlPlane) -> None:
    await plane.start()
    await apply_class(plane)

    await plane.start(OFF)
    assert await read(plane) == "example.com/gpu"
    assert await apply_class(plane, resource="example.com/renamed") == "example.com/renamed", "in use: kept"
    assert await apply_class(plane, "other") is None

    await plane.start()
    assert await read(plane) == "example.com/renamed"
    assert await read(plane, "other") is None, "dropped is dropped"
    assert await apply_class(plane, "other") == "example.com/gpu", "until it is applied again"


async def test_allocations_of_the_class_stay_while_the_gate_is_off(plane: ControlPlane) -> None:
    """Existing allocations are never evaluated again, and claims by class name do not need the gate."""
    await plane.start()
    await apply_class(plane)
    await plane.apply(NODE_AND_SLICE)
    await plane.pod("before", request("gpu"))
    assert await plane.devices("before") == ["gpu-0"]

    await plane.start(OFF)
    assert await plane.devices("before") == ["gpu-0"]
    await plane.pod("meanwhile", request("gpu"))
    assert await plane.devices("meanwhile") == ["gpu-1"]

    await plane.start()
    assert await plane.devices("before") == ["gpu-0"]


SPECIAL: Final = {
    "resourceClaimName": "pod-extended-resources",
    "requestMappings": [
        {"containerName": "main", "resourceName": "example.com/gpu", "requestName": "container-0-request-0"}
    ],
}


async def write_special_claim(plane: ControlPlane, name: str, *, make: bool) -> dict[str, Any] | None:
    """Write the claim for a pod's extended resources to its status; return the stored value."""
    if make:
        resources = {"limits": {"example.com/gpu": "1"}}
        containers = [{"name": "main", "image": "busybox", "resources": resources}]
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"containers": containers},
        }
        await plane.client.create(PODS, pod, "default", into=dict)
    stored = await plane.client.patch(
        *(PODS, name, "default", {"status": {"extendedResourceClaimStatus": SPECIAL}}, PatchKind.MERGE),
        into=dict[str, Any],
        subresource="status",
    )
    found: dict[str, Any] | None = stored["status"].get("extendedResourceClaimStatus")
    return found


async def test_a_pod_keeps_its_special_claim(plane: ControlPlane) -> None:
    await plane.start()
    assert await write_special_claim(plane, "before", make=True) == SPECIAL

    await plane.start(OFF)
    assert await write_special_claim(plane, "before", make=False) == SPECIAL, "in use: kept"
    assert await write_special_claim(plane, "meanwhile", make=True) is None

    await plane.start()
    assert await write_special_claim(plane, "meanwhile", make=False) == SPECIAL
