"""The cluster as decisions read it: the placer with all devices, and the nodes with their pods.

A state is updated by events, and each decision reads it in place, because a copy of a large cluster would be
most of the work of a decision. The events and the decisions must come one after the other.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from dradriver.allocator import AllocationNode
from dradriver.allocator.placement import Placer
from dradriver.allocator.supply.devices_in_use import PoolKey
from dradriver.control.claims.pod_claims import used_names
from dradriver.control.classic import ClassicClasses
from dradriver.control.extended import ClassesByResource, requested_amounts
from dradriver.control.extended.node_usage import NodeUsage
from dradriver.control.scheduler.node_choice.node_filters import select_node_fields
from dradriver.control.scheduler.node_choice.refusals import KnownRefusals
from dradriver.control.settings import SchedulerSettings
from dradriver.control.taints.tainted_slices import TaintedSlices
from dradriver.model.core.disruption_budget import PodDisruptionBudget
from dradriver.model.core.workload import Node, Pod
from dradriver.model.resource.claim import ConsumerReference, DeviceAllocation, ResourceClaim
from dradriver.model.resource.deviceclass import DeviceClass
from dradriver.model.resource.slices import ResourceSlice
from dradriver.model.resource.taint_rule import DeviceTaintRule

__all__ = ["ClusterState", "NodesByPods"]

_NO_PRIORITY: Final = 2**31
"""More than any priority."""


class NodesByPods:
    """The names of nodes by number of pods (fewest first), then by name. Iterate over it for the names."""

    def __init__(self) -> None:
        self._names: dict[int, list[str]] = {}
        self._pods: dict[str, int] = {}

    def __iter__(self) -> Iterator[str]:
        for number in sorted(self._names):
            yield from self._names[number]

    def rank(self, name: str) -> tuple[int, str]:
        """Return the sort key of a node."""
        return self._pods[name], name

    def put(self, name: str, pods: int) -> None:
        """Add a node, or change the number of its pods."""
        self.remove(name)
        self._pods[name] = pods
        insort(self._names.setdefault(pods, []), name)

    def remove(self, name: str) -> None:
        """Remove a node; a no-op if it is unknown."""
        number = self._pods.pop(name, None)
        if number is not None:
            names = self._names[number]
            del names[bisect_left(names, name)]
            if not names:
                del self._names[number]


class ClusterState:
    """The nodes, devices, claims and pods of a cluster. Each `put_...` adds or replaces an object.

    Attributes:
        placer: the devices, classes and claims.
        nodes: the nodes by name.
        ordered_nodes: the names of the nodes in the order in which equally good nodes are preferred.
        claims: all claims by `namespace/name`.
        nominated: the pods that have no node, but are nominated for one (`status.nominatedNodeName`), by
            `namespace/name`. Pods of plans in flight are omitted.
        budgets: the PodDisruptionBudgets by `namespace/name`.
        budget: the work for the decision about one pod, in microseconds of one core.
        next_candidate: the position among the nodes at which the next search for victims begins.
        refusals: why no node suits some kinds of pods, as long as this can't change.
        requested: for each node, the amount of each extended resource that its pods request.
        classes_by_resource: the device classes, by the extended resources that they serve. Empty if the feature
            gate DRAExtendedResource is off.
        classic_classes: the device classes of controllers (KEP-3063).
    """

    def __init__(self, settings: SchedulerSettings | None = None) -> None:
        settings = settings or SchedulerSettings()
        self.placer = Placer(order=settings.order, features=settings.features, budget=settings.budget)
        self.budget = settings.budget
        self.nodes: dict[str, Node] = {}
        self._claims: dict[str, ResourceClaim] = {}
        self.claims: Mapping[str, ResourceClaim] = MappingProxyType(self._claims)
        self._nominated: dict[str, Pod] = {}
        self.nominated: Mapping[str, Pod] = MappingProxyType(self._nominated)
        self.budgets: dict[str, PodDisruptionBudget] = {}
        self.ordered_nodes = NodesByPods()
        self.next_candidate = 0
        self.refusals = KnownRefusals()
        self.requested = NodeUsage()
        self.classes_by_resource = ClassesByResource()
        self.classic_classes = ClassicClasses()
        self._serves_resources = settings.features.extended_resources
        self._classes: dict[str, DeviceClass] = {}
        self._rules: dict[str, DeviceTaintRule] = {}
        self._slices: dict[str, tuple[ResourceSlice, ResourceSlice]] = {}
        self._tainted_slices = TaintedSlices()
        self._node_of_pod: dict[str, str] = {}
        self._pods_on: dict[str, dict[str, Pod]] = {}
        self._pending: dict[str, Pod] = {}
        self._users: dict[str, dict[str, None]] = {}
        self._priorities: Counter[int] = Counter()

    @property
    def lowest_priority(self) -> int:
        """Return the lowest priority of a pod on a node; a high number if there is no pod."""
        return min(self._priorities, default=_NO_PRIORITY)

    def find_pod(self, ref: str) -> Pod | None:
        """Return an unfinished pod (`namespace/name`); None if it is unknown, so that it has ended."""
        node = self._node_of_pod.get(ref)
        return self._pending.get(ref) if node is None else self._pods_on[node][ref]

    def node_of(self, ref: str) -> str:
        """Return the node on which a pod (`namespace/name`) runs, or will run; empty if it has none."""
        return self._node_of_pod.get(ref, "")

    def users_of(self, claim: str) -> Collection[str]:
        """Return the unfinished pods (`namespace/name`) whose specs name a claim (`namespace/name`)."""
        return self._users.get(claim, ())

    def pods_on(self, node: str) -> Collection[Pod]:
        """Return the unfinished pods on a node, including pods of plans in flight."""
        return self._pods_on.get(node, {}).values()

    def put_node(self, node: Node) -> None:
        """Add or replace a node."""
        name = node.metadata.name
        before = self.nodes.get(name)
        if before is None:
            self.ordered_nodes.put(name, len(self.pods_on(name)))
        if before is None or select_node_fields(before) != select_node_fields(node):
            self.refusals.forget_all()
        self.nodes[name] = node
        features = frozenset(node.status.declared_features)
        self.placer.put_node(AllocationNode(name, node.metadata.labels, features))

    def remove_node(self, name: str) -> None:
        """Remove a node; a no-op if it is unknown."""
        self.refusals.forget_all()
        self.nodes.pop(name, None)
        self.ordered_nodes.remove(name)
        self.placer.remove_node(name)

    def put_pod(self, pod: Pod, node: str = "") -> None:
        """Add or replace an unfinished pod.

        Args:
            pod: the pod.
            node: the node on which it runs, or will run. Empty: the pod has no node.
        """
        ref = pod.ref
        before, before_node = self._take_pod(ref)
        if node and (before_node != node or before is None or _may_be_victim(before) != _may_be_victim(pod)):
            self._note_user(pod)
        for claim in used_names(pod):
            self._users.setdefault(claim, {})[ref] = None
        if not node:
            self._pending[ref] = pod
            if pod.status.nominated_node_name:
                self._nominated[ref] = pod
            return
        self._node_of_pod[ref] = node
        self._pods_on.setdefault(node, {})[ref] = pod
        self._priorities[pod.priority] += 1
        self.requested.add(pod, node)
        self._count_pods(node)

    def remove_pod(self, ref: str) -> None:
        """Remove a pod (`namespace/name`); a no-op if it is unknown."""
        pod, _ = self._take_pod(ref)
        if pod is not None:
            self._note_user(pod)

    def _take_pod(self, ref: str) -> tuple[Pod | None, str]:
        """Remove and return a pod, and its node; None if it is unknown."""
        self._nominated.pop(ref, None)
        pod, node = self.find_pod(ref), self._node_of_pod.pop(ref, "")
        if pod is None:
            return None, ""
        for claim in used_names(pod):
            users = self._users[claim]
            del users[ref]
            if not users:
                del self._users[claim]
        if not node:
            return self._pending.pop(ref), ""
        pods = self._pods_on[node]
        del pods[ref]
        if not pods:
            del self._pods_on[node]
        self._priorities[pod.priority] -= 1
        if not self._priorities[pod.priority]:
            del self._priorities[pod.priority]
        self.requested.remove(pod, node)
        self._count_pods(node)
        return pod, node

    def _note_user(self, pod: Pod) -> None:
        """Note that a pod may now be evicted, or has left, so that preemption may help other pods."""
        if pod.spec.resource_claims or requested_amounts(pod):
            self.refusals.forget_hopeless()

    def _count_pods(self, node: str) -> None:
        if node in self.nodes:
            self.ordered_nodes.put(node, len(self.pods_on(node)))

    def put_class(self, device_class: DeviceClass) -> None:
        """Add or replace a device class."""
        self.refusals.forget_all()
        self._classes[device_class.metadata.name] = device_class
        self.classic_classes.put(device_class)
        self.placer.put_class(device_class)
        self._index_classes()

    def remove_class(self, name: str) -> None:
        """Remove a device class; a no-op if it is unknown."""
        self.refusals.forget_all()
        self._classes.pop(name, None)
        self.classic_classes.remove(name)
        self.placer.remove_class(name)
        self._index_classes()

    def _index_classes(self) -> None:
        if self._serves_resources:
            self.classes_by_resource = ClassesByResource.of(self._classes.values())

    def put_claim(self, claim: ResourceClaim) -> None:
        """Add or replace a claim. If a plan will allocate the claim, it must have this allocation."""
        before = self._claims.get(claim.ref)
        self._claims[claim.ref] = claim
        if _held_by(claim) is not None and before is not None and _users_of(before) != _users_of(claim):
            self.refusals.forget_hopeless()
        if _held_by(before) != _held_by(claim):
            self.refusals.forget_all()
            self.placer.put_claim(claim)

    def remove_claim(self, ref: str) -> None:
        """Remove a claim (`namespace/name`); a no-op if it is unknown."""
        claim = self._claims.pop(ref, None)
        if claim is not None:
            self.classic_classes.forget(claim)
        if _held_by(claim) is not None:
            self.refusals.forget_all()
            self.placer.remove_claim(ref)

    def put_budget(self, budget: PodDisruptionBudget) -> None:
        """Add or replace a PodDisruptionBudget."""
        self.budgets[budget.ref] = budget

    def remove_budget(self, ref: str) -> None:
        """Remove a PodDisruptionBudget (`namespace/name`); a no-op if it is unknown."""
        self.budgets.pop(ref, None)

    def put_slice(self, source: ResourceSlice) -> None:
        """Add or replace a slice as its driver has published it."""
        tainted = self._tainted_slices.add_taints(source)
        _, before = self._slices.get(source.metadata.name, (None, None))
        self._slices[source.metadata.name] = source, tainted
        if tainted is not before:
            self.refusals.forget_all()
            self.placer.put_slice(tainted)

    def remove_slice(self, name: str) -> None:
        """Remove a slice; a no-op if it is unknown."""
        self.refusals.forget_all()
        self._slices.pop(name, None)
        self._tainted_slices.forget(name)
        self.placer.remove_slice(name)

    def set_unserved(self, pools: Mapping[PoolKey, str]) -> None:
        """Replace the pools from which no device is allocated, with the reasons."""
        self.refusals.forget_all()
        self.placer.set_unserved(pools)

    def put_rule(self, rule: DeviceTaintRule) -> None:
        """Add or replace a DeviceTaintRule."""
        self._set_rules({**self._rules, rule.metadata.name: rule})

    def remove_rule(self, name: str) -> None:
        """Remove a DeviceTaintRule; a no-op if it is unknown."""
        self._set_rules({each: rule for each, rule in self._rules.items() if each != name})

    def _set_rules(self, rules: dict[str, DeviceTaintRule]) -> None:
        if {name: rule.spec for name, rule in rules.items()} == {n: r.spec for n, r in self._rules.items()}:
            return  # only a status has changed
        self._rules = rules
        self._tainted_slices.set_rules(rules.values())
        for source, _ in list(self._slices.values()):
            self.put_slice(source)


def _held_by(claim: ResourceClaim | None) -> DeviceAllocation | None:
    return claim.allocation.devices if claim is not None and claim.allocation is not None else None


def _users_of(claim: ResourceClaim) -> Sequence[ConsumerReference]:
    return claim.status.reserved_for


def _may_be_victim(pod: Pod) -> tuple[object, ...]:
    """Return the fields on which it depends whether a pod with a node may be evicted."""
    return pod.metadata.uid, pod.metadata.deletion_timestamp, pod.priority, pod.status.resource_claim_statuses
