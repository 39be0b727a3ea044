"""A cluster in memory: it does what actions say at once, and can lose everything but its objects."""

import dataclasses
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from dradriver.allocator import InUse, Inventory
from dradriver.control.claims.ownership import Objects, claim_step, pod_step
from dradriver.control.extended import ClassesByResource, ScoringStrategy, amounts_of, is_special_for
from dradriver.control.pools.ready_pools import ReadyPools
from dradriver.control.runtime import actions
from dradriver.control.runtime.actions import Action, NextAction, ReportUnschedulable, Step
from dradriver.control.scheduler.assumed_allocations import with_assumed
from dradriver.control.scheduler.binding import PlanFailed, is_bound, next_step, settled, unreserve
from dradriver.control.scheduler.binding_conditions import BindingDeadline
from dradriver.control.scheduler.pipeline import schedule
from dradriver.control.scheduler.snapshot import Plan, Snapshot, Unschedulable
from dradriver.control.scheduler.unconfirmed_writes import UnconfirmedWrites
from dradriver.errors import DraError
from dradriver.kube import Unavailable
from dradriver.model.core.meta import Condition, ObjectMeta
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


def template(name: str = "template", made: ResourceClaim | None = None) -> ResourceClaimTemplate:
    """A template for claims like the given one."""
    spec = (made or builders.claim()).spec
    return ResourceClaimTemplate(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=ResourceClaimTemplateSpec(spec=spec, metadata=ObjectMeta(labels={"team": "red"})),
    )


class CrashError(Exception):
    """The controllers' process died."""


@dataclass
class World:
    """Objects, what was written to them, and the controllers' memory (`plans` to `gone`).

    Attributes:
        late: pods as the controllers still see them while the watch does not show them bound.
        watch_is_late: whether it takes a `catch_up` to see a pod bound.
        writes: every action that was carried out.
        crash_after: the number of writes after which the process dies once.
        now: the time.
    """

    pods: dict[str, Pod] = field(default_factory=dict)
    claims: dict[str, ResourceClaim] = field(default_factory=dict)
    templates: dict[str, ResourceClaimTemplate] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    slices: list[ResourceSlice] = field(default_factory=list)
    classes: dict[str, DeviceClass] = field(default_factory=dict)
    plans: dict[str, Plan] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    left: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    doubts: UnconfirmedWrites = field(default_factory=UnconfirmedWrites)
    gone: set[str] = field(default_factory=set)
    late: dict[str, Pod] = field(default_factory=dict)
    watch_is_late: bool = False
    writes: list[Action] = field(default_factory=list)
    crash_after: int | None = None
    now: datetime = NOW
    scoring: ScoringStrategy = field(default_factory=ScoringStrategy)
    _uids: Iterator[int] = field(default_factory=itertools.count)
    _inventory: Inventory | None = None

    def add(
        self, *objects: Pod | ResourceClaim | ResourceClaimTemplate | Node | ResourceSlice | DeviceClass
    ) -> None:
        """Puts objects in, as their users would."""
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
                case DeviceClass():
                    self.classes[each.metadata.name] = each

    def pod(self, name: str = "pod-1") -> Pod:
        return self.pods[f"default/{name}"]

    @property
    def patience(self) -> BindingDeadline:
        return BindingDeadline(self.now)

    def pass_time(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def set_condition(self, ref: str, kind: str, status: str = "True", device: str = "") -> None:
        """What the controller of a driver says of the devices of a claim, or of one of them."""
        claim = self.claims[ref]
        entries = {entry.id: entry for entry in claim.status.devices}
        for result in claim.results:
            if device in {"", result.device}:
                entry = entries.get(
                    result.id,
                    AllocatedDeviceStatus(driver=result.driver, pool=result.pool, device=result.device),
                )
                others = [each for each in entry.conditions if each.type != kind]
                said = [*others, Condition(type=kind, status=status, reason="Told", message="by a test")]
                entries[result.id] = replace(entry, conditions=said)
        self._status(ref, devices=list(entries.values()))

    def condition(self, name: str = "pod-1") -> PodCondition:
        """The PodScheduled condition."""
        return next(c for c in self.pod(name).status.conditions if c.type == "PodScheduled")

    def claims_of(self, name: str) -> list[ResourceClaim]:
        """The claims that were made for a pod."""
        owner = self.pod(name).metadata.uid
        return [c for c in self.claims.values() if c.metadata.controller and c.metadata.controller.uid == owner]

    @property
    def seen(self) -> dict[str, Pod]:
        """The pods as the controllers see them."""
        return self.pods | self.late

    def catch_up(self) -> None:
        """The watch shows all pods as they are."""
        self.late.clear()

    def change(self, name: str, **status: Any) -> None:
        """Changes the status of a pod, as its kubelet would; who writes or watches that sees it."""
        pod = self.pod(name)
        self.late.pop(pod.ref, None)
        self.pods[pod.ref] = replace(pod, status=replace(pod.status, **status))

    def delete_pod(self, name: str) -> None:
        """The pod is gone, the scheduler forgets it; the garbage collector takes what it owns."""
        pod = self.pods.pop(f"default/{name}")
        self.late.pop(pod.ref, None)
        self._forget(pod.ref)
        for claim in list(self.claims.values()):
            if claim.metadata.controller and claim.metadata.controller.uid == pod.metadata.uid:
                self.delete_claim(claim.ref)

    def delete_claim(self, ref: str) -> None:
        """Deletes a claim; with a finalizer it only gets a deletion timestamp."""
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
        return Objects(self.seen, self.claims, self.templates, lambda uid: owned.get(uid, ()), self.gone)

    def snapshot(self, **changes: Any) -> Snapshot:
        plans = list(self.plans.values())
        parts: dict[str, Any] = {
            "nodes": self.nodes,
            "claims": dict(self.claims),
            "classes": self.classes,
            "inventory": (inventory := self._pools()),
            "in_use": InUse.of(with_assumed(self.claims.values(), plans)),
            "in_flight": {uid for plan in plans for uid in plan.allocations},
            "now": self.now,
            "patience": self.patience,
            "ready": ReadyPools.of(inventory),
            "classes_by_resource": ClassesByResource.of(self.classes.values()),
            "taken": self.taken(),
            "scoring": self.scoring,
        }
        return Snapshot(**(parts | changes))

    def _pools(self) -> Inventory:
        """The pools; those whose slices are the same are kept from call to call, as the scheduler does it."""
        self._inventory = Inventory.of(self.slices, self._inventory)
        return self._inventory

    def taken(self) -> dict[str, Counter[str]]:
        """How much of each extended resource the pods on each node take, and those that plans bring there."""
        found: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for ref, pod in self.seen.items():
            node = pod.spec.node_name or (self.plans[ref].node if ref in self.plans else "")
            if node and not pod.finished:
                found[node].update(amounts_of(pod))
        return found

    def special_of(self, pod: Pod) -> list[ResourceClaim]:
        """The special claims that were made for a pod."""
        return [claim for claim in self.claims.values() if is_special_for(claim, pod)]

    def settle(self) -> None:
        """Runs the controllers until nothing is left to do; a crash is survived by starting them again."""
        while True:
            try:
                while self._round():
                    pass
            except CrashError:
                self.forget_everything()
                continue
            return

    def forget_everything(self) -> None:
        """The controllers' process died: only the objects are left."""
        self.plans.clear()
        self.failed.clear()
        self.left.clear()
        self.doubts = UnconfirmedWrites()
        self.gone.clear()
        self.late.clear()

    def _round(self) -> bool:
        """One write at most for each object; whether another round may do more.

        It may after a plan was given up too, without a write as that is: the pod is scheduled anew.
        """
        before, again = len(self.writes), False
        for ref in sorted(self.pods):
            if ref in self.pods:
                again |= self.take(pod_step(self.pods[ref], self.objects()))
        for ref in sorted(self.claims):
            if ref in self.claims:
                again |= self.take(claim_step(self.claims[ref], self.objects()))
        for ref in sorted(self.pods):
            if ref in self.pods:
                again |= self.take(self.scheduling_step(ref))
        return again or len(self.writes) > before

    def take(self, step: Step) -> bool:
        """Carries out the write of a step, if it has one; whether the next step is due at once."""
        if step.action is not None and not isinstance(step.action, actions.EmitEvent):
            self.apply(step.action)
        match step.action:
            case actions.Bind(pod):
                self.doubts.open(pod.ref)
            case actions.LookUpPlan(ref):
                self.late.pop(ref, None)
                self.doubts.settle(ref)
            case _:
                pass
        return step.then is NextAction.AGAIN

    def lose(self, ref: str, step: Step, *, stored: bool = True, error: DraError | None = None) -> None:
        """A step for a pod whose answer is lost, after it was carried out or before; or another error."""
        if step.action is None or isinstance(step.action, actions.EmitEvent):
            return
        if stored:
            self.apply(step.action)
        if ref in self.plans and not self.doubts.failed(ref, error or Unavailable("no answer")):
            if ref in self.failed and (claim := getattr(step.action, "claim", None)) is not None:
                self.left[ref].add(claim.ref)
            self.failed.add(ref)
            self.doubts.restart(ref)

    def scheduling_step(self, ref: str) -> Step:
        """What `control.scheduler` does, with this world's memory."""
        pod, plan = self.seen[ref], self.plans.get(ref)
        if plan is not None and ref in self.doubts and not is_bound(plan, pod):
            known = tuple(self.claims[claim] for claim, _ in plan.claims if claim in self.claims)
            return Step(NextAction.AGAIN, actions.LookUpPlan(ref, known, pod))
        if pod.spec.node_name or pod.finished or pod.metadata.deletion_timestamp:
            self._forget(ref)
            return Step(NextAction.DONE)
        if ref not in self.plans:
            verdict = schedule(pod, self.snapshot(special=self.special_of(pod)))
            if isinstance(verdict, Unschedulable):
                if verdict.releases:
                    return Step(NextAction.AGAIN, verdict.releases[0])
                told = any(c.message == verdict.message for c in pod.status.conditions)
                said = verdict.quiet or (told and not pod.status.nominated_node_name)
                return Step(
                    NextAction.WAIT, None if said else ReportUnschedulable(pod, verdict.reason, verdict.message)
                )
            self.plans[ref] = verdict
        self.plans[ref] = settled(self.plans[ref], pod, self.claims)
        if ref in self.failed:
            return self._take_back(ref)
        try:
            step = next_step(self.plans[ref], pod, self.claims, self.patience)
        except PlanFailed:
            self.failed.add(ref)
            self.doubts.restart(ref)
            return self._take_back(ref)
        if step.then is NextAction.WAIT:
            self.plans[ref] = dataclasses.replace(self.plans[ref], allocations={})
        return step

    def _take_back(self, ref: str) -> Step:
        left = self.left.get(ref, ())
        release = unreserve(self.plans[ref], self.seen[ref], self.claims, self.patience, left)
        if release is None:
            self._forget(ref)
        return Step(NextAction.AGAIN, release)

    def _forget(self, ref: str) -> None:
        self.plans.pop(ref, None)
        self.failed.discard(ref)
        self.left.pop(ref, None)
        self.doubts.forget(ref)

    def apply(self, action: Action) -> None:  # noqa: C901, PLR0912, PLR0915 - one case for each action
        """Carries out a write, as `control.executor` and the API server would."""
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
                pod_there = self.pods.get(f"{namespace}/{name}")
                if pod_there is None or pod_there.metadata.uid != uid:
                    self.gone.add(uid)
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
            case actions.Nominate(pod, node):
                self.change(pod.metadata.name, nominated_node_name=node)
            case actions.Bind(pod, node):
                assert not self.pods[pod.ref].spec.node_name, f"{pod.ref} is bound"
                self.pods[pod.ref] = replace(pod, spec=replace(pod.spec, node_name=node))
                self.change(pod.metadata.name, nominated_node_name="")
                if self.watch_is_late:
                    self.late[pod.ref] = pod
            case actions.ReportUnschedulable(pod, reason, message):
                condition = PodCondition(type="PodScheduled", status="False", reason=reason, message=message)
                self.change(pod.metadata.name, conditions=[condition], nominated_node_name="")
            case actions.LookUpPlan() | actions.EmitEvent() | actions.Evict() | actions.SetRuleCondition():
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
    """Nodes with devices, the class and the template `template` that asks for one of them."""
    world = World()
    make = slow_device if slow else builders.device
    for number in range(1, nodes + 1):
        name = f"node-{number}"
        world.add(builders.node(name))
        world.add(builders.slice_(*[make(f"device-{i}") for i in range(devices)], node_name=name))
    world.add(builders.device_class(), template())
    return world
