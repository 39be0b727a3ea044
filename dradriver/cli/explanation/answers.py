"""Builds an explanation from a world."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dradriver.allocator import Features
from dradriver.cli.attempt import AttemptSettings, ExtendedResources, Filters, placer_of, special_claims
from dradriver.cli.explanation.claims import ClaimStage, SaidConditions, claim_state, said_conditions
from dradriver.cli.explanation.extended import extended_remarks
from dradriver.cli.explanation.nodes import Asked, NodeGroup, node_groups
from dradriver.cli.explanation.prepares import prepare_failure, with_failure
from dradriver.cli.explanation.report import Explanation
from dradriver.cli.get.why import why_pending
from dradriver.cli.terminal.progress import Progress
from dradriver.cli.world import Need, World, pod_need
from dradriver.control.extended import amounts_of, completed
from dradriver.control.scheduler.binding_conditions import BindingDeadline
from dradriver.errors import NotFoundError
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim

__all__ = ["Question", "explain_claim", "explain_pod"]


@dataclass(frozen=True, slots=True)
class Question:
    """Input of an explanation.

    Attributes:
        world: objects of the cluster.
        settings: settings of the allocator.
        patience: deadline for binding conditions.
        node: the only node to look at; empty: all.
    """

    world: World
    settings: AttemptSettings
    patience: BindingDeadline
    node: str = ""

    @property
    def features(self) -> Features:
        """The enabled features."""
        return self.settings.features


def explain_pod(question: Question, ref: str) -> Explanation:
    """Explain the state of the pod `namespace/name`.

    Raises:
        NotFoundError: there is no such pod, or no such node.
    """
    world = question.world
    pod = world.pods.get(ref)
    if pod is None:
        raise _unknown("pod", ref)
    states = _states(question, pod)
    if pod.spec.node_name or pod.finished:
        where = f"is on node {pod.spec.node_name}" if pod.spec.node_name else "is finished"
        return Explanation("Pod", ref, _said(pod, where), states)
    nominated = pod.status.nominated_node_name
    message = f"pod {ref} waits to be bound to node {nominated}" if nominated else _said(pod, "has no node")
    need = pod_need(world, pod)
    open_claims = any(claim.allocation is None for claim in need.claims) or _asks_devices(question, pod)
    look = not need.missing and (open_claims or bool(question.node)) and (not nominated or bool(question.node))
    nodes = _nodes(question, need) if look else ()
    return Explanation("Pod", ref, message, states, extended_remarks(world, pod, question.features), nodes)


def _asks_devices(question: Question, pod: Pod) -> bool:
    """Return whether the pod requests extended resources that no special claim has allocated."""
    specials = special_claims(question.world, pod, question.features)
    return bool(amounts_of(completed(pod))) and not any(claim.allocation for claim in specials)


def explain_claim(question: Question, ref: str) -> Explanation:
    """Explain the state of the claim `namespace/name`.

    Raises:
        NotFoundError: there is no such claim, or no such node.
    """
    world = question.world
    claim = world.claims.get(ref)
    if claim is None:
        raise _unknown("claim", ref)
    state = claim_state("", ref, claim, said_conditions(world.claims.values()), question.patience)
    users = [
        pod.ref for pod in world.pods.values() if ref in {each.ref for each in pod_need(world, pod).claims}
    ]
    told = [each for user in users for each in _states(question, world.pods[user])]
    if failing := next((each for each in told if each.claim == ref and each.state == "not-prepared"), None):
        state = replace(failing, name="")
    remarks = _remarks(claim, users)
    nodes = _nodes(question, Need([claim])) if claim.allocation is None or question.node else ()
    message = next(iter(state.lines()))
    return Explanation("ResourceClaim", ref, message, (state,), remarks, nodes)


def _said(pod: Pod, what: str) -> str:
    why = why_pending(pod)
    return f"pod {pod.ref} {what}" + (f": {why}" if why != "-" else "")


def _remarks(claim: ResourceClaim, users: Sequence[str]) -> tuple[str, ...]:
    remarks = []
    reserved = [f"{user.resource} {claim.metadata.namespace}/{user.name}" for user in claim.status.reserved_for]
    if reserved:
        remarks.append(f"reserved for {', '.join(reserved)}")
    if users:
        remarks.append(
            f"used by pod {', '.join(users)}: `dradriver explain pod` looks at all claims of one together"
        )
    elif claim.allocation is None:
        remarks.append("no pod uses it: a scheduler allocates a claim when a pod needs it")
    if claim.metadata.deletion_timestamp:
        remarks.append("is being deleted")
    return tuple(remarks)


def _unknown(kind: str, ref: str) -> NotFoundError:
    namespace, _, name = ref.partition("/")
    return NotFoundError(f"there is no {kind} {name} in the namespace {namespace}")


def _states(question: Question, pod: Pod) -> tuple[ClaimStage, ...]:
    world, patience = question.world, question.patience
    said: SaidConditions = said_conditions(world.claims.values())
    made = {claim.ref: claim for claim in pod_need(world, pod).claims}
    found = []
    for wanted in pod.spec.resource_claims:
        name = pod.claim_name(wanted)
        ref = f"{pod.metadata.namespace}/{name}" if name else ""
        found.append(claim_state(wanted.name, ref, made.get(ref), said, patience))
    found += [
        claim_state("extended resources", claim.ref, claim, said, patience)
        for claim in special_claims(world, pod, question.features)
    ]
    event = prepare_failure(world, pod)
    return tuple(found) if event is None else with_failure(found, event, patience.now)


def _nodes(question: Question, need: Need) -> tuple[NodeGroup, ...]:
    places = question.world.places()
    if question.node and question.node not in places:
        raise NotFoundError(f"there is no node {question.node}")
    names = [question.node] if question.node else sorted(places)
    world = question.world
    filters = Filters(places, list(world.pods.values()))
    asked = Asked(placer_of(world, question.settings), filters, ExtendedResources(world, question.features))
    with Progress(len(names), "nodes") as progress:
        return tuple(node_groups(need, asked, names, progress.step))
