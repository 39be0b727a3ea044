"""No allocation leaks: claims that change, vanish or are cleared by others."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

import dradriver as dra
from dradriver.cluster.apiserver import Fault
from dradriver.kube import (
    CLAIMS,
    CLASSES,
    CONTROLLER_ALLOCATIONS,
    PODS,
    Client,
    PatchKind,
    Resource,
    Unavailable,
    object_tasks,
)
from dradriver.model.classic.names import DEALLOCATION_REQUESTED
from tests.unit.classic.shelf import CLASS, FINALIZER, PLUGIN, Shelf, ShelfDriver, ShelfLab, class_of


class Slow(ShelfDriver):
    """Reports when `allocate` has begun."""

    def __init__(self, shelf: Shelf) -> None:
        super().__init__(shelf)
        self.begun = asyncio.Event()
        shelf.open.clear()

    async def begin(self, claims: Sequence[dra.PendingClaim]) -> None:
        self.begun.set()


async def test_a_claim_that_is_deleted_while_the_driver_allocates_is_released(
    lab: ShelfLab, shelf: Shelf
) -> None:
    async with lab.driver(driver := Slow(shelf)):
        await lab.create_claim(immediate=True)
        await driver.begun.wait()
        await lab.client.delete(CLAIMS, "claim-1", "default")
        shelf.open.set()
        await lab.gone()
    assert shelf.held == {}
    assert shelf.calls("allocate") == shelf.calls("deallocate")


async def test_a_terminating_claim_is_never_allocated(lab: ShelfLab, shelf: Shelf) -> None:
    """The API server accepts an allocation on a terminating claim, and refuses new finalizers."""
    claim = await lab.create_claim()
    body = {"metadata": {"finalizers": ["example.com/hold"]}}
    await lab.client.patch(CLAIMS, "claim-1", "default", body, PatchKind.MERGE, into=dict)
    await lab.client.delete(CLAIMS, "claim-1", "default")
    pod = await lab.create_pod("claim-1")
    await lab.negotiate(pod, "node-1")
    await lab.create_claim("later", immediate=True)
    async with lab.driver(ShelfDriver(shelf)):
        await lab.allocated("later")
    assert claim.metadata.uid not in shelf.calls("allocate")


async def test_an_allocation_that_others_clear_is_deallocated_and_made_again(
    lab: ShelfLab, shelf: Shelf
) -> None:
    """kube-scheduler's PostFilter clears an immediate claim that no pod uses."""
    async with lab.driver(ShelfDriver(shelf)):
        await lab.create_claim(immediate=True)
        claim = await lab.allocated()
        uid = claim.metadata.uid
        await lab.clear()
        await lab.until(lambda: shelf.log[-1] == ("allocate", uid) and len(shelf.log) == 3)
        await lab.allocated()
    assert shelf.log == [("allocate", uid), ("deallocate", uid), ("allocate", uid)]


async def test_an_allocation_that_others_clear_while_another_claim_of_the_pod_is_written_is_made_again(
    lab: ShelfLab, shelf: Shelf
) -> None:
    """Both claims have one attempt, so the first one is released only after the write of the second one."""

    class HeldSecond(Client):
        writes = 0
        is_held, may_go_on = asyncio.Event(), asyncio.Event()

        async def patch(self, resource: Resource, *args: Any, **kwargs: Any) -> Any:
            if resource is CLAIMS and kwargs.get("subresource") == "status":
                HeldSecond.writes += 1
                if HeldSecond.writes == 2:
                    self.is_held.set()
                    await self.may_go_on.wait()
            return await super().patch(resource, *args, **kwargs)

    claims = [await lab.create_claim(name) for name in ("claim-1", "claim-2")]
    pod = await lab.create_pod("claim-1", "claim-2")
    async with lab.driver(ShelfDriver(shelf), client=HeldSecond):
        await lab.negotiate(pod, "node-1")
        await HeldSecond.is_held.wait()
        first, second = sorted(claims, key=lambda claim: lab.claims.items[claim.ref].allocation is None)
        await lab.clear(first.metadata.name)
        await lab.until(lambda: lab.claims.items[first.ref].allocation is None)
        assert shelf.calls("deallocate") == []
        HeldSecond.may_go_on.set()
        await lab.until(lambda: shelf.calls("allocate").count(first.metadata.uid) == 2)
        await lab.allocated("claim-1")
        await lab.allocated("claim-2")
    assert shelf.calls("deallocate") == [first.metadata.uid]
    assert shelf.held == {each.metadata.uid: ("node-1", 1) for each in (first, second)}


async def allocate_elsewhere(lab: ShelfLab, *, reserved: bool = True) -> None:
    """Allocate the claim, as an administrator or another allocator does."""
    result = {"request": "slot", "driver": "other.example.com", "pool": "other", "device": "other-0"}
    consumers = [{"resource": "pods", "name": "other", "uid": "other"}] if reserved else []
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": consumers}
    await lab.client.patch(
        *(CLAIMS, "claim-1", "default", {"status": status}, PatchKind.MERGE), into=dict, subresource="status"
    )


async def left_alone(lab: ShelfLab) -> None:
    """Wait until the claim has only what others have written."""
    claim = await lab.until(lambda: c if (c := lab.claim()) and lab.is_clean(c) else None)
    assert [each.device for each in claim.results] == ["other-0"]
    assert claim.metadata.annotations == {}


WITHDRAWAL_FAULTS = {
    "none": None,
    "the record is not marked": Fault("patch", "controllerallocations", code=503),
    "the finalizer stays": Fault("patch", "resourceclaims", code=503),
    "the answer about the finalizer is lost": Fault("patch", "resourceclaims", drop=True, applied=True),
    "the record stays": Fault("delete", "controllerallocations", code=503),
}


@pytest.mark.parametrize("fault", WITHDRAWAL_FAULTS.values(), ids=WITHDRAWAL_FAULTS.keys())
@pytest.mark.parametrize("reserved", [True, False], ids=["reserved", "unreserved"])
async def test_a_claim_that_others_allocate_is_withdrawn_also_after_an_error(
    lab: ShelfLab, shelf: Shelf, fault: Fault | None, reserved: bool
) -> None:
    await lab.create_claim()
    pod = await lab.create_pod("claim-1")
    async with lab.driver(driver := Slow(shelf)):
        await lab.negotiate(pod, "node-1")
        await driver.begun.wait()
        await allocate_elsewhere(lab, reserved=reserved)
        if fault is not None:
            lab.server.faults.add(fault)
        shelf.open.set()
        await left_alone(lab)
    assert shelf.held == {}


async def test_a_claim_that_others_allocate_between_two_attempts_is_withdrawn(
    lab: ShelfLab, shelf: Shelf
) -> None:
    shelf.broken["allocate"] = dra.AllocationError("later")
    await lab.create_claim()
    pod = await lab.create_pod("claim-1")
    async with lab.driver(ShelfDriver(shelf)):
        await lab.negotiate(pod, "node-1")
        await lab.event("AllocationFailed")
        await allocate_elsewhere(lab)
        await left_alone(lab)
    assert shelf.calls("deallocate")


async def test_a_claim_that_others_allocate_just_before_the_second_attempt_reads_it_is_withdrawn(
    lab: ShelfLab, shelf: Shelf
) -> None:
    """The second attempt is the first to see their allocation, before the watch delivers it."""

    class Overtaken(Client):
        is_overtaken = False

        async def get(self, resource: Resource, *args: Any, **kwargs: Any) -> Any:
            if resource is CLAIMS and not Overtaken.is_overtaken:
                Overtaken.is_overtaken = True
                await allocate_elsewhere(lab)
            return await super().get(resource, *args, **kwargs)

    shelf.broken["allocate"] = dra.AllocationError("later")
    await lab.create_claim()
    pod = await lab.create_pod("claim-1")
    async with lab.driver(ShelfDriver(shelf), client=Overtaken):
        await lab.negotiate(pod, "node-1")
        await lab.until(lambda: (c := lab.claim()) and c.allocation)
        await left_alone(lab)
    assert shelf.calls("deallocate")


@pytest.mark.parametrize("restarted", [False, True], ids=["retried", "restarted"])
async def test_a_claim_that_others_allocate_is_withdrawn_when_the_driver_can_deallocate_again(
    lab: ShelfLab, shelf: Shelf, restarted: bool
) -> None:
    claim = await lab.create_claim()
    pod = await lab.create_pod("claim-1")
    shelf.broken["deallocate"] = OSError("the port is down")
    async with lab.driver(driver := Slow(shelf)):
        await lab.negotiate(pod, "node-1")
        await driver.begun.wait()
        await allocate_elsewhere(lab)
        shelf.open.set()
        await lab.event("DeallocationFailed")
        assert list(shelf.held) == [claim.metadata.uid]
        if not restarted:
            shelf.broken.clear()
            await left_alone(lab)
    if restarted:
        shelf.broken.clear()
        async with lab.driver(ShelfDriver(shelf)):
            await left_alone(lab)
    assert shelf.held == {}


async def test_a_claim_that_others_allocate_while_the_driver_deallocates_is_withdrawn(
    lab: ShelfLab, shelf: Shelf
) -> None:
    class Overtaken(ShelfDriver):
        async def deallocate(self, claim: dra.RecordedClaim) -> None:
            await super().deallocate(claim)
            if shelf.calls("deallocate") == [claim.uid]:
                await allocate_elsewhere(lab)

    shelf.broken["allocate"] = dra.AllocationError("later")
    await lab.create_claim()
    pod = await lab.create_pod("claim-1")
    async with lab.driver(Overtaken(shelf)):
        await lab.negotiate(pod, "node-1")
        await lab.event("AllocationFailed")
        await lab.client.delete(PODS, "pod-1", "default", grace_seconds=0)
        await lab.until(lambda: (c := lab.claim()) and c.allocation)
        await left_alone(lab)


async def test_a_withdrawn_claim_that_others_clear_can_be_allocated_again(lab: ShelfLab, shelf: Shelf) -> None:
    await lab.create_claim()
    pod = await lab.create_pod("claim-1")
    shelf.broken["deallocate"] = OSError("the port is down")
    async with lab.driver(driver := Slow(shelf)):
        await lab.negotiate(pod, "node-1")
        await driver.begun.wait()
        await allocate_elsewhere(lab)
        shelf.open.set()
        await lab.event("DeallocationFailed")
        await lab.clear()
        shelf.broken.clear()
        claim = await lab.allocated()
        await lab.until(lambda: (c := lab.claim()) and c.results and c.results[0].driver == PLUGIN)
    assert shelf.held == {claim.metadata.uid: ("node-1", 1)}


@pytest.mark.parametrize("immediate", [False, True], ids=["delayed", "immediate"])
async def test_an_allocation_whose_answer_was_lost_and_that_others_clear_is_made_again(
    lab: ShelfLab, shelf: Shelf, immediate: bool
) -> None:
    """It is cleared before the controller reads the claim, so it finds no sign of its write."""

    class Clearing(Client):
        is_lost = False

        async def patch(self, resource: Resource, *args: Any, **kwargs: Any) -> Any:
            stored = await super().patch(resource, *args, **kwargs)
            if resource is CLAIMS and kwargs.get("subresource") == "status" and not Clearing.is_lost:
                Clearing.is_lost = True
                await lab.clear()
                raise Unavailable("the answer is lost")
            return stored

    await lab.create_claim(immediate=immediate)
    pod = await lab.create_pod("claim-1")
    async with lab.driver(ShelfDriver(shelf), client=Clearing):
        if not immediate:
            await lab.negotiate(pod, "node-1")
        await lab.until(lambda: Clearing.is_lost and len(shelf.calls("allocate")) > 1)
        claim = await lab.allocated()
        assert shelf.held == {claim.metadata.uid: ("node-1", 1)}
        await lab.release()
        await lab.client.delete(CLAIMS, "claim-1", "default")
        await lab.gone()
    assert shelf.held == {}


async def test_a_requested_deallocation_waits_until_no_pod_has_reserved_the_claim(
    lab: ShelfLab, shelf: Shelf
) -> None:
    await lab.create_claim()
    pod = await lab.create_pod("claim-1")
    async with lab.driver(ShelfDriver(shelf)):
        await lab.negotiate(pod, "node-1")
        await lab.allocated()
        await request_deallocation(lab)
        await lab.until(lambda: lab.claims.items["default/claim-1"].status.devices)
        assert shelf.calls("deallocate") == []
        await lab.negotiate(pod, potential=["node-1", "node-2"])
        await lab.release()
        claim = await lab.idle()
    assert claim.status.devices == []
    assert shelf.held == {}


async def test_a_requested_deallocation_of_an_immediate_claim_moves_it(lab: ShelfLab, shelf: Shelf) -> None:
    async with lab.driver(ShelfDriver(shelf)):
        await lab.create_claim(immediate=True)
        await lab.allocated()
        await request_deallocation(lab)
        await lab.until(lambda: len(shelf.log) == 3 and (c := lab.claim()) and not c.status.devices)
        claim = await lab.allocated()
        assert claim.status.devices == []
    assert [method for method, _ in shelf.log] == ["allocate", "deallocate", "allocate"]


async def test_an_allocation_without_devices_is_deallocated_by_its_record(lab: ShelfLab, shelf: Shelf) -> None:
    class Optional(ShelfDriver):
        def result(self, claim: dra.PendingClaim, node: str) -> dra.ControllerAllocationResult:
            return dra.ControllerAllocationResult(on_any_node=True)

    async with lab.driver(Optional(shelf)):
        await lab.create_claim(immediate=True)
        claim = await lab.allocated()
        assert claim.allocation is not None
        assert (claim.results, claim.allocation.node_selector) == ([], None)
        body = {"status": {"deallocationRequested": True}}
        await lab.client.patch(
            *(CONTROLLER_ALLOCATIONS, claim.metadata.uid, "default", body, PatchKind.MERGE),
            into=dict,
            subresource="status",
        )
        await lab.until(lambda: shelf.calls("deallocate"))


@pytest.mark.parametrize("change", ["deleted", "changed"])
async def test_a_claim_whose_class_is_gone_or_changed_is_deallocated_all_the_same(
    lab: ShelfLab, shelf: Shelf, change: str
) -> None:
    await lab.create_claim()
    pod = await lab.create_pod("claim-1")
    async with lab.driver(ShelfDriver(shelf)):
        await lab.negotiate(pod, "node-1")
        await lab.allocated()
        if change == "deleted":
            await lab.client.delete(CLASSES, CLASS)
        else:
            body = class_of(controller="other.example.com")
            await lab.client.patch(CLASSES, CLASS, "", body, PatchKind.MERGE, into=dict)
        await lab.client.delete(PODS, "pod-1", "default", grace_seconds=0)
        await lab.release()
        await lab.idle()
    assert shelf.held == {}


async def test_an_attempt_that_nobody_waits_for_any_more_is_released(lab: ShelfLab, shelf: Shelf) -> None:
    shelf.broken["allocate"] = dra.AllocationError("later")
    await lab.create_claim()
    pod = await lab.create_pod("claim-1")
    async with lab.driver(ShelfDriver(shelf)):
        await lab.negotiate(pod, "node-1")
        await lab.event("AllocationFailed")
        assert lab.records.items
        await lab.client.delete(PODS, "pod-1", "default", grace_seconds=0)
        await lab.idle()
    assert shelf.calls("deallocate")


async def test_a_claim_without_the_finalizer_is_released_by_its_record(lab: ShelfLab, shelf: Shelf) -> None:
    """A user removes the finalizer of a claim that is being deleted."""
    await lab.create_claim(immediate=True)
    async with lab.driver(ShelfDriver(shelf)):
        claim = await lab.allocated()
    body = {"metadata": {"finalizers": None}}
    await lab.client.patch(CLAIMS, "claim-1", "default", body, PatchKind.MERGE, into=dict)
    await lab.client.delete(CLAIMS, "claim-1", "default")
    async with lab.driver(ShelfDriver(shelf)):
        await lab.gone()
    assert shelf.calls("deallocate") == [claim.metadata.uid]


async def test_a_claim_that_was_replaced_by_one_of_its_name_is_released(lab: ShelfLab, shelf: Shelf) -> None:
    await lab.create_claim(immediate=True)
    async with lab.driver(ShelfDriver(shelf)):
        first = await lab.allocated()
    body = {"metadata": {"finalizers": None}}
    await lab.client.patch(CLAIMS, "claim-1", "default", body, PatchKind.MERGE, into=dict)
    await lab.client.delete(CLAIMS, "claim-1", "default")
    second = await lab.create_claim(immediate=True)
    async with lab.driver(ShelfDriver(shelf)):
        await lab.until(lambda: lab.record(first) is None)
        await lab.allocated()
        await lab.until(lambda: lab.record(second))
    assert list(shelf.held) == [second.metadata.uid]
    assert shelf.calls("deallocate") == [first.metadata.uid]


async def test_an_allocated_claim_gets_its_finalizer_and_record_back(lab: ShelfLab, shelf: Shelf) -> None:
    """The definitions were removed and installed again, and somebody has edited the claim."""
    await lab.create_claim(immediate=True)
    async with lab.driver(ShelfDriver(shelf)):
        claim = await lab.allocated()
        record = await lab.until(lambda: lab.record(claim))
        body = {"metadata": {"finalizers": None}}
        await lab.client.patch(CLAIMS, "claim-1", "default", body, PatchKind.MERGE, into=dict)
        await lab.until(lambda: (c := lab.claim()) and c.metadata.finalizers == [FINALIZER])
        await lab.client.delete(CONTROLLER_ALLOCATIONS, claim.metadata.uid, "default")
        again = await lab.until(
            lambda: r if (r := lab.record(claim)) and r.metadata.uid != record.metadata.uid else None
        )
    assert again.spec == record.spec.__class__(
        claim_name="claim-1",
        claim_uid=claim.metadata.uid,
        controller_name=record.spec.controller_name,
        node=next(iter(shelf.held.values()))[0],
    )
    assert shelf.calls("deallocate") == []


async def test_what_the_hardware_holds_for_no_claim_is_released_at_start(lab: ShelfLab, shelf: Shelf) -> None:
    unallocated = await lab.create_claim()
    shelf.held |= {"gone": ("node-1", 1), unallocated.metadata.uid: ("node-1", 1)}
    async with lab.driver(ShelfDriver(shelf)):
        while shelf.held:
            await asyncio.sleep(0.01)
    assert set(shelf.calls("deallocate")) == {"gone", unallocated.metadata.uid}


async def test_an_orphan_that_cannot_be_released_delays_no_other(lab: ShelfLab, shelf: Shelf) -> None:
    class Stuck(ShelfDriver):
        async def deallocate(self, claim: dra.RecordedClaim) -> None:
            if claim.uid == "a-stuck-one":
                raise OSError("the port is down")
            await super().deallocate(claim)

    shelf.held |= {"a-stuck-one": ("node-1", 1), "gone": ("node-1", 1)}
    async with lab.driver(Stuck(shelf)):
        while "gone" in shelf.held:
            await asyncio.sleep(0.01)
    assert set(shelf.held) == {"a-stuck-one"}


async def test_a_failed_deallocation_is_an_event_and_is_repeated(lab: ShelfLab, shelf: Shelf) -> None:
    async with lab.driver(ShelfDriver(shelf)):
        await lab.create_claim(immediate=True)
        await lab.allocated()
        shelf.broken["deallocate"] = OSError("the port is down")
        await lab.client.delete(CLAIMS, "claim-1", "default")
        message = await lab.event("DeallocationFailed")
        assert "OSError: the port is down" in message
        claim = lab.claim()
        assert claim is not None
        assert claim.metadata.finalizers == [FINALIZER]
        shelf.broken.clear()
        await lab.gone()


async def test_a_wrong_result_is_released(lab: ShelfLab, shelf: Shelf) -> None:
    class Wrong(ShelfDriver):
        def result(self, claim: dra.PendingClaim, node: str) -> dra.ControllerAllocationResult:
            device = dra.ControllerDevice("other", "slot.example.com", "pool", "slot-0")
            return dra.ControllerAllocationResult([device])

    async with lab.driver(Wrong(shelf)):
        await lab.create_claim(immediate=True)
        message = await lab.event("AllocationFailed")
        while not shelf.calls("deallocate"):
            await asyncio.sleep(0.01)
    assert "devices[0].request: 'other' must be a request of the claim: slot" in message


async def request_deallocation(lab: ShelfLab) -> None:
    """Set the condition on the first device, as the scheduler does."""
    claim = await lab.allocated()
    result = claim.results[0]
    condition = {
        "type": DEALLOCATION_REQUESTED,
        "status": "True",
        "reason": "Test",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    entry = {"driver": result.driver, "pool": result.pool, "device": result.device, "conditions": [condition]}
    body = {"status": {"devices": [entry]}}
    await lab.client.patch(
        *(CLAIMS, claim.metadata.name, "default", body, PatchKind.MERGE), into=dict, subresource="status"
    )


async def test_an_attempt_ends_when_the_last_of_two_pods_wants_another_node(
    lab: ShelfLab, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pod that began the attempt may have given up before."""
    monkeypatch.setattr(object_tasks, "RETRY_SECONDS", (3600.0, 3600.0))
    shelf.broken["allocate"] = dra.AllocationError("the manager does not answer")
    tried = 0

    class Failing(ShelfDriver):
        async def begin(self, claims: Sequence[dra.PendingClaim]) -> None:
            nonlocal tried
            tried += 1

    await lab.create_claim()
    first, second = await lab.create_pod("claim-1"), await lab.create_pod("claim-1", name="pod-2")
    async with lab.driver(Failing(shelf)):
        for number, pod in enumerate((second, first), 1):
            await lab.negotiate(pod, "node-1")
            while tried < 2 * number:  # the second time after the answer
                await asyncio.sleep(0.01)
        claim = lab.claim()
        assert claim is not None
        await lab.negotiate(first, "", potential=["node-2"])
        await lab.negotiate(second, "", potential=["node-2"])
        await lab.idle()
    assert shelf.calls("deallocate") == [claim.metadata.uid]
