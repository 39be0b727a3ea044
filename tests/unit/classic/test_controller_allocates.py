"""KEP-3063, resource allocation and usage flow: the part of the resource driver's controller."""

import asyncio
from collections.abc import Sequence

import pytest

from dradriver.driver import AllocationError, PendingClaim
from dradriver.kube import CLAIMS, PODS, object_tasks
from dradriver.model.classic.handles import JoinedHandle, join_handle
from dradriver.model.core.node_selector import NodeSelector
from tests.unit.classic.shelf import CONTROLLER, FINALIZER, PLUGIN, Shelf, ShelfDriver, ShelfLab


async def test_a_delayed_claim_is_allocated_and_reserved_for_the_selected_node(
    lab: ShelfLab, shelf: Shelf
) -> None:
    created = await lab.create_claim()
    pod = await lab.create_pod("claim-1")
    async with lab.driver(ShelfDriver(shelf)):
        await lab.negotiate(pod, "node-2")
        claim = await lab.allocated()
    allocation = claim.allocation
    assert allocation is not None
    assert [(r.request, r.driver, r.pool) for r in claim.results] == [("slot", PLUGIN, f"{CONTROLLER}/node-2")]
    assert allocation.node_selector == NodeSelector.for_node("node-2")
    assert allocation.allocation_timestamp is not None
    handle = join_handle(allocation.devices.config, PLUGIN, created.metadata.uid)
    assert handle == JoinedHandle(b"node-2")
    assert [(c.resource, c.name, c.uid) for c in claim.status.reserved_for] == [
        ("pods", "pod-1", pod.metadata.uid)
    ]
    assert claim.metadata.finalizers == [FINALIZER]
    record = lab.record(claim)
    assert record is not None
    assert (record.spec.controller_name, record.spec.node) == (CONTROLLER, "node-2")


async def test_a_delayed_claim_waits_for_a_selected_node(lab: ShelfLab, shelf: Shelf) -> None:
    shelf.free["node-1"] = 0
    await lab.create_claim()
    pod = await lab.create_pod("claim-1")
    async with lab.driver(ShelfDriver(shelf)):
        await lab.negotiate(pod)
        assert await lab.answer() == [["node-1"]]
        assert shelf.log == []


async def test_an_immediate_claim_is_allocated_as_soon_as_it_is_created(lab: ShelfLab, shelf: Shelf) -> None:
    async with lab.driver(ShelfDriver(shelf)):
        await lab.create_claim(immediate=True)
        claim = await lab.allocated()
    assert claim.status.reserved_for == []


async def test_a_failed_immediate_claim_is_retried_with_backoff(
    lab: ShelfLab, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_tasks, "RETRY_SECONDS", (3600.0, 3600.0))
    attempts: list[str] = []

    class Refusing(ShelfDriver):
        async def begin(self, claims: Sequence[PendingClaim]) -> None:
            attempts.extend(claim.name for claim in claims)
            if claims[0].name == "refused":
                raise AllocationError("the shelf is closed")

    async with lab.driver(Refusing(shelf)):
        await lab.create_claim("refused", immediate=True)
        assert "the shelf is closed" in await lab.event("AllocationFailed")
        for number in range(8):
            await lab.create_claim(f"claim-{number}", immediate=True)
            await lab.allocated(f"claim-{number}")
    # The controller's own finalizer and record are changes of the claim, so each may repeat the attempt.
    assert attempts.count("refused") <= 3


async def test_a_delayed_claim_is_deallocated_as_soon_as_no_pod_uses_it(lab: ShelfLab, shelf: Shelf) -> None:
    await lab.create_claim()
    pod = await lab.create_pod("claim-1")
    async with lab.driver(ShelfDriver(shelf)):
        await lab.negotiate(pod, "node-1")
        await lab.allocated()
        await lab.client.delete(PODS, "pod-1", "default", grace_seconds=0)
        await lab.release()
        await lab.idle()
    assert shelf.held == {}


async def test_an_immediate_claim_stays_allocated_until_it_is_deleted(lab: ShelfLab, shelf: Shelf) -> None:
    async with lab.driver(ShelfDriver(shelf)):
        await lab.create_claim(immediate=True)
        claim = await lab.allocated()
        assert shelf.held
        await lab.client.delete(CLAIMS, claim.metadata.name, "default")
        await lab.gone()
    assert shelf.held == {}


async def test_all_pending_claims_of_a_pod_are_allocated_together(lab: ShelfLab, shelf: Shelf) -> None:
    seen: list[int] = []

    class Counting(ShelfDriver):
        async def begin(self, claims: Sequence[PendingClaim]) -> None:
            seen.append(len(claims))

    for name in ("claim-1", "claim-2"):
        await lab.create_claim(name)
    pod = await lab.create_pod("claim-1", "claim-2")
    async with lab.driver(Counting(shelf)):
        await lab.negotiate(pod, "node-1")
        await asyncio.gather(lab.allocated("claim-1"), lab.allocated("claim-2"))
    assert seen == [2]


async def test_a_slow_claim_delays_no_other(lab: ShelfLab, shelf: Shelf) -> None:
    slow = await lab.create_claim("slow")
    opened = asyncio.Event()

    class Slow(ShelfDriver):
        async def begin(self, claims: Sequence[PendingClaim]) -> None:
            if claims[0].uid == slow.metadata.uid:
                await opened.wait()

    await lab.create_claim("fast")
    pods = [await lab.create_pod(name, name=f"pod-of-{name}") for name in ("slow", "fast")]
    async with lab.driver(Slow(shelf)):
        for pod in pods:
            await lab.negotiate(pod, "node-1")
        await lab.allocated("fast")
        assert "slow" not in [c.metadata.name for c in lab.claims.items.values() if c.allocation]
        opened.set()
        await lab.allocated("slow")
