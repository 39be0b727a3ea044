"""Builds an explanation from a world."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from dradriver.allocator.placement import Placer
from dradriver.cli.attempt import (
    AttemptSettings,
    ExtendedResources,
    Filters,
    build_placer,
    find_disabled_gates,
    gate_hints,
    special_claims,
)
from dradriver.cli.classic import (
    ClassicClaim,
    ClassicClaims,
    NegotiationReport,
    find_negotiation,
    reported_failure,
    silent_controllers,
)
from dradriver.cli.explanation.claims import ClaimStage, SetConditions, claim_state, find_set_conditions
from dradriver.cli.explanation.extended import explain_extended_resources
from dradriver.cli.explanation.holders import pods_by_claim
from dradriver.cli.explanation.nodes import NodeChecks, NodeGroup, node_groups
from dradriver.cli.explanation.prepares import prepare_failure, with_failure
from dradriver.cli.explanation.report import Explanation
from dradriver.cli.terminal.progress import Progress
from dradriver.cli.world import Need, World, pod_need
from dradriver.control.extended import complete_requests, requested_amounts
from dradriver.control.scheduler.binding.binding_conditions import BindingDeadline
from dradriver.errors import NotFoundError
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.overview import pending_reason

__all__ = ["Question", "explain_claim", "explain_pod"]


@dataclass(frozen=True)
class Question:
    """Input of an explanation.

    Attributes:
        world: objects of the cluster.
        settings: settings of the allocator.
        binding_deadline: deadline for binding conditions.
        node: the only node to check; empty for all nodes.
    """

    world: World
    settings: AttemptSettings
    binding_deadline: BindingDeadline
    node: str = ""

    @cached_property
    def placer(self) -> Placer:
        """The allocator with the objects of the world."""
        return build_placer(self.world, self.settings)

    @cached_property
    def classic(self) -> ClassicClaims:
        """The claims of the world that controllers allocate."""
        return ClassicClaims(self.world.classes, self.world.controller_allocations.values())


def explain_pod(question: Question, ref: str) -> Explanation:
    """Explain the state of a pod.

    Args:
        question: the input.
        ref: `namespace/name` of the pod.

    Returns:
        The explanation, with results of nodes only if a claim or an extended resource is not allocated.

    Raises:
        NotFoundError: the pod or the node does not exist.
    """
    world = question.world
    pod = world.pods.get(ref)
    if pod is None:
        raise _unknown("pod", ref)
    states = _states(question, pod)
    if pod.spec.node_name or pod.finished:
        where = f"is on node {pod.spec.node_name}" if pod.spec.node_name else "is finished"
        negotiation = None if pod.finished else find_negotiation(world, pod, _classic_claims(question, pod))
        return Explanation("Pod", ref, _describe_pod(pod, where), states, negotiation=negotiation)
    nominated = pod.status.nominated_node_name
    message = (
        f"pod {ref} waits to be bound to node {nominated}" if nominated else _describe_pod(pod, "has no node")
    )
    need = pod_need(world, pod)
    open_claims = any(claim.allocation is None for claim in need.claims) or _needs_devices(question, pod)
    check_nodes = (
        not need.missing and (open_claims or bool(question.node)) and (not nominated or bool(question.node))
    )
    # No node can be found for a classic claim that breaks a rule.
    check_nodes = check_nodes and not any(map(question.classic.find_error, need.claims))
    classic = _classic_claims(question, pod)
    negotiation = find_negotiation(world, pod, classic)
    nodes = _nodes(question, need, negotiation) if check_nodes else ()
    remarks = [
        *_classic_remarks(question, need.claims),
        *explain_extended_resources(world, pod, question.settings.features, lambda: question.placer),
    ]
    remarks += _gate_hints(question, nodes, remarks)
    return Explanation("Pod", ref, message, states, tuple(remarks), nodes, negotiation)


def _gate_hints(question: Question, nodes: Sequence[NodeGroup], remarks: Sequence[str] = ()) -> Iterator[str]:
    texts = [*remarks, *(text for group in nodes for text in group.texts)]
    return (f"hint: {hint}" for hint in gate_hints(find_disabled_gates(texts, question.settings.features)))


def _classic_claims(question: Question, pod: Pod) -> dict[str, ClassicClaim]:
    """Return the classic claims of a pod, by their names in the pod."""
    claims = {claim.ref: claim for claim in pod_need(question.world, pod).claims}
    found = {}
    for wanted in pod.spec.resource_claims:
        claim = claims.get(f"{pod.metadata.namespace}/{pod.claim_name(wanted)}")
        if claim is not None and (classic := question.classic.find_valid(claim)) is not None:
            found[wanted.name] = classic
    return found


def _classic_remarks(question: Question, claims: Sequence[ResourceClaim]) -> Iterator[str]:
    """Yield the errors of classic claims, the reported failures, and controllers that have never answered."""
    yield from filter(None, map(question.classic.find_error, claims))
    waiting = [
        classic
        for each in claims
        if each.allocation is None and (classic := question.classic.find_valid(each)) is not None
    ]
    yield from filter(None, (reported_failure(question.world, each) for each in waiting))
    yield from silent_controllers(question.world, [each.controller for each in waiting])


def _needs_devices(question: Question, pod: Pod) -> bool:
    """Return whether the pod requests extended resources that no special claim has allocated."""
    specials = special_claims(question.world, pod, question.settings.features)
    return bool(requested_amounts(complete_requests(pod))) and not any(claim.allocation for claim in specials)


def explain_claim(question: Question, ref: str) -> Explanation:
    """Explain the state of a claim.

    Args:
        question: the input.
        ref: `namespace/name` of the claim.

    Returns:
        The explanation, with results of nodes only if the claim is not allocated or `question.node` is given.

    Raises:
        NotFoundError: the claim or the node does not exist.
    """
    world = question.world
    claim = world.claims.get(ref)
    if claim is None:
        raise _unknown("claim", ref)
    known, classic = find_set_conditions(world.claims.values()), question.classic.find_valid(claim)
    state = claim_state("", ref, claim, known, question.binding_deadline, classic)
    users = [
        pod.ref for pod in world.pods.values() if ref in {each.ref for each in pod_need(world, pod).claims}
    ]
    user_states = [each for user in users for each in _states(question, world.pods[user])]
    if failing := next(
        (each for each in user_states if each.claim == ref and each.state == "not-prepared"), None
    ):
        state = replace(failing, name="")
    nodes = _nodes(question, Need([claim])) if claim.allocation is None or question.node else ()
    remarks = (
        *_remarks(claim, users, classic),
        *_classic_remarks(question, [claim]),
        *_gate_hints(question, nodes),
    )
    message = next(iter(state.lines()))
    return Explanation("ResourceClaim", ref, message, (state,), remarks, nodes)


def _describe_pod(pod: Pod, what: str) -> str:
    why = pending_reason(pod)
    return f"pod {pod.ref} {what}" + (f": {why}" if why != "-" else "")


def _remarks(claim: ResourceClaim, users: Sequence[str], classic: ClassicClaim | None) -> tuple[str, ...]:
    remarks = []
    reserved = [f"{user.resource} {claim.metadata.namespace}/{user.name}" for user in claim.status.reserved_for]
    if reserved:
        remarks.append(f"reserved for {', '.join(reserved)}")
    if users:
        remarks.append(
            f"used by pod {', '.join(users)}: `dradriver explain pod` checks all claims of a pod together"
        )
    elif claim.allocation is None and (classic is None or classic.is_delayed):
        remarks.append("no pod uses it: the scheduler allocates a claim when a pod uses it")
    if claim.metadata.deletion_timestamp:
        remarks.append("is being deleted")
    return tuple(remarks)


def _unknown(kind: str, ref: str) -> NotFoundError:
    namespace, _, name = ref.partition("/")
    return NotFoundError(f"there is no {kind} {name} in the namespace {namespace}")


def _states(question: Question, pod: Pod) -> tuple[ClaimStage, ...]:
    world, binding_deadline = question.world, question.binding_deadline
    known: SetConditions = find_set_conditions(world.claims.values())
    claims = {claim.ref: claim for claim in pod_need(world, pod).claims}
    states = []
    for wanted in pod.spec.resource_claims:
        name = pod.claim_name(wanted)
        ref = f"{pod.metadata.namespace}/{name}" if name else ""
        classic = question.classic.find_valid(claims[ref]) if ref in claims else None
        states.append(claim_state(wanted.name, ref, claims.get(ref), known, binding_deadline, classic))
    states += [
        claim_state("extended resources", claim.ref, claim, known, binding_deadline)
        for claim in special_claims(world, pod, question.settings.features)
    ]
    event = prepare_failure(world, pod)
    return tuple(states) if event is None else with_failure(states, event, binding_deadline.now)


def _nodes(
    question: Question, need: Need, negotiation: NegotiationReport | None = None
) -> tuple[NodeGroup, ...]:
    nodes = question.world.known_nodes()
    if question.node and question.node not in nodes:
        raise NotFoundError(f"there is no node {question.node}")
    names = [question.node] if question.node else sorted(nodes)
    world = question.world
    filters = Filters(nodes, list(world.pods.values()))
    extended = ExtendedResources(world, question.settings.features)
    pods = pods_by_claim(world.claims.values())
    checks = NodeChecks(question.placer, filters, extended, question.classic, negotiation, pods)
    with Progress(len(names), "nodes") as progress:
        return tuple(node_groups(need, checks, names, progress.step))
