"""Contexts without a scheduler (KEP-3063, "Scheduled pods with unallocated or unreserved claims")."""

from msgspec.structs import replace

from dradriver.control.classic.contexts import context_step
from dradriver.control.classic.values import AwaitedClaim
from dradriver.control.runtime.actions import DeleteContext, LookUpPod, NextAction, WriteContext
from dradriver.model.classic.scheduling import PodSchedulingContext, SchedulingSpec
from dradriver.model.core.meta import ObjectMeta, OwnerReference
from dradriver.model.core.workload import Pod
from dradriver.testing import builders
from tests.unit.control.world import NOW

AWAITED = (AwaitedClaim("default/claim-1", "uid", "a.example.com", ("claim-0",)),)
POD = builders.pod("claim-1")
BOUND = replace(POD, spec=replace(POD.spec, node_name="node-1"))


def context_for(pod: Pod, **spec: object) -> PodSchedulingContext:
    meta = pod.metadata
    owner = OwnerReference(api_version="v1", kind="Pod", name=meta.name, uid=meta.uid)
    metadata = ObjectMeta(name=meta.name, namespace=meta.namespace, uid="context", owner_references=[owner])
    return PodSchedulingContext(metadata=metadata, spec=SchedulingSpec(**spec))  # type: ignore[arg-type]


def test_when_allocation_is_missing_a_context_is_created_with_only_the_selected_node() -> None:
    step = context_step(BOUND, None, AWAITED)
    assert step.action == WriteContext(BOUND, SchedulingSpec(selected_node="node-1"), None)


def test_the_potential_nodes_of_a_bound_pod_are_removed_because_the_choice_is_permanent() -> None:
    context = context_for(BOUND, selected_node="node-2", potential_nodes=["node-1", "node-2"])
    step = context_step(BOUND, context, AWAITED)
    assert step.action == WriteContext(BOUND, SchedulingSpec(selected_node="node-1"), context)
    assert context_step(BOUND, context_for(BOUND, selected_node="node-1"), AWAITED).action is None


def test_the_context_is_deleted_when_the_pod_is_bound_and_all_resources_are_allocated() -> None:
    context = context_for(BOUND, selected_node="node-1")
    assert context_step(BOUND, context, ()).action == DeleteContext(context)


def test_the_context_of_a_pod_without_a_node_belongs_to_the_scheduler() -> None:
    assert context_step(POD, context_for(POD), AWAITED).next is NextAction.DONE
    assert context_step(POD, context_for(POD), ()).next is NextAction.DONE
    assert context_step(POD, None, AWAITED).next is NextAction.DONE


def test_the_context_of_a_pod_that_has_ended_is_deleted() -> None:
    ended = replace(BOUND, status=replace(BOUND.status, phase="Succeeded"))
    context = context_for(ended)
    assert context_step(ended, context, AWAITED).action == DeleteContext(context)
    assert context_step(ended, None, AWAITED).action is None


def test_the_context_of_a_pod_that_is_deleted_before_it_ran_is_deleted() -> None:
    leaving = replace(POD, metadata=replace(POD.metadata, deletion_timestamp=NOW))
    context = context_for(leaving)
    assert context_step(leaving, context, AWAITED).action == DeleteContext(context)


def test_the_context_of_a_replaced_pod_of_the_same_name_is_deleted() -> None:
    context = context_for(builders.pod("claim-1"))
    assert context_step(POD, context, AWAITED).action == DeleteContext(context)


def test_the_context_of_a_pod_that_is_not_in_the_cache_is_deleted_after_the_pod_was_read() -> None:
    context = context_for(POD)
    uid = POD.metadata.uid
    assert context_step(None, context, ()).action == LookUpPod("default", "pod-1", uid)
    assert context_step(None, context, (), {uid}).action == DeleteContext(context)


def test_a_context_that_no_pod_owns_is_left_alone() -> None:
    orphan = PodSchedulingContext(metadata=ObjectMeta(name="pod-1", namespace="default"))
    assert context_step(None, orphan, ()).action is None
