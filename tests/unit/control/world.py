"""A cluster in memory that carries out actions at once. A crash loses everything but the objects."""

import dataclasses
import itertools
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from dradriver.allocator import Refusal
from dradriver.allocator.placement import NoNodeFits, Placement, RefusedNodes
from dradriver.control.claims.ownership import Objects, claim_step, pod_step
from dradriver.control.claims.pod_claims import is_done
from dradriver.control.classic import ClassicObjects
from dradriver.control.classic.allocation_wait import find_unallocated
from dradriver.control.extended import ScoringStrategy, is_special_for
from dradriver.control.preemption.controller import preemption_step
from dradriver.control.preemption.victims import Preemption
from dradriver.control.runtime import actions
from dradriver.control.runtime.actions import Action, NextAction, ReportUnschedulable, Step
from dradriver.control.scheduler.binding.binding_conditions import BindingDeadline
from dradriver.control.scheduler.binding.plan_writes import (
    PlanFailed,
    is_bound,
    merge_special_claim,
    next_step,
    unreserve,
)
from dradriver.control.scheduler.binding.unconfirmed_writes import UnconfirmedWrites
from dradriver.control.scheduler.cluster_state import ClusterState
from dradriver.control.scheduler.pipeline import schedule
from dradriver.control.scheduler.snapshot import (
    Plan,
    Snapshot,
    Unschedulable,
    assume_allocation,
    assumed_allocations,
)
from dradriver.errors import DraError
from dradriver.kube import Unavailable
from dradriver.model.classic.allocation_records import ControllerAllocation
from dradriver.model.classic.names import DEALLOCATION_REQUESTED
from dradriver.model.classic.scheduling import PodSchedulingContext
from dradriver.model.core.disruption_budget import PodDisruptionBudget
from dradriver.model.core.meta import Condition, ObjectMeta, OwnerReference
from dradriver.model.core.workload import Node, Pod, PodClaimStatus, PodCondition
from dradriver.model.resource.claim import (
    CLAIM_FINALIZER,
    AllocatedDeviceStatus,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceClaimTemplateSpec,
)
from dradriver.model.resource.device import Device
from dradriver.model.resource.deviceclass import DeviceClass
from dradriver.model.resource.slices import ResourceSlice
from dradriver.testing import builders

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ATTACHED = "attached"
FAILED = "attach-failed"


def slow_device(name: str = "device-0", *conditions: str, binds: bool = True) -> Device:
    """A device that has to be attached before a pod is bound."""
    return Device(
        name,
        binds_to_node=binds or None,
        binding_conditions=list(conditions or (ATTACHED,)),
        binding_failure_conditions=[FAILED],
    )


def template(name: str = "template", claim: ResourceClaim | None = None) -> ResourceClaimTemplate:
    """A template for claims like the given one."""
    spec = (claim or builders.claim()).spec
    return ResourceClaimTemplate(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=ResourceClaimTemplateSpec(spec=spec, metadata=ObjectMeta(labels={"team": "red"})),
    )


UNDECIDED_TEXT = "the search gave up"


def give_up(*_: Any, **__: Any) -> Placement:
    """Raise the refusal of a search that gave up on the only node; a replacement of `Placer.place`."""
    refusal = Refusal("undecided", UNDECIDED_TEXT)
    raise NoNodeFits("undecided", 1, lambda: [RefusedNodes(refusal, ("node-1",))])


class CrashError(Exception):
    """The controllers' process died."""


@dataclass
class World:
    """The objects, the writes, and the controllers' memory (`plans` to `deleted_pods`).

    Attributes:
        stale: pods as the controllers see them while the watch does not show them bound.
        watch_is_late: whether the watch shows a bound pod only after `catch_up`.
        writes: every action that was carried out.
        crash_after: the number of writes after which the process dies once.
        now: the time.
        contexts: the PodSchedulingContexts by `namespace/name`.
        records: the ControllerAllocations by the UID of their claim.
        serves_contexts: whether the API server serves PodSchedulingContexts.
    """

    pods: dict[str, Pod] = field(default_factory=dict)
    claims: dict[str, ResourceClaim] = field(default_factory=dict)
    templates: dict[str, ResourceClaimTemplate] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    slices: list[ResourceSlice] = field(default_factory=list)
    budgets: list[PodDisruptionBudget] = field(default_factory=list)
    classes: dict[str, DeviceClass] = field(default_factory=dict)
    plans: dict[str, Plan] = field(default_factory=dict)
    preemptions: dict[str, Preemption] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    unreleased: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    unconfirmed: UnconfirmedWrites = field(default_factory=UnconfirmedWrites)
    deleted_pods: set[str] = field(default_factory=set)
    stale: dict[str, Pod] = field(default_factory=dict)
    watch_is_late: bool = False
    writes: list[Action] = field(default_factory=list)
    crash_after: int | None = None
    now: datetime = NOW
    scoring: ScoringStrategy = field(default_factory=ScoringStrategy)
    contexts: dict[str, PodSchedulingContext] = field(default_factory=dict)
    records: dict[str, ControllerAllocation] = field(default_factory=dict)
    serves_contexts: bool = True
    selected: dict[str, datetime] = field(default_factory=dict)
    _uids: Iterator[int] = field(default_factory=itertools.count)
    _state: ClusterState = field(default_factory=ClusterState)
    _known: dict[tuple[str, str], Any] = field(default_factory=dict)

    def add(
        self,
        *objects: Pod
        | ResourceClaim
        | ResourceClaimTemplate
        | Node
        | ResourceSlice
        | DeviceClass
        | PodDisruptionBudget,
    ) -> None:
        """Add objects, as users do."""
        for each in objects:
            match each:
                case Pod():
                    self.pods[each.ref] = each
                case ResourceClaim():
                    self.claims[each.ref] = each
                case ResourceClaimTemplate():
                    self.templates[f"{each.metadata.namespace}/{each.metadata.name}"] = each
                case Node():
                    self.nodes.append(each)
                case ResourceSlice():
                    self.slices.append(each)
                case PodDisruptionBudget():
                    self.budgets.append(each)
                case DeviceClass():
                    self.classes[each.metadata.name] = each

    def pod(self, name: str = "pod-1") -> Pod:
        return self.pods[f"default/{name}"]

    @property
    def deadline(self) -> BindingDeadline:
        return BindingDeadline(self.now)

    def pass_time(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def set_condition(self, ref: str, kind: str, status: str = "True", device: str = "") -> None:
        """Set a condition of all devices of a claim, or of one, as a driver's controller does."""
        claim = self.claims[ref]
        entries = {entry.id: entry for entry in claim.status.devices}
        for result in claim.results:
            if device in {"", result.device}:
                entry = entries.get(
                    result.id,
                    AllocatedDeviceStatus(driver=result.driver, pool=result.pool, device=result.device),
                )
                others = [each for each in entry.conditions if each.type != kind]
                added = Condition(type=kind, status=status, reason="Test", message="set by a test")
                entries[result.id] = replace(entry, conditions=[*others, added])
        self._status(ref, devices=list(entries.values()))

    def condition(self, name: str = "pod-1") -> PodCondition:
        """Return the PodScheduled condition."""
        return next(c for c in self.pod(name).status.conditions if c.type == "PodScheduled")

    def claims_of(self, name: str) -> list[ResourceClaim]:
        """Return the claims that were created for a pod."""
        owner = self.pod(name).metadata.uid
        return [c for c in self.claims.values() if c.metadata.controller and c.metadata.controller.uid == owner]

    @property
    def seen(self) -> dict[str, Pod]:
        """The pods as the controllers see them."""
        return self.pods | self.stale

    def catch_up(self) -> None:
        """Show all pods to the controllers as they are."""
        self.stale.clear()

    def change(self, name: str, **status: Any) -> None:
        """Change the status of a pod, as its kubelet does; the controllers see the change."""
        pod = self.pod(name)
        self.stale.pop(pod.ref, None)
        self.pods[pod.ref] = replace(pod, status=replace(pod.status, **status))

    def delete_pod(self, name: str) -> None:
        """Delete a pod and the claims that it owns, as the garbage collector does."""
        pod = self.pods.pop(f"default/{name}")
        self.stale.pop(pod.ref, None)
        self._forget(pod.ref)
        for claim in list(self.claims.values()):
            if claim.metadata.controller and claim.metadata.controller.uid == pod.metadata.uid:
                self.delete_claim(claim.ref)

    def delete_claim(self, ref: str) -> None:
        """Delete a claim; a claim with a finalizer only gets a deletion timestamp."""
        claim = self.claims[ref]
        if claim.metadata.finalizers:
            self.claims[ref] = replace(claim, metadata=replace(claim.metadata, deletion_timestamp=NOW))
        else:
            del self.claims[ref]

    def objects(self) -> Objects:
        owned = defaultdict(list)
        for claim in self.claims.values():
            if claim.metadata.controller:
                owned[claim.metadata.controller.uid].append(claim)
        return Objects(
            self.seen,
            self.claims,
            self.templates,
            lambda uid: owned.get(uid, ()),
            self.deleted_pods,
            lambda claim: self.records.get(claim.metadata.uid),
        )

    def classic_objects(self, pod: Pod) -> ClassicObjects:
        """Return the objects of classic DRA that a decision about a pod reads."""
        nodes = {node.metadata.name: node for node in self.nodes}
        return ClassicObjects(self.contexts.get(pod.ref), self.serves_contexts, self.records, nodes)

    def snapshot(self, **changes: Any) -> Snapshot:
        self._update_state()
        fields: dict[str, Any] = {
            "cluster": self._state,
            "claims": dict(self.claims),
            "claim_names": set(self.claims),
            "in_flight": {uid for plan in self.plans.values() for uid in plan.in_flight},
            "has_anti_affinity": any(pod.required_anti_affinity for pod in self.seen.values()),
            "now": self.now,
            "deadline": self.deadline,
            "scoring": self.scoring,
        }
        return Snapshot(**(fields | changes))

    def _update_state(self) -> None:
        """Pass on the objects that changed since the last snapshot, as the scheduler does."""
        objects = dict(self._objects_of_state())
        for kind, name in self._known.keys() - objects.keys():
            getattr(self._state, f"remove_{kind}")(name)
        for (kind, name), arguments in objects.items():
            known = self._known.get((kind, name), ())
            if [*map(id, known)] != [*map(id, arguments)]:
                getattr(self._state, f"put_{kind}")(*arguments)
        self._known = objects

    def _objects_of_state(self) -> Iterator[tuple[tuple[str, str], Sequence[Any]]]:
        yield from ((("node", node.metadata.name), (node,)) for node in self.nodes)
        yield from ((("slice", each.metadata.name), (each,)) for each in self.slices)
        yield from ((("class", name), (each,)) for name, each in self.classes.items())
        for ref, pod in self.seen.items():
            node = pod.spec.node_name or (self.plans[ref].node if ref in self.plans else "")
            if not is_done(pod):
                yield ("pod", ref), (pod, sys.intern(node))
        yield from ((("budget", each.ref), (each,)) for each in self.budgets)
        assumed = dict(each for plan in self.plans.values() for each in assumed_allocations(plan))
        for ref in [*self.claims, *assumed]:
            if (claim := assume_allocation(self.claims.get(ref), assumed.get(ref))) is not None:
                yield ("claim", ref), (claim,)

    def special_of(self, pod: Pod) -> list[ResourceClaim]:
        """Return the special claims that were created for a pod."""
        return [claim for claim in self.claims.values() if is_special_for(claim, pod)]

    def settle(self) -> None:
        """Run the controllers until nothing is left to do; start them again after a crash."""
        while True:
            try:
                while self._round():
                    pass
            except CrashError:
                self.crash()
                continue
            return

    def crash(self) -> None:
        """Lose the controllers' memory, as if their process died."""
        self.plans.clear()
        self.preemptions.clear()
        self.failed.clear()
        self.unreleased.clear()
        self.unconfirmed = UnconfirmedWrites()
        self.deleted_pods.clear()
        self.stale.clear()
        self.selected.clear()

    def _round(self) -> bool:
        """Carry out at most one write for each object, and return whether another round can do more.

        It can also after a plan was given up without a write, because the pod is scheduled again.
        """
        before, is_due = len(self.writes), False
        for ref in sorted(self.pods):
            if ref in self.pods:
                is_due |= self.carry_out(pod_step(self.pods[ref], self.objects()))
        for ref in sorted(self.claims):
            if ref in self.claims:
                is_due |= self.carry_out(claim_step(self.claims[ref], self.objects()))
        for ref in sorted(self.pods):
            if ref in self.pods:
                is_due |= self.carry_out(self.scheduling_step(ref))
        for ref, preemption in list(self.preemptions.items()):
            step = preemption_step(self.pods[ref], preemption, self.pods.get, lambda *_: True)
            if step.next is NextAction.DONE:
                del self.preemptions[ref]
            is_due |= self.carry_out(step)
        return is_due or len(self.writes) > before

    def carry_out(self, step: Step) -> bool:
        """Carry out the write of a step, if it has one. Return whether the next step is due at once."""
        if step.action is not None and not isinstance(step.action, actions.EmitEvent):
            self.apply(step.action)
        match step.action:
            case actions.Bind(pod):
                self.unconfirmed.add(pod.ref)
            case actions.LookUpPlan(ref):
                self.stale.pop(ref, None)
                self.unconfirmed.confirm(ref)
            case _:
                pass
        return step.next is NextAction.CONTINUE

    def lose(self, ref: str, step: Step, *, stored: bool = True, error: DraError | None = None) -> None:
        """Let a write fail with a lost answer, after it was stored or before, or with another error."""
        if step.action is None or isinstance(step.action, actions.EmitEvent):
            return
        if stored:
            self.apply(step.action)
        if ref in self.plans and not self.unconfirmed.record_failure(ref, error or Unavailable("no answer")):
            if ref in self.failed and (claim := getattr(step.action, "claim", None)) is not None:
                self.unreleased[ref].add(claim.ref)
            self.failed.add(ref)
            self.unconfirmed.reset_failures(ref)

    def scheduling_step(self, ref: str) -> Step:
        """Return the next step of a pod, as `control.scheduler` does."""
        pod, plan = self.seen[ref], self.plans.get(ref)
        if plan is not None and ref in self.unconfirmed and not is_bound(plan, pod):
            known = tuple(self.claims[claim] for claim, _ in plan.claims if claim in self.claims)
            return Step(NextAction.CONTINUE, actions.LookUpPlan(ref, known, pod))
        if pod.spec.node_name or pod.finished or pod.metadata.deletion_timestamp:
            self._forget(ref)
            return Step(NextAction.DONE)
        if ref not in self.plans:
            snapshot = self.snapshot(leftovers=self.special_of(pod), classic=self.classic_objects(pod))
            verdict = schedule(pod, snapshot, preempts=True)
            if isinstance(verdict, Unschedulable):
                return self._refuse(pod, verdict)
            self.plans[ref] = verdict
        self.plans[ref] = merge_special_claim(self.plans[ref], pod, self.claims)
        if ref in self.failed:
            return self._unreserve(ref)
        try:
            deadline = dataclasses.replace(self.deadline, selected_at=self.selected.get(ref))
            objects = self.classic_objects(pod)
            step = next_step(self.plans[ref], pod, self.claims, deadline, classic=objects)
        except PlanFailed:
            self.failed.add(ref)
            self.unconfirmed.reset_failures(ref)
            return self._unreserve(ref)
        if find_unallocated(self.plans[ref], self.claims):
            if step.next is NextAction.WAIT:
                self.selected.setdefault(ref, self.now)
            return step
        if step.next is NextAction.WAIT:
            self.plans[ref] = dataclasses.replace(self.plans[ref], allocations={})
        return step

    def _refuse(self, pod: Pod, verdict: Unschedulable) -> Step:
        if verdict.releases:
            return Step(NextAction.CONTINUE, verdict.releases[0])
        if verdict.preemption is not None and verdict.preemption.victims:
            self.preemptions[pod.ref] = verdict.preemption
        node = verdict.nominated_node
        is_reported = any(c.message == verdict.message for c in pod.status.conditions)
        if verdict.quiet or (is_reported and pod.status.nominated_node_name == node):
            return Step(NextAction.WAIT)
        return Step(NextAction.WAIT, ReportUnschedulable(pod, verdict.reason, verdict.message, node))

    def _unreserve(self, ref: str) -> Step:
        skip = self.unreleased.get(ref, ())
        release = unreserve(self.plans[ref], self.seen[ref], self.claims, self.deadline, skip)
        if release is None:
            self._forget(ref)
        return Step(NextAction.CONTINUE, release)

    def _forget(self, ref: str) -> None:
        self.plans.pop(ref, None)
        self.selected.pop(ref, None)
        self.failed.discard(ref)
        self.unreleased.pop(ref, None)
        self.unconfirmed.forget(ref)

    def apply(self, action: Action) -> None:  # noqa: C901, PLR0912, PLR0915 - one case for each action
        """Carry out a write, as `control.runtime.executor` and the API server do."""
        self.writes.append(action)
        match action:
            case actions.CreateClaim(claim):
                assert claim.ref not in self.claims, f"{claim.ref} exists"
                meta = replace(claim.metadata, uid=f"uid-{next(self._uids)}")
                self.claims[claim.ref] = replace(claim, metadata=meta)
            case actions.RecordClaims(pod, names):
                statuses = {s.name: s.resource_claim_name for s in pod.status.resource_claim_statuses} | dict(
                    names
                )
                listed = [PodClaimStatus(name=k, resource_claim_name=v) for k, v in statuses.items()]
                self.change(pod.metadata.name, resource_claim_statuses=listed)
            case actions.RecordSpecialClaim(pod, status):
                self.change(pod.metadata.name, extended_resource_claim_status=status)
            case actions.DeleteClaim(claim):
                self.delete_claim(claim.ref)
            case actions.LookUpPod(namespace, name, uid):
                current = self.pods.get(f"{namespace}/{name}")
                if current is None or current.metadata.uid != uid:
                    self.deleted_pods.add(uid)
            case actions.AddFinalizer(claim):
                self._finalizers(claim.ref, [*claim.metadata.finalizers, CLAIM_FINALIZER])
            case actions.RemoveFinalizer(claim):
                self._finalizers(claim.ref, [])
            case actions.Allocate(claim, allocation, consumer):
                assert CLAIM_FINALIZER in claim.metadata.finalizers
                self._status(
                    claim.ref, allocation=allocation, reserved_for=[*claim.status.reserved_for, consumer]
                )
            case actions.Reserve(claim, consumer):
                self._status(claim.ref, reserved_for=[*claim.status.reserved_for, consumer])
            case actions.Release(claim, remaining, deallocate):
                self._status(claim.ref, reserved_for=list(remaining))
                if deallocate:
                    self._status(claim.ref, allocation=None, devices=[])
                    self._maybe_crash()
                    self._finalizers(claim.ref, [])
            case actions.WriteContext(pod, spec, context):
                meta = ObjectMeta(
                    name=pod.metadata.name,
                    namespace=pod.metadata.namespace,
                    uid=f"uid-{next(self._uids)}",
                    owner_references=[
                        OwnerReference(
                            api_version="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid
                        )
                    ],
                )
                found = self.contexts.get(pod.ref)
                if context is None or not context.is_for(pod.metadata.uid):
                    assert found is context, f"{pod.ref} has a context"
                    found = PodSchedulingContext(metadata=meta)
                assert found is not None, f"{pod.ref} has no context"
                meta = replace(found.metadata, generation=found.metadata.generation + 1)
                self.contexts[pod.ref] = replace(found, metadata=meta, spec=spec)
            case actions.DeleteContext(context):
                del self.contexts[context.ref]
            case actions.RequestDeallocation(claim, record, remaining):
                if claim.results:
                    self.set_condition(claim.ref, DEALLOCATION_REQUESTED, device=claim.results[0].device)
                else:
                    assert record is not None, f"{claim.ref} has no record"
                    asked = replace(record.status, deallocation_requested=True)
                    self.records[claim.metadata.uid] = replace(record, status=asked)
                    self._maybe_crash()
                self._status(claim.ref, reserved_for=list(remaining))
            case actions.Nominate(pod, node):
                self.change(pod.metadata.name, nominated_node_name=node)
            case actions.Bind(pod, node):
                assert not self.pods[pod.ref].spec.node_name, f"{pod.ref} is bound"
                self.pods[pod.ref] = replace(pod, spec=replace(pod.spec, node_name=node))
                self.change(pod.metadata.name, nominated_node_name="")
                if self.watch_is_late:
                    self.stale[pod.ref] = pod
            case actions.ReportUnschedulable(pod, reason, message, node):
                condition = PodCondition(type="PodScheduled", status="False", reason=reason, message=message)
                self.change(pod.metadata.name, conditions=[condition], nominated_node_name=node)
            case actions.Evict(pod, reason, message):
                condition = PodCondition(type="DisruptionTarget", status="True", reason=reason, message=message)
                self.change(pod.metadata.name, conditions=[condition])
                self._maybe_crash()
                pod = self.pods[pod.ref]
                self.pods[pod.ref] = replace(pod, metadata=replace(pod.metadata, deletion_timestamp=self.now))
            case actions.LookUpPlan() | actions.EmitEvent() | actions.Nudge() | actions.SetRuleCondition():
                pass
        self._maybe_crash()

    def _maybe_crash(self) -> None:
        if self.crash_after is not None:
            self.crash_after -= 1
            if self.crash_after == 0:
                raise CrashError

    def _status(self, ref: str, **status: Any) -> None:
        claim = self.claims[ref]
        self.claims[ref] = replace(claim, status=replace(claim.status, **status))

    def _finalizers(self, ref: str, finalizers: list[str]) -> None:
        claim = self.claims[ref]
        if not finalizers and claim.metadata.deletion_timestamp:
            del self.claims[ref]
        else:
            self.claims[ref] = replace(claim, metadata=replace(claim.metadata, finalizers=finalizers))


def cluster(nodes: int = 2, devices: int = 2, *, slow: bool = False) -> World:
    """Return nodes with devices, their class, and the template `template` with a request for one device."""
    world = World()
    make = slow_device if slow else builders.device
    for number in range(1, nodes + 1):
        name = f"node-{number}"
        world.add(builders.node(name))
        world.add(builders.slice_(*[make(f"device-{i}") for i in range(devices)], node_name=name))
    world.add(builders.device_class(), template())
    return world
