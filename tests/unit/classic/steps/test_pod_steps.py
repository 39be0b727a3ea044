"""The table of `pod_steps`: what the controller does next for a pod."""

from typing import Any

import pytest
from msgspec.structs import replace

from dradriver.classic.steps.pod_steps import (
    NegotiatedClaim,
    NegotiationStep,
    find_pending,
    is_negotiating,
    next_pod_step,
    nodes_to_check,
)
from dradriver.model.classic.controlled_claims import ControlledClaim
from dradriver.model.classic.names import MAX_NODES
from dradriver.model.classic.scheduling import (
    ClaimSchedulingStatus,
    PodSchedulingContext,
    SchedulingSpec,
    SchedulingStatus,
)
from dradriver.model.core.meta import ObjectMeta, OwnerReference
from dradriver.model.core.workload import Pod, PodClaim, PodClaimStatus, PodSpec, PodStatus
from dradriver.model.resource.claim import Allocation, ClaimStatus, ResourceClaim
from tests.unit.classic.shelf import CONTROLLER


def claim(name: str = "claim-1", owner: str = "", **meta: Any) -> ResourceClaim:
    owners = [OwnerReference(api_version="v1", kind="Pod", name="pod-1", uid=owner, controller=True)]
    return ResourceClaim(
        metadata=ObjectMeta(
            name=name, namespace="default", uid=f"uid-{name}", owner_references=owners if owner else [], **meta
        )
    )


def controlled(of: ResourceClaim, mode: Any = "WaitForFirstConsumer") -> ControlledClaim:
    return ControlledClaim(of, CONTROLLER, mode, ())


PENDING = [NegotiatedClaim(("slot",), controlled(claim()))]


def context(node: str = "", potential: list[str] | None = None, *unsuitable: str) -> PodSchedulingContext:
    entry = ClaimSchedulingStatus(name="slot", controller_name=CONTROLLER, unsuitable_nodes=list(unsuitable))
    owner = OwnerReference(api_version="v1", kind="Pod", name="pod-1", uid="pod-uid")
    return PodSchedulingContext(
        metadata=ObjectMeta(name="pod-1", namespace="default", owner_references=[owner]),
        spec=SchedulingSpec(selected_node=node, potential_nodes=potential or []),
        status=SchedulingStatus(resource_claims=[entry]),
    )


@pytest.mark.parametrize(
    ("of", "step"),
    [
        (context(), NegotiationStep.NONE),
        (context("", ["a"]), NegotiationStep.CHECK),
        (context("", [], "a"), NegotiationStep.CHECK),
        (context("a", ["a", "b"]), NegotiationStep.ALLOCATE),
        (context("a", ["a", "b"], "b"), NegotiationStep.ALLOCATE),
        (context("a", ["a", "b"], "a"), NegotiationStep.CHECK),
        (context("a", [], "a"), NegotiationStep.ALLOCATE),
        (context("a"), NegotiationStep.ALLOCATE),
    ],
)
def test_the_next_step_follows_from_the_context(of: PodSchedulingContext, step: NegotiationStep) -> None:
    assert next_pod_step(of, PENDING, CONTROLLER) is step
    assert next_pod_step(of, [], CONTROLLER) is NegotiationStep.NONE


def test_potential_nodes_and_prior_unsuitable_nodes_are_checked() -> None:
    assert nodes_to_check(context("a", ["b", "c"], "c", "d"), CONTROLLER) == ["a", "b", "c", "d"]


def test_a_check_has_no_more_nodes_than_an_answer() -> None:
    many = [f"node-{number}" for number in range(128)]
    others = [f"other-{number}" for number in range(200)]
    nodes = nodes_to_check(context("", many, *others), CONTROLLER)
    assert len(nodes) == MAX_NODES
    assert nodes[:128] == many


def pod(*names: str, template: bool = False, **status: Any) -> Pod:
    if template:
        claims = [PodClaim(name=name, resource_claim_template_name="template") for name in names]
        statuses = [
            PodClaimStatus(name=name, resource_claim_name=f"claim-{i}") for i, name in enumerate(names, 1)
        ]
        status["resource_claim_statuses"] = statuses
    else:
        claims = [PodClaim(name=f"slot-{i}", resource_claim_name=name) for i, name in enumerate(names)]
    return Pod(
        metadata=ObjectMeta(name="pod-1", namespace="default", uid="pod-uid"),
        spec=PodSpec(resource_claims=claims),
        status=PodStatus(**status),
    )


def pending(of: Pod, *claims: ResourceClaim, mode: str = "WaitForFirstConsumer") -> list[tuple[str, ...]]:
    found = find_pending(of, {each.ref: each for each in claims}, CONTROLLER, lambda c: controlled(c, mode))
    return [each.names for each in found]


def test_only_unallocated_delayed_claims_take_part() -> None:
    allocated = replace(claim("claim-2"), status=ClaimStatus(allocation=Allocation()))
    assert pending(pod("claim-1", "claim-2", "missing"), claim(), allocated) == [("slot-0",)]
    assert pending(pod("claim-1"), claim(), mode="Immediate") == []


def test_a_claim_that_the_pod_lists_twice_has_both_names() -> None:
    assert pending(pod("claim-1", "claim-1"), claim()) == [("slot-0", "slot-1")]


def test_a_terminating_or_foreign_claim_takes_no_part() -> None:
    from datetime import UTC, datetime

    deleted = claim(deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC))
    foreign = claim(finalizers=["other.example.com/deletion-protection"])
    assert pending(pod("claim-1"), deleted) == []
    assert pending(pod("claim-1"), foreign) == []


def test_a_claim_of_a_template_must_belong_to_the_pod() -> None:
    of = pod("slot", template=True)
    assert pending(of, claim(owner="pod-uid")) == [("slot",)]
    assert pending(of, claim(owner="uid-of-earlier-pod")) == []


def test_a_context_of_a_pod_that_ended_or_was_replaced_is_ignored() -> None:
    assert is_negotiating(context(), pod("claim-1"))
    assert not is_negotiating(context(), None)
    assert not is_negotiating(context(), pod("claim-1", phase="Failed"))
    earlier = replace(pod("claim-1"), metadata=ObjectMeta(name="pod-1", namespace="default", uid="new"))
    assert not is_negotiating(context(), earlier)
