"""KEP-5007: binding conditions, the API server's part: fields that are stored, dropped, kept and rejected.

`test_5007_pods_wait_for_their_devices` has the scheduler's part. The YAML is the KEP's, corrected where 1.37
rejects it.
"""

from collections.abc import Mapping
from typing import Any, Final

import pytest

from dradriver.kube import CLAIMS, SLICES, Invalid, PatchKind
from tests.keps.conftest import ControlPlane

GATE: Final = "DRADeviceBindingConditions"
STATUS_GATE: Final = "DRAResourceClaimDeviceStatus"
OFF: Final = {GATE: False}

DRIVER: Final = "dra.example.com"
FIELDS: Final = {
    "bindsToNode": True,
    "bindingConditions": ["dra.example.com/is-prepared"],
    "bindingFailureConditions": ["dra.example.com/preparing-failed"],
}
IN_RESULTS: Final = {name: FIELDS[name] for name in ("bindingConditions", "bindingFailureConditions")}
SLICE: Final = """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {{name: {name}}}
spec:
  driver: dra.example.com
  pool: {{name: {name}, generation: {generation}, resourceSliceCount: 1}}
  allNodes: true
  devices:
  - name: gpu-1
    bindsToNode: true
    bindingConditions: [dra.example.com/is-prepared]
    bindingFailureConditions: [dra.example.com/preparing-failed]
"""
CLASS: Final = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {selectors: [{cel: {expression: "device.driver == 'dra.example.com'"}}]}
"""
CLAIM: Final = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{name: {name}}}
spec: {{devices: {{requests: [{{name: gpu, exactly: {{deviceClassName: gpu}}}}]}}}}
"""


async def device(plane: ControlPlane, name: str = "fabric", generation: int = 1) -> dict[str, Any]:
    """Publish a slice; return its device as it was stored."""
    (stored,) = await plane.apply(SLICE.format(name=name, generation=generation))
    found: dict[str, Any] = stored["spec"]["devices"][0]
    return found


async def read_device(plane: ControlPlane, name: str = "fabric") -> dict[str, Any]:
    stored = await plane.client.get(SLICES, name, into=dict[str, Any])
    found: dict[str, Any] = stored["spec"]["devices"][0]
    return found


async def write_status(plane: ControlPlane, name: str, status: Mapping[str, Any]) -> dict[str, Any]:
    """Merge this into a claim's status, as a scheduler or driver would; return the stored status."""
    stored = await plane.client.patch(
        *(CLAIMS, name, "default", {"status": status}, PatchKind.MERGE),
        into=dict[str, Any],
        subresource="status",
    )
    written: dict[str, Any] = stored["status"]
    return written


async def allocate(plane: ControlPlane, name: str, device: str = "gpu-1") -> dict[str, Any]:
    """Create a claim and allocate it a device, as a scheduler with the gate on; return the result.

    Two claims need two devices: the control plane reverts a double allocation.
    """
    await plane.apply(CLAIM.format(name=name))
    result = {"request": "gpu", "driver": DRIVER, "pool": "fabric", "device": device, **IN_RESULTS}
    status = await write_status(plane, name, {"allocation": {"devices": {"results": [result]}}})
    return results(status)


def results(status: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = status["allocation"]["devices"]["results"][0]
    return found


async def read_status(plane: ControlPlane, name: str) -> dict[str, Any]:
    stored = await plane.client.get(CLAIMS, name, "default", into=dict[str, Any])
    found: dict[str, Any] = stored["status"]
    return found


def prepared(status: str) -> dict[str, Any]:
    """Return the device status of an external controller."""
    condition = {
        "type": "dra.example.com/is-prepared",
        "status": status,
        "reason": "Attached",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    return {
        "devices": [{"driver": DRIVER, "pool": "fabric", "device": "gpu-1", "conditions": [condition]}],
    }


def has(fields: Mapping[str, Any], stored: Mapping[str, Any]) -> bool:
    return {name: stored.get(name) for name in fields} == dict(fields)


def has_none(fields: Mapping[str, Any], stored: Mapping[str, Any]) -> bool:
    return not set(fields) & set(stored)


async def test_conditions_are_stored_in_slices_results_and_device_status(plane: ControlPlane) -> None:
    await plane.start()
    await plane.apply(CLASS)
    assert has(FIELDS, await device(plane))
    assert has(IN_RESULTS, await allocate(plane, "claim"))
    status = await write_status(plane, "claim", prepared("True"))
    assert status["devices"][0]["conditions"][0]["status"] == "True"


@pytest.mark.parametrize("gate", [GATE, STATUS_GATE])
async def test_with_either_gate_off_the_fields_of_slices_are_dropped(plane: ControlPlane, gate: str) -> None:
    """For this reason the SDK reads the stored slice: without conditions a driver attaches in prepare."""
    await plane.start({gate: False})
    assert await device(plane) == {"name": "gpu-1"}


async def test_with_the_gate_off_the_fields_of_results_are_dropped(plane: ControlPlane) -> None:
    await plane.start(OFF)
    await plane.apply(CLASS)
    assert has_none(IN_RESULTS, await allocate(plane, "claim"))


async def test_with_the_status_gate_off_no_device_has_a_status(plane: ControlPlane) -> None:
    """1.37 locks this gate on; older servers do not."""
    await plane.start({STATUS_GATE: False})
    await plane.apply(CLASS)
    await allocate(plane, "claim")
    assert "devices" not in await write_status(plane, "claim", prepared("True"))


async def test_slices_enabled_disabled_and_enabled_again(plane: ControlPlane) -> None:
    await plane.start()
    await device(plane)

    await plane.start(OFF)
    assert has(FIELDS, await read_device(plane))
    assert has(FIELDS, await device(plane, generation=2)), "in use: kept"
    assert has_none(FIELDS, await device(plane, "other"))

    await plane.start()
    assert has(FIELDS, await read_device(plane))
    assert has_none(FIELDS, await read_device(plane, "other")), "dropped is dropped"
    assert has(FIELDS, await device(plane, "other", generation=2)), "until its driver publishes it again"


async def test_allocations_enabled_disabled_and_enabled_again(plane: ControlPlane) -> None:
    """An existing allocation is never evaluated again: its conditions stay, and can still become true."""
    await plane.start()
    await plane.apply(CLASS)
    await allocate(plane, "before")
    await write_status(plane, "before", prepared("False"))

    await plane.start(OFF)
    assert has(IN_RESULTS, results(await read_status(plane, "before")))
    status = await write_status(plane, "before", prepared("True"))
    assert has(IN_RESULTS, results(status)), "in use: kept"
    assert status["devices"][0]["conditions"][0]["status"] == "True"
    assert has_none(IN_RESULTS, await allocate(plane, "meanwhile", "gpu-2"))

    await plane.start()
    assert has(IN_RESULTS, results(await read_status(plane, "before")))
    assert has_none(IN_RESULTS, results(await read_status(plane, "meanwhile")))


async def test_device_status_enabled_disabled_and_enabled_again(plane: ControlPlane) -> None:
    await plane.start()
    await plane.apply(CLASS)
    await allocate(plane, "claim")
    await write_status(plane, "claim", prepared("False"))

    await plane.start({STATUS_GATE: False})
    assert (await write_status(plane, "claim", prepared("True")))["devices"], "in use: kept"

    await plane.start()
    (entry,) = (await read_status(plane, "claim"))["devices"]
    assert entry["conditions"][0]["status"] == "True"


MISTAKES: Final = {
    "conditions without failure conditions": {"bindingConditions": ["ready"]},
    "failure conditions without conditions": {"bindingFailureConditions": ["failed"]},
    "one condition in both": {"bindingConditions": ["a"], "bindingFailureConditions": ["a"]},
    "a condition twice": {"bindingConditions": ["a", "a"], "bindingFailureConditions": ["b"]},
    "five conditions": {"bindingConditions": list("abcde"), "bindingFailureConditions": ["f"]},
    "no label": {"bindingConditions": ["not a label"], "bindingFailureConditions": ["b"]},
}


@pytest.mark.parametrize("wrong", MISTAKES.values(), ids=MISTAKES.keys())
async def test_1_37_rejects(plane: ControlPlane, wrong: dict[str, Any]) -> None:
    await plane.start()
    spec = {
        "driver": DRIVER,
        "pool": {"name": "fabric", "generation": 1, "resourceSliceCount": 1},
        "allNodes": True,
        "devices": [{"name": "gpu-1", **wrong}],
    }
    body = {"apiVersion": SLICES.api_version, "kind": SLICES.kind, "metadata": {"name": "fabric"}, "spec": spec}
    with pytest.raises(Invalid, match="binding"):
        await plane.client.create(SLICES, body, into=dict)
