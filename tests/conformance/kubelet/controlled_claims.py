"""Claims that a controller has allocated (KEP-3063), as a kubelet of today handles them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final

from dradriver.kube import CLAIMS, PatchKind
from dradriver.model.classic.handles import split_handle
from dradriver.model.classic.names import MAX_HANDLE_BYTES, finalizer
from dradriver.model.encoding.codec import builtins, rfc3339
from tests.conformance.kubelet.lab import DRIVER, Lab

__all__ = ["ControlledClaims"]

CONTROLLER: Final = "controller.example.com"
OTHER: Final = "nic.example.com"
HANDLE: Final = bytes(range(256)) * (MAX_HANDLE_BYTES // 256)


class ControlledClaims:
    """Cases of the kubelet suite. The pools of the devices are in no slice."""

    async def test_a_claim_that_a_controller_allocated_is_prepared(self, lab: Lab) -> None:
        async with lab.registered() as driver, _allocated(lab, "claim", [DRIVER]):
            await lab.pod("pod", "claim")
            await lab.phase("pod", "Running")
            assert driver.prepares == [["claim"]]
            await lab.delete_pod("pod")
            await lab.gone("pod")
            assert driver.unprepares == [["claim"]]

    async def test_each_plugin_of_a_controllers_claim_is_called(self, lab: Lab) -> None:
        async with (
            lab.registered() as driver,
            lab.registered(OTHER) as other,
            _allocated(lab, "claim", [DRIVER, OTHER]),
        ):
            await lab.pod("pod", "claim")
            await lab.phase("pod", "Running")
            assert driver.prepares == other.prepares == [["claim"]]
            await lab.delete_pod("pod")
            await lab.gone("pod")
            assert driver.unprepares == other.unprepares == [["claim"]]

    async def test_a_claim_that_is_allocated_without_devices_calls_no_driver(self, lab: Lab) -> None:
        async with lab.registered() as driver, _allocated(lab, "claim", []):
            await lab.pod("pod", "claim")
            await lab.phase("pod", "Running")
            await lab.delete_pod("pod")
            await lab.gone("pod")
            assert driver.prepares == driver.unprepares == []

    async def test_a_claim_without_devices_is_used_by_two_pods_and_after_a_restart(self, lab: Lab) -> None:
        async with _allocated(lab, "claim", []):
            for name in ("pod-1", "pod-2"):
                await lab.pod(name, "claim")
                await lab.phase(name, "Running")
            await lab.node.stop()
            await lab.node.start()
            for name in ("pod-1", "pod-2"):
                await lab.delete_pod(name)
                await lab.gone(name)

    async def test_a_claim_whose_deletion_the_controller_delays_is_unprepared(self, lab: Lab) -> None:
        async with lab.registered() as driver, _allocated(lab, "claim", [DRIVER]):
            await lab.pod("pod", "claim")
            await lab.phase("pod", "Running")
            await lab.client.delete(CLAIMS, "claim", lab.namespace)
            deleted = await lab.client.get(CLAIMS, "claim", lab.namespace, into=dict[str, Any])
            assert deleted["metadata"]["deletionTimestamp"]
            await lab.delete_pod("pod")
            await lab.gone("pod")
            assert driver.unprepares == [["claim"]]


@asynccontextmanager
async def _allocated(lab: Lab, name: str, drivers: Sequence[str]) -> AsyncIterator[None]:
    """Create a claim that a controller has allocated, and deallocate it at the end."""
    await _allocate(lab, name, drivers)
    try:
        yield
    finally:
        await _deallocate(lab, name)


async def _allocate(lab: Lab, name: str, drivers: Sequence[str]) -> None:
    """Create a claim, and write what a controller writes: the finalizer, then the allocation with handles."""
    spec = {"devices": {"requests": [{"name": "r0", "exactly": {"deviceClassName": "any"}}]}}
    metadata = {"name": name, "finalizers": [finalizer(CONTROLLER)]}
    made = await lab.client.create(
        CLAIMS, {"metadata": metadata, "spec": spec}, lab.namespace, into=dict[str, Any]
    )
    results = [
        {"request": "r0", "driver": each, "pool": f"{CONTROLLER}/rack-1", "device": "device-r0"}
        for each in drivers
    ]
    config = [
        builtins(part) for each in drivers for part in split_handle(each, made["metadata"]["uid"], HANDLE)
    ]
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [lab.node.name]}]}
    allocation = {
        "devices": {"results": results, "config": config},
        "nodeSelector": {"nodeSelectorTerms": [term]},
        "allocationTimestamp": rfc3339(datetime.now(UTC)),
    }
    body = {"status": {"allocation": allocation}}
    await lab.client.patch(CLAIMS, name, lab.namespace, body, PatchKind.MERGE, into=bytes, subresource="status")


async def _deallocate(lab: Lab, name: str) -> None:
    """Deallocate a claim and remove the finalizer, as a controller does."""
    body: dict[str, Any] = {"status": {"allocation": None, "reservedFor": None}}
    await lab.client.patch(CLAIMS, name, lab.namespace, body, PatchKind.MERGE, into=bytes, subresource="status")
    body = {"metadata": {"finalizers": None}}
    await lab.client.patch(CLAIMS, name, lab.namespace, body, PatchKind.MERGE, into=bytes)
