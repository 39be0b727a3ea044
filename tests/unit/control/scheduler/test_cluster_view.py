"""The cluster's state follows the caches, and the plans in flight count as written."""

import itertools
from typing import Any, cast

from msgspec.structs import replace

from dradriver.control.conflicts.allocation_index import AllocationIndex
from dradriver.control.runtime.caches import Caches
from dradriver.control.scheduler.binding.binding_conditions import BindingDeadline
from dradriver.control.scheduler.cluster_state import ClusterState
from dradriver.control.scheduler.cluster_view import ClusterView
from dradriver.control.scheduler.pipeline import schedule
from dradriver.control.scheduler.snapshot import Plan, PlanFailed, Unschedulable
from dradriver.control.settings import SchedulerSettings
from dradriver.kube import Cache, Client
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import CLAIM_FINALIZER, ResourceClaim
from dradriver.testing import builders
from tests.unit.control.extended_pods import gpu_class
from tests.unit.control.extended_pods import pod as extended_pod

FIRST, SECOND = (builders.pod(name, name=f"pod-of-{name}") for name in ("one", "two"))
ONE, TWO = (builders.claim(name=name) for name in ("one", "two"))


class Cluster:
    """Caches without an API server, with a node with one device."""

    def __init__(self) -> None:
        self.caches = Caches(cast(Client, None))
        self.view = ClusterView(self.caches, SchedulerSettings(), AllocationIndex(self.caches))
        self._versions = itertools.count(1)
        self.put(self.caches.nodes, builders.node())
        self.put(self.caches.slices, builders.slice_(builders.device()))
        self.put(self.caches.classes, builders.device_class())
        for claim, pod in ((ONE, FIRST), (TWO, SECOND)):
            self.put(self.caches.claims, claim)
            self.put(self.caches.pods, pod)

    def put(self, cache: Cache[Any], item: Any) -> None:
        """Store an object, as a watch event does."""
        meta = replace(item.metadata, resource_version=str(next(self._versions)))
        cache.apply_written(replace(item, metadata=meta))

    def decide(self, pod: Pod) -> Plan | Unschedulable:
        return schedule(pod, self.view.take_snapshot(pod, BindingDeadline()))

    def schedule(self, pod: Pod) -> Plan | Unschedulable:
        """Schedule a pod, and keep its plan."""
        self.state()
        verdict = self.decide(pod)
        if isinstance(verdict, Plan):
            self.view.set_plan(pod.ref, verdict)
        return verdict

    def state(self) -> ClusterState:
        """Return the state, up to date."""
        for change in self.view.take_changes():
            change()
        return self.view.take_snapshot(FIRST, BindingDeadline()).cluster

    def allocated(self, plan: Plan) -> ResourceClaim:
        """Return the first claim as the plan will write it."""
        claim = self.caches.claims.items[ONE.ref]
        return replace(claim, status=replace(claim.status, allocation=plan.allocations[ONE.metadata.uid]))


def planned(cluster: Cluster) -> Plan:
    plan = cluster.schedule(FIRST)
    assert isinstance(plan, Plan)
    return plan


def test_the_devices_of_a_plan_are_in_use_until_the_plan_is_dropped() -> None:
    cluster = Cluster()
    planned(cluster)
    assert isinstance(cluster.schedule(SECOND), Unschedulable)
    cluster.view.drop_plan(FIRST.ref)
    assert isinstance(cluster.schedule(SECOND), Plan)


def test_an_earlier_write_of_the_plan_does_not_release_its_devices() -> None:
    cluster = Cluster()
    planned(cluster)
    claim = cluster.caches.claims.items[ONE.ref]
    cluster.put(
        cluster.caches.claims, replace(claim, metadata=replace(claim.metadata, finalizers=[CLAIM_FINALIZER]))
    )
    assert isinstance(cluster.schedule(SECOND), Unschedulable)


def test_a_written_allocation_stays_when_the_plan_is_dropped() -> None:
    cluster = Cluster()
    cluster.put(cluster.caches.claims, cluster.allocated(planned(cluster)))
    cluster.view.drop_plan(FIRST.ref)
    assert isinstance(cluster.schedule(SECOND), Unschedulable)
    cluster.caches.claims.apply_deleted(cluster.caches.claims.items[ONE.ref])
    assert isinstance(cluster.schedule(SECOND), Plan)


def test_another_claim_of_the_same_name_does_not_hold_the_devices_of_the_plan() -> None:
    cluster = Cluster()
    planned(cluster)
    cluster.put(cluster.caches.claims, replace(ONE, metadata=replace(ONE.metadata, uid="another")))
    assert isinstance(cluster.schedule(SECOND), Plan)


def test_two_plans_keep_their_devices_apart_if_a_claim_is_deleted_and_created_again() -> None:
    cluster = Cluster()
    planned(cluster)
    again = replace(ONE, metadata=replace(ONE.metadata, uid="again"))
    cluster.put(cluster.caches.claims, again)
    third = builders.pod("one", name="third")
    cluster.put(cluster.caches.pods, third)
    assert isinstance(cluster.schedule(third), Plan)
    cluster.view.drop_plan(FIRST.ref)
    assert isinstance(cluster.schedule(SECOND), Unschedulable)
    cluster.view.drop_plan(third.ref)
    assert isinstance(cluster.schedule(SECOND), Plan)


def test_a_plan_for_a_deleted_claim_never_replaces_the_plan_for_the_present_claim() -> None:
    cluster = Cluster()
    old = planned(cluster)
    cluster.view.drop_plan(FIRST.ref)
    cluster.put(cluster.caches.claims, replace(ONE, metadata=replace(ONE.metadata, uid="again")))
    third = builders.pod("one", name="third")
    cluster.put(cluster.caches.pods, third)
    assert isinstance(cluster.schedule(third), Plan)
    cluster.view.set_plan(FIRST.ref, old)
    assert isinstance(cluster.schedule(SECOND), Unschedulable)


def test_a_planned_special_claim_holds_its_devices_before_it_exists() -> None:
    cluster = Cluster()
    cluster.put(cluster.caches.classes, gpu_class())
    pod = extended_pod(gpu=1)
    cluster.put(cluster.caches.pods, pod)
    assert isinstance(cluster.schedule(pod), Plan)
    assert isinstance(cluster.schedule(SECOND), Unschedulable)


def test_a_failure_ends_with_its_plan() -> None:
    cluster = Cluster()
    plan = planned(cluster)
    cluster.view.fail_plan(FIRST.ref, PlanFailed("preempted"))
    cluster.view.update_plan(FIRST.ref, replace_allocations(plan))
    assert FIRST.ref in cluster.view.failures, "the rest of the plan must still be reverted"
    cluster.view.set_plan(FIRST.ref, plan)
    assert FIRST.ref not in cluster.view.failures
    cluster.view.fail_plan(FIRST.ref, PlanFailed("preempted"))
    cluster.view.drop_plan(FIRST.ref)
    assert FIRST.ref not in cluster.view.failures


def test_a_claim_of_a_plan_is_in_flight_until_the_plan_waits() -> None:
    cluster = Cluster()
    plan = planned(cluster)
    assert isinstance(verdict := cluster.schedule(FIRST), Unschedulable)
    assert "is in the process of being allocated" in verdict.message
    cluster.put(cluster.caches.claims, cluster.allocated(plan))
    cluster.view.update_plan(FIRST.ref, replace_allocations(plan))
    assert isinstance(cluster.schedule(FIRST), Plan)


def replace_allocations(plan: Plan) -> Plan:
    return Plan(plan.pod_uid, plan.node, plan.claims)


def test_pods_and_pods_of_plans_count_for_the_order_of_nodes() -> None:
    cluster = Cluster()
    cluster.put(cluster.caches.nodes, builders.node("node-2"))
    assert list(cluster.state().ordered_nodes) == ["node-1", "node-2"]
    planned(cluster)
    assert list(cluster.state().ordered_nodes) == ["node-2", "node-1"]
    for name in ("x", "y"):
        pod = builders.pod(name=name)
        cluster.put(cluster.caches.pods, replace(pod, spec=replace(pod.spec, node_name="node-2")))
    assert list(cluster.state().ordered_nodes) == ["node-1", "node-2"]
    cluster.view.drop_plan(FIRST.ref)
    finished = cluster.caches.pods.items["default/x"]
    cluster.put(cluster.caches.pods, replace(finished, status=replace(finished.status, phase="Succeeded")))
    assert [cluster.state().ordered_nodes.rank(f"node-{n}")[0] for n in (1, 2)] == [0, 1]


def low(pod: Pod) -> Pod:
    return replace(pod, spec=replace(pod.spec, priority=-1))


def test_a_nomination_counts_before_it_is_written_and_after_it_was_cleared() -> None:
    cluster = Cluster()
    cluster.state()
    assert isinstance(cluster.decide(low(SECOND)), Plan)
    cluster.view.nominate(FIRST, "node-1")
    cluster.state()
    assert isinstance(cluster.decide(low(SECOND)), Unschedulable)
    written = replace(FIRST, status=replace(FIRST.status, nominated_node_name="node-1"))
    for pod in (written, FIRST):
        cluster.put(cluster.caches.pods, pod)
        cluster.state()
        assert isinstance(cluster.decide(low(SECOND)), Unschedulable)
    cluster.view.nominate(FIRST, "")
    cluster.state()
    assert isinstance(cluster.decide(low(SECOND)), Plan)


def test_a_nomination_ends_with_its_pod() -> None:
    cluster = Cluster()
    cluster.view.nominate(FIRST, "node-1")
    cluster.put(cluster.caches.pods, replace(FIRST, metadata=replace(FIRST.metadata, uid="another")))
    cluster.state()
    assert isinstance(cluster.decide(low(SECOND)), Plan)
    cluster.view.nominate(FIRST, "node-1")
    cluster.caches.pods.apply_deleted(cluster.caches.pods.items[FIRST.ref])
    assert not cluster.state().nominated
