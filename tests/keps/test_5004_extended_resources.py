"""KEP-5004: extended resources backed by DRA, as far as the API server decides: what is stored and dropped.

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


async def named(plane: ControlPlane, name: str = "gpu", resource: str = "example.com/gpu") -> str | None:
    """Applies a class for an extended resource; the name that was stored."""
    (stored,) = await plane.apply(CLASS.format(name=name, resource=resource))
    found: str | None = stored["spec"].get("extendedResourceName")
    return found


async def read(plane: ControlPlane, name: str = "gpu") -> str | None:
    stored = await plane.client.get(CLASSES, name, into=dict[str, Any])
    found: str | None = stored["spec"].get("extendedResourceName")
    return found


async def test_a_class_names_its_extended_resource(plane: ControlPlane) -> None:
    await plane.start()
    assert await named(plane) == "example.com/gpu"


async def test_two_classes_may_name_one_extended_resource(plane: ControlPlane) -> None:
    """Which of them a scheduler takes is its own affair; the server accepts both."""
    await plane.start()
    assert await named(plane, "old") == await named(plane, "new") == "example.com/gpu"


async def test_the_name_of_a_class_can_be_changed_and_taken_away(plane: ControlPlane) -> None:
    await plane.start()
    await named(plane)
    assert await named(plane, resource="example.com/other") == "example.com/other"
    await plane.client.patch(
        *(CLASSES, "gpu", "", {"spec": {"extendedResourceName": None}}, PatchKind.MERGE), into=dict
    )
    assert await read(plane) is None


@pytest.mark.parametrize("wrong", ["gpu", "kubernetes.io/gpu", "requests.example.com/gpu", "example.com/g p"])
async def test_a_name_that_is_no_extended_resource_is_refused(plane: ControlPlane, wrong: str) -> None:
    await plane.start()
    with pytest.raises(Invalid, match="extendedResourceName"):
        await named(plane, resource=wrong)


async def test_with_the_gate_off_the_field_is_dropped_on_write(plane: ControlPlane) -> None:
    await plane.start(OFF)
    assert await named(plane) is None


async def test_enabled_disabled_and_enabled_again(plane: ControlPlane) -> None:
    await plane.start()
    await named(plane)

    await plane.start(OFF)
    assert await read(plane) == "example.com/gpu"
    assert await named(plane, resource="example.com/renamed") == "example.com/renamed", "in use: kept"
    assert await named(plane, "other") is None

    await plane.start()
    assert await read(plane) == "example.com/renamed"
    assert await read(plane, "other") is None, "dropped is dropped"
    assert await named(plane, "other") == "example.com/gpu", "until it is applied again"


async def test_allocations_of_the_class_stay_while_the_gate_is_off(plane: ControlPlane) -> None:
    """Existing allocations are never evaluated again, and claims by class name do not need the gate."""
    await plane.start()
    await named(plane)
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


async def special(plane: ControlPlane, name: str, *, make: bool) -> dict[str, Any] | None:
    """Writes to a pod's status which claim was made for its extended resources; what was stored."""
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


async def test_a_pod_keeps_the_claim_that_was_made_for_it(plane: ControlPlane) -> None:
    await plane.start()
    assert await special(plane, "before", make=True) == SPECIAL

    await plane.start(OFF)
    assert await special(plane, "before", make=False) == SPECIAL, "in use: kept"
    assert await special(plane, "meanwhile", make=True) is None

    await plane.start()
    assert await special(plane, "meanwhile", make=False) == SPECIAL
