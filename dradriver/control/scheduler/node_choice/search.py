"""Search the nodes that suit a pod, and the devices of its claims on each node.

The placer finds the node on which the claims fit best, with one decision for all equal nodes. Under the order
`ordered`, it prefers nodes without a wait for binding conditions (KEP-5007, Goals). Of equally good nodes, the
node with the fewest pods is chosen, then the first by name. The other checks of Filter run only on nodes on
which the claims fit, until a node is found. If no node is found, they run on all nodes, for the message.

Some pods have scores that the placer does not know: pods that accept several alternatives, and pods with
extended resources that a scoring strategy names. Then the suitable nodes are compared one by one.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Final

from dradriver.allocator import AllocationNode, Refusal
from dradriver.allocator.placement import NoNodeFits
from dradriver.control.extended import scheduling_steps
from dradriver.control.scheduler.binding.binding_conditions import has_conditions
from dradriver.control.scheduler.node_choice.alternatives import has_alternatives, score_alternatives
from dradriver.control.scheduler.node_choice.checked_nodes import CheckedNodes
from dradriver.control.scheduler.node_choice.refusals import NodeRefusals
from dradriver.control.scheduler.snapshot import Cycle, NoNode, refuse_all_nodes
from dradriver.model.classic.names import MAX_POTENTIAL_NODES
from dradriver.model.resource.claim import Allocation, ResourceClaim

__all__ = ["NodeChoice", "NodeSearch"]

_MAX_COMPARED: Final = 100
"""Maximum number of nodes that a scoring strategy compares after one suits (`minFeasibleNodesToFind`)."""

_WORSE: Final = 0.5
"""Score of a node that suits a pod, but not as well as another node."""


@dataclass(frozen=True)
class NodeChoice:
    """A node, and the allocations of the pod's claims on this node, by the claim's UID."""

    node: str
    allocations: Mapping[str, Allocation] = field(default_factory=dict)

    @cached_property
    def is_ready(self) -> bool:
        """Return whether no allocated device has binding conditions."""
        return not any(map(has_conditions, self.allocations.values()))


@dataclass(frozen=True, slots=True)
class _NodeGroup:
    """Nodes on which the pod needs the same claims.

    Attributes:
        claims: the claims to allocate.
        nodes: the names in order of preference; None: all nodes.
        has_special: whether one of the claims is a special claim.
    """

    claims: Sequence[ResourceClaim]
    nodes: Collection[str] | None = None
    has_special: bool = False


@dataclass(frozen=True, slots=True)
class _NodeSubset:
    """The names of some nodes, in the order of all nodes. Most decisions read only the first few."""

    ordered: Iterable[str]
    names: Collection[str]

    def __iter__(self) -> Iterator[str]:
        return (name for name in self.ordered if name in self.names)


class NodeSearch:
    """The search for a node for one pod.

    Attributes:
        checked: why nodes do not suit the pod, whatever devices are free.
    """

    def __init__(self, cycle: Cycle) -> None:
        """Create the search of one attempt.

        Args:
            cycle: the attempt, after PreFilter.
        """
        self._cycle = cycle
        self._cluster = cluster = cycle.snapshot.cluster
        nodes = cycle.snapshot.nodes
        self._ordered: Iterable[str] = (
            cluster.ordered_nodes if nodes is None else _NodeSubset(cluster.ordered_nodes, nodes)
        )
        self.checked = CheckedNodes(cycle)
        self._refused: list[NoNodeFits] = []

    def find_best(self) -> NodeChoice | None:
        """Return the best node; None if no node suits the pod."""
        choices = [choice for group in self._groups() if (choice := self._best_of(group)) is not None]
        if not choices:
            return None
        if has_alternatives(self._cycle) or scheduling_steps.affects_score(self._cycle):
            return max([*self._suitable_nodes(), *choices], key=self._score)
        rank = self._cluster.ordered_nodes.rank
        return min(choices, key=lambda choice: (not choice.is_ready, rank(choice.node)))

    def find_others(self, chosen: NodeChoice, limit: int) -> Mapping[str, float]:
        """Return at most `limit` other nodes that suit the pod, with their scores from 0 to 1.

        The chosen node and nodes that are as good as it have the score 1.
        """
        if has_alternatives(self._cycle):
            best = score_alternatives(self._cycle, chosen.allocations)
            others = islice((each for each in self._suitable_nodes() if each.node != chosen.node), limit)
            return {
                each.node: min(1.0, score_alternatives(self._cycle, each.allocations) / best) for each in others
            }
        found: dict[str, float] = {}
        for group in self._groups():
            nodes = self._ordered if group.nodes is None else group.nodes
            suitable = self.checked.select_suitable(name for name in nodes if name != chosen.node)
            left = limit - len(found)
            if group.claims:
                has_chosen = group.nodes is None or chosen.node in group.nodes
                found.update(self._score_fitting(group, suitable, left, chosen.node if has_chosen else ""))
            else:
                found.update(dict.fromkeys(islice(suitable, left), 1.0))
        return found

    def find_negotiated(self) -> NodeChoice | None:
        """Return the node that the negotiation prefers; None if there is none, or if it does not suit any more.

        It is the selected node, because a controller may allocate for it now. If several controllers must
        allocate, it is otherwise the best of the potential nodes, which the controllers have checked.
        """
        needs, candidates = self._cycle.classic, self._cycle.snapshot.candidates
        if needs is None or needs.context is None:
            return None
        spec = needs.context.spec
        names = [spec.selected_node] if spec.selected_node else []
        if len(needs.awaited) > 1:
            known = (name for name in spec.potential_nodes if name in self._cluster.nodes)
            names += sorted(known, key=self._cluster.ordered_nodes.rank)
        suitable = (self.try_node(name) for name in names if name in candidates)
        return next((choice for choice in suitable if choice is not None), None)

    def find_potential(self, chosen: NodeChoice) -> Sequence[str]:
        """Return the chosen node, then other nodes that suit the pod: first those that are potential nodes now.

        At most `MAX_POTENTIAL_NODES` are returned.
        """
        needs, candidates = self._cycle.classic, self._cycle.snapshot.candidates
        context = needs.context if needs is not None else None
        listed = [name for name in context.spec.potential_nodes if name in candidates] if context else []
        found = {chosen.node: None}
        for group in self._groups():
            allowed = self._ordered if group.nodes is None else group.nodes
            first = listed if group.nodes is None else [name for name in listed if name in group.nodes]
            names = (name for name in dict.fromkeys([*first, *allowed]) if name not in found)
            suitable = (name for name in names if self.checked.refusal(name) is None)
            left = MAX_POTENTIAL_NODES - len(found)
            if group.claims:
                found.update(dict.fromkeys(self._score_fitting(group, suitable, left, "")))
            else:
                found.update(dict.fromkeys(islice(suitable, left)))
        return list(found)

    def _score_fitting(
        self, group: _NodeGroup, names: Iterable[str], limit: int, chosen: str
    ) -> Mapping[str, float]:
        """Return at most `limit` of the nodes on which the claims of a group fit, with their scores.

        Args:
            group: the group.
            names: the nodes of the group, in order, without the chosen node.
            limit: maximum number of nodes in the result.
            chosen: the chosen node; empty if it is in another group.
        """
        placer = self._cluster.placer
        try:
            with self._cycle.times.measure_plugin("DynamicResources") as time:
                best = placer.find_fitting(group.claims, [chosen], 1) if chosen else {}
                fitting = placer.find_fitting(group.claims, names, limit)
                time.passed |= bool(fitting)
        except Refusal:
            return {}  # the claims are wrong, so only nodes of other groups suit
        rating = min([*best.values(), *fitting.values()], default=())
        return {name: 1.0 if each == rating else _WORSE for name, each in fitting.items()}

    def try_node(self, name: str) -> NodeChoice | None:
        """Return the allocations on one node; None if the node does not suit the pod."""
        if self.checked.refusal(name) is not None:
            return None
        claims, has_special = self.claims_on(name)
        if not claims:
            return NodeChoice(name)
        try:
            with self._cycle.times.measure_plugin("DynamicResources") as time:
                allocations = self._cluster.placer.place_on(name, claims, now=self._cycle.snapshot.now)
                time.passed |= allocations is not None
        except Refusal as refusal:
            if refusal.kind == "claim" and not has_special:
                raise NoNode(refuse_all_nodes(self._cycle, refusal.brief())) from None
            allocations = None
        return None if allocations is None else NodeChoice(name, allocations)

    def explain(self) -> NodeRefusals:
        """Return the reasons why no node suits the pod."""
        filtered: dict[str, list[str]] = {}
        for name in self._ordered:
            if (reason := self.checked.refusal(name)) is not None:
                filtered.setdefault(reason, []).append(name)
        return NodeRefusals(
            tuple(claim.ref for claim in self._cycle.claims),
            filtered,
            [group for refused in self._refused for group in refused.groups],
            any(refused.kind == "undecided" for refused in self._refused),
        )

    def _groups(self) -> Iterator[_NodeGroup]:
        if not scheduling_steps.has_extended_resources(self._cycle):
            yield _NodeGroup(self._cycle.to_allocate)
            return
        groups: dict[object, list[str]] = {}
        for name in self._ordered:
            if self.checked.refusal(name) is None:
                special = scheduling_steps.to_allocate(self._cycle, name)
                requests = tuple(request.name for claim in special for request in claim.spec.devices.requests)
                groups.setdefault(requests, []).append(name)
        for names in groups.values():
            claims, has_special = self.claims_on(names[0])
            yield _NodeGroup(claims, dict.fromkeys(names), has_special)

    def claims_on(self, name: str) -> tuple[Sequence[ResourceClaim], bool]:
        """Return the claims to allocate on a node, and whether one of them is a special claim."""
        special = scheduling_steps.to_allocate(self._cycle, name)
        return [*self._cycle.to_allocate, *special], bool(special)

    def _best_of(self, group: _NodeGroup) -> NodeChoice | None:
        nodes = self._ordered if group.nodes is None else group.nodes
        if not group.claims:
            name = next((name for name in nodes if self.checked.refusal(name) is None), None)
            return None if name is None else NodeChoice(name)

        allowed = self._cycle.snapshot.nodes if group.nodes is None else group.nodes
        only = next(iter(allowed)) if allowed is not None and len(allowed) == 1 else None

        def may_run_on(node: AllocationNode) -> bool:
            return (allowed is None or node.name in allowed) and self.checked.refusal(node.name) is None

        try:
            with self._cycle.times.measure_plugin("DynamicResources") as time:
                placement = self._cluster.placer.place(
                    group.claims,
                    may_run_on=may_run_on,
                    only=only,
                    preferred=nodes,
                    now=self._cycle.snapshot.now,
                )
                time.passed = True
        except NoNodeFits as refused:
            self._refused.append(refused)
            return None
        except Refusal as refusal:
            self._note_wrong_claims(group, nodes, refusal)
            return None
        return NodeChoice(placement.node, placement.allocations)

    def _note_wrong_claims(self, group: _NodeGroup, nodes: Iterable[str], refusal: Refusal) -> None:
        """Note that claims are wrong on all nodes of a group."""
        names = [name for name in nodes if self.checked.refusal(name) is None]
        # An error of a special claim applies only to these nodes: another node may have a device plugin.
        if names and not group.has_special:
            raise NoNode(refuse_all_nodes(self._cycle, refusal.brief())) from None
        self.checked.refuse(names, refusal.brief())

    def _suitable_nodes(self) -> Iterator[NodeChoice]:
        compared, limit = 0, None if has_alternatives(self._cycle) else _MAX_COMPARED
        is_found = False
        for name in self._ordered:
            if compared == limit:
                return
            compared += is_found
            if (choice := self.try_node(name)) is not None:
                is_found = True
                yield choice

    def _score(self, choice: NodeChoice) -> tuple[int, bool, int]:
        """Return the scores, most important first: a score matters only if all earlier scores are equal."""
        node = self._cluster.nodes[choice.node]
        return (
            score_alternatives(self._cycle, choice.allocations),
            choice.is_ready,
            scheduling_steps.score_use(self._cycle, node),
        )
