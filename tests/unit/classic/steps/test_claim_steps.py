"""The table of `claim_steps`: what the controller does next for a claim."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from dradriver.classic.steps.claim_steps import ClaimStep, ClaimView, must_deallocate, next_claim_step
from dradriver.model.classic.allocation_records import (
    AllocationRequest,
    ControllerAllocation,
    RecordedAllocation,
)
from dradriver.model.classic.controlled_claims import ControlledClaim
from dradriver.model.classic.names import DEALLOCATION_REQUESTED, LEASE_ANNOTATION, WITHDRAWAL_ANNOTATION
from dradriver.model.core.meta import Condition, ObjectMeta
from dradriver.model.encoding.codec import from_builtins
from dradriver.model.resource.claim import (
    AllocatedDeviceStatus,
    Allocation,
    ClaimStatus,
    ConsumerReference,
    ResourceClaim,
)
from tests.unit.classic.shelf import CONTROLLER, FINALIZER, claim_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OTHER = "other.example.com/deletion-protection"
POD = ConsumerReference(resource="pods", name="pod-1", uid="pod-uid")
RECORD = ControllerAllocation(
    spec=RecordedAllocation(claim_name="claim-1", claim_uid="uid-1", controller_name=CONTROLLER)
)
WITHDRAWN = msgspec.structs.replace(RECORD, metadata=ObjectMeta(annotations={WITHDRAWAL_ANNOTATION: "true"}))
RIVAL = msgspec.structs.replace(RECORD, metadata=ObjectMeta(annotations={LEASE_ANNOTATION: "other/lease"}))


def claim(
    *finalizers: str, allocated: bool = False, deleted: bool = False, reserved: bool = False, **more: Any
) -> ResourceClaim:
    made = from_builtins(ResourceClaim, claim_of(**more), "claim")
    meta = ObjectMeta(
        name="claim-1", uid="uid-1", finalizers=list(finalizers), deletion_timestamp=NOW if deleted else None
    )
    status = ClaimStatus(
        allocation=Allocation(allocation_timestamp=NOW) if allocated else None,
        reserved_for=[POD] if reserved else [],
    )
    return msgspec.structs.replace(made, metadata=meta, status=status)


def view(
    of: ResourceClaim | None,
    record: ControllerAllocation | None = None,
    attempt: str | None = None,
    wanted: str = "",
    problem: str = "",
    *,
    ours: bool = True,
) -> ClaimView:
    controlled = None
    if of is not None and ours:
        is_immediate = b"Immediate" in msgspec.json.encode(of)
        controlled = ControlledClaim(
            of, CONTROLLER, "Immediate" if is_immediate else "WaitForFirstConsumer", ()
        )
    nodes = frozenset({wanted} if wanted else ())
    return ClaimView(CONTROLLER, "own/lease", "uid-1", of, record, controlled, problem, attempt, nodes)


@pytest.mark.parametrize(
    ("case", "step"),
    [
        (view(None), ClaimStep.NONE),
        (view(None, RECORD), ClaimStep.RELEASE),
        (view(None, RIVAL), ClaimStep.RIVAL),
        (view(claim(immediate=True), RIVAL), ClaimStep.RIVAL),
        # allocated
        (view(claim(allocated=True)), ClaimStep.NONE),
        (view(claim(FINALIZER, allocated=True, reserved=True), RECORD), ClaimStep.NONE),
        (view(claim(FINALIZER, allocated=True, reserved=True)), ClaimStep.RECORD),
        (view(claim(allocated=True, reserved=True), RECORD), ClaimStep.PROTECT),
        (view(claim(allocated=True), RECORD), ClaimStep.PROTECT),
        (view(claim(allocated=True, reserved=True, deleted=True), RECORD), ClaimStep.NONE),
        (view(claim(allocated=True, deleted=True), RECORD), ClaimStep.NONE),
        (view(claim(FINALIZER, allocated=True), RECORD), ClaimStep.CLEAR),
        (view(claim(FINALIZER, allocated=True)), ClaimStep.CLEAR),
        (view(claim(FINALIZER, allocated=True, immediate=True), RECORD), ClaimStep.NONE),
        (view(claim(FINALIZER, allocated=True, immediate=True, deleted=True), RECORD), ClaimStep.CLEAR),
        (view(claim(FINALIZER, allocated=True, reserved=True), RECORD, ours=False), ClaimStep.NONE),
        (view(claim(FINALIZER, allocated=True), RECORD, ours=False), ClaimStep.CLEAR),
        # allocated by others
        (view(claim(FINALIZER, allocated=True, reserved=True), WITHDRAWN), ClaimStep.WITHDRAW),
        (view(claim(allocated=True), WITHDRAWN), ClaimStep.WITHDRAW),
        (replace(view(claim(FINALIZER, allocated=True)), is_seen_withdrawn=True), ClaimStep.WITHDRAW),
        (view(claim(FINALIZER), WITHDRAWN), ClaimStep.RELEASE),
        (view(None, WITHDRAWN), ClaimStep.RELEASE),
        # unallocated, begun
        (view(claim(FINALIZER)), ClaimStep.RELEASE),
        (view(claim(FINALIZER), RECORD), ClaimStep.RELEASE),
        (view(claim(), RECORD), ClaimStep.RELEASE),
        (view(claim(FINALIZER), RECORD, attempt="node-1", wanted="node-1"), ClaimStep.NONE),
        (view(claim(FINALIZER), RECORD, attempt="node-1", wanted="node-2"), ClaimStep.RELEASE),
        (view(claim(FINALIZER), RECORD, attempt="node-1"), ClaimStep.RELEASE),
        (view(claim(FINALIZER, deleted=True), RECORD, attempt="node-1", wanted="node-1"), ClaimStep.RELEASE),
        (view(claim(FINALIZER), RECORD, attempt="node-1", wanted="node-1", ours=False), ClaimStep.RELEASE),
        (view(claim(FINALIZER, immediate=True), RECORD, attempt=""), ClaimStep.ALLOCATE),
        (view(claim(FINALIZER, immediate=True), RECORD), ClaimStep.RELEASE),
        # unallocated, not begun
        (view(claim()), ClaimStep.NONE),
        (view(claim(immediate=True)), ClaimStep.ALLOCATE),
        (view(claim(immediate=True), ours=False), ClaimStep.NONE),
        (view(claim("example.com/hold", immediate=True, deleted=True)), ClaimStep.NONE),
        (view(claim(OTHER, immediate=True)), ClaimStep.FOREIGN),
        (view(claim(OTHER)), ClaimStep.FOREIGN),
        (view(claim(OTHER), ours=False), ClaimStep.NONE),
        (view(claim(), problem="wrong", ours=False), ClaimStep.INVALID),
    ],
)
def test_the_next_step_follows_from_claim_record_and_attempt(case: ClaimView, step: ClaimStep) -> None:
    assert next_claim_step(case) is step


def test_a_requested_deallocation_waits_for_the_last_pod() -> None:
    asked = AllocatedDeviceStatus(
        driver="d", pool="p", device="x", conditions=[Condition(type=DEALLOCATION_REQUESTED, status="True")]
    )
    unused = claim(FINALIZER, allocated=True, immediate=True)
    requested = msgspec.structs.replace(unused, status=msgspec.structs.replace(unused.status, devices=[asked]))
    reserved = msgspec.structs.replace(
        requested, status=msgspec.structs.replace(requested.status, reserved_for=[POD])
    )
    record = msgspec.structs.replace(RECORD, status=AllocationRequest(deallocation_requested=True))
    assert not must_deallocate(unused, RECORD)
    assert must_deallocate(requested, RECORD)
    assert must_deallocate(unused, record)
    assert not must_deallocate(reserved, record)
