"""PreBind, Bind and Unreserve, write by write."""

import pytest
from msgspec.structs import replace

from dradriver.control.conflicts.double_allocations import DoubleAllocation
from dradriver.control.runtime.actions import AddFinalizer, Allocate, Bind, Release, Reserve
from dradriver.control.scheduler.binding.plan_writes import PlanFailed, next_step, unreserve
from dradriver.control.scheduler.pipeline import schedule
from dradriver.control.scheduler.snapshot import Plan
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import CLAIM_FINALIZER, ConsumerReference
from dradriver.testing import builders
from tests.unit.control.world import NOW, World, cluster


def planned(*claims: str) -> tuple[World, Pod, Plan]:
    w = cluster(nodes=1, devices=4)
    w.add(*(builders.claim(name=name) for name in claims))
    pod = builders.pod(*claims)
    w.add(pod)
    plan = schedule(pod, w.snapshot())
    assert isinstance(plan, Plan)
    return w, pod, plan


def write_until(w: World, pod: Pod, plan: Plan, last: type) -> list[type]:
    """Carry the plan out up to the first write of this type; return the types of all writes."""
    done: list[type] = []
    while last not in done:
        action = next_step(plan, pod, w.claims).action
        assert action is not None
        w.apply(action)
        done.append(type(action))
    return done


def test_each_claim_gets_its_finalizer_and_allocation_and_the_pod_is_bound_last() -> None:
    w, pod, plan = planned("one", "two")
    assert write_until(w, pod, plan, Bind) == [AddFinalizer, Allocate, AddFinalizer, Allocate, Bind]
    for claim in w.claims.values():
        assert CLAIM_FINALIZER in claim.metadata.finalizers
        assert [consumer.uid for consumer in claim.status.reserved_for] == [pod.metadata.uid]


def test_an_allocated_claim_is_only_reserved() -> None:
    w = cluster(nodes=1)
    w.add(builders.allocated(builders.claim(), "device-0"), pod := builders.pod("claim-1"))
    plan = schedule(pod, w.snapshot())
    assert isinstance(plan, Plan)
    assert write_until(w, pod, plan, Bind) == [Reserve, Bind]


def test_a_write_whose_answer_was_lost_is_seen_in_the_claim() -> None:
    w, pod, plan = planned("one")
    write_until(w, pod, plan, Allocate)
    assert isinstance(next_step(plan, pod, w.claims).action, Bind)


def test_a_plan_fails_when_its_claim_was_allocated_elsewhere() -> None:
    w, pod, plan = planned("one")
    w.add(builders.allocated(w.claims["default/one"], "device-3"))
    with pytest.raises(PlanFailed, match="claim default/one got allocated elsewhere in the meantime"):
        next_step(plan, pod, w.claims)


def test_a_plan_fails_before_the_binding_when_another_claim_takes_precedence() -> None:
    w, pod, plan = planned("one")
    write_until(w, pod, plan, Allocate)
    conflict = DoubleAllocation("device d", "default/other")
    with pytest.raises(
        PlanFailed, match="claim default/one: device d is also allocated to claim default/other"
    ):
        next_step(plan, pod, w.claims, find_conflict=lambda _claim: conflict)
    release = unreserve(plan, pod, w.claims)
    assert isinstance(release, Release)
    assert release.deallocate


def test_a_plan_fails_when_its_claim_was_deallocated() -> None:
    w = cluster(nodes=1)
    claim = builders.claim()
    w.add(builders.allocated(claim, "device-0"), pod := builders.pod("claim-1"))
    plan = schedule(pod, w.snapshot())
    assert isinstance(plan, Plan)
    w.add(claim)
    with pytest.raises(PlanFailed, match="got deallocated elsewhere"):
        next_step(plan, pod, w.claims)


def test_a_plan_fails_when_its_claim_is_deleted_or_replaced() -> None:
    w, pod, plan = planned("one")
    claim = w.claims["default/one"]
    deleted = replace(claim, metadata=replace(claim.metadata, deletion_timestamp=NOW))
    for claims in ({}, {claim.ref: deleted}, {claim.ref: builders.claim(name="one")}):
        with pytest.raises(PlanFailed, match="got deleted in the meantime"):
            next_step(plan, pod, claims)


def test_unreserve_reverts_the_writes_of_the_plan() -> None:
    w, pod, plan = planned("one", "two")
    write_until(w, pod, plan, Allocate)
    del w.claims["default/two"]
    release = unreserve(plan, pod, w.claims)
    assert isinstance(release, Release)
    assert release.deallocate
    w.apply(release)
    assert w.claims["default/one"].allocation is None
    assert unreserve(plan, pod, w.claims) is None


def test_unreserve_keeps_an_allocation_that_the_plan_did_not_write() -> None:
    w = cluster(nodes=1)
    w.add(builders.allocated(builders.claim(), "device-0"), pod := builders.pod("claim-1"))
    plan = schedule(pod, w.snapshot())
    assert isinstance(plan, Plan)
    write_until(w, pod, plan, Reserve)
    assert unreserve(plan, pod, w.claims) is None


@pytest.mark.parametrize("allocated_by_another_plan", [False, True])
def test_unreserve_removes_the_reservation_of_a_claim_that_another_pod_uses(
    *, allocated_by_another_plan: bool
) -> None:
    w = cluster(nodes=1)
    claim = builders.claim()
    w.add(builders.allocated(claim, "device-0") if allocated_by_another_plan else claim)
    w.add(pod := builders.pod("claim-1"))
    plan = schedule(pod, w.snapshot())
    assert isinstance(plan, Plan)
    write_until(w, pod, plan, Reserve if allocated_by_another_plan else Allocate)
    other = ConsumerReference(resource="pods", name="other", uid="other")
    w.apply(Reserve(w.claims[claim.ref], other))
    release = unreserve(plan, pod, w.claims)
    assert release == Release(w.claims[claim.ref], (other,), deallocate=False)
    w.apply(release)
    assert w.claims[claim.ref].allocation is not None
    assert unreserve(plan, pod, w.claims) is None
