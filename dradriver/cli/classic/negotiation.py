"""The negotiation of the scheduler and the controllers about one pod."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from dradriver.cli.classic.claims import ClassicClaim
from dradriver.cli.world import World
from dradriver.model.classic.scheduling import PodSchedulingContext
from dradriver.model.core.workload import Pod

__all__ = ["ControllerAnswer", "NegotiationReport", "find_negotiation"]

_PROVIDE: Final = "waiting for resource driver to provide information"
_ALLOCATE: Final = "waiting for resource driver to allocate resource"
"""The texts of KEP-3063 (Troubleshooting), as in the conditions of pods."""

_MAX_NAMES: Final = 8


@dataclass(frozen=True, slots=True)
class ControllerAnswer:
    """What a controller has answered about one pending claim.

    Attributes:
        name: the name of the claim in the pod.
        claim: `namespace/name` of the claim.
        controller: the name of the controller.
        answered: whether the controller has answered.
        unsuitable_nodes: the nodes for which the claim cannot be allocated, in the controller's order.
    """

    name: str
    claim: str
    controller: str
    answered: bool
    unsuitable_nodes: tuple[str, ...] = ()

    def line(self) -> str:
        """Return one sentence."""
        subject = f"{self.name}: controller {self.controller}"
        if not self.answered:
            return f"{subject} has not answered yet"
        if not self.unsuitable_nodes:
            return f"{subject} called no node unsuitable"
        shown = ", ".join(self.unsuitable_nodes[:_MAX_NAMES])
        more = len(self.unsuitable_nodes) - _MAX_NAMES
        names = f"{shown} and {more} more" if more > 0 else shown
        return f"{subject} called {_count(len(self.unsuitable_nodes), 'node')} unsuitable: {names}"


@dataclass(frozen=True, slots=True)
class NegotiationReport:
    """The state of the negotiation about one pod.

    Attributes:
        pod: `namespace/name` of the pod.
        round: the number of times that the scheduler has changed its questions; 0 before its first question.
        potential_nodes: the nodes that suit the pod otherwise.
        selected_node: the node for which the controllers must allocate; empty if none is selected.
        answers: one entry for each pending claim that takes part.
        replaced: whether the PodSchedulingContext belongs to an earlier pod with this name.
    """

    pod: str
    round: int = 0
    potential_nodes: tuple[str, ...] = ()
    selected_node: str = ""
    answers: tuple[ControllerAnswer, ...] = ()
    replaced: bool = False

    def lines(self) -> Iterator[str]:
        """Yield the lines of the text output."""
        if self.replaced:
            yield (
                f"negotiation: PodSchedulingContext {self.pod} belongs to an earlier pod of this name, "
                "so the controllers ignore it"
            )
            return
        if not self.round:
            yield (
                f"negotiation: not begun, there is no PodSchedulingContext {self.pod}: only the scheduler of "
                "dradriver creates it"
            )
            return
        selected = f"node {self.selected_node} is selected" if self.selected_node else "no node is selected"
        yield (
            f"negotiation: round {self.round} (PodSchedulingContext {self.pod}), "
            f"{_count(len(self.potential_nodes), 'potential node')}, {selected}"
        )
        for each in self.answers:
            yield f"  {each.line()}"
        if self.waits_for:
            yield f"  {self.waits_for}"

    @property
    def waits_for(self) -> str:
        """What the pod waits for, as KEP-3063 names it; empty if no controller has to act."""
        if self.replaced or not self.round or not self.answers:
            return ""
        if not self.selected_node:
            silent = [each for each in self.answers if not each.answered]
            if silent:
                return f"{_PROVIDE}: {_list_claims(silent)}"
            if any(each.unsuitable_nodes for each in self.answers) and not self.potential_nodes:
                return "waiting until a controller calls fewer nodes unsuitable: no other node suits the pod"
            return "waiting for the scheduler to select a node: the drivers of all claims have answered"
        refusing = [each for each in self.answers if self.selected_node in each.unsuitable_nodes]
        # Without potential nodes the pod is bound already, and no other node can be selected.
        if refusing and self.potential_nodes:
            claims = _list_claims(refusing)
            return f"waiting for the scheduler to select another node: {claims} cannot use {self.selected_node}"
        return f"{_ALLOCATE}: {_list_claims(self.answers)}"

    def refusal(self, node: str) -> str | None:
        """Return which controller called a node unsuitable; None if there is none.

        Args:
            node: the name of the node.
        """
        refusing = [each for each in self.answers if node in each.unsuitable_nodes]
        return (
            "; ".join(
                f"controller {each.controller} called it unsuitable for claim {each.claim}" for each in refusing
            )
            or None
        )

    def document(self) -> dict[str, object]:
        """Return the document for programs."""
        return {
            "round": self.round,
            "potentialNodes": list(self.potential_nodes),
            "selectedNode": self.selected_node or None,
            "replaced": self.replaced,
            "claims": [
                {
                    "name": each.name,
                    "claim": each.claim,
                    "controller": each.controller,
                    "answered": each.answered,
                    "unsuitableNodes": list(each.unsuitable_nodes),
                }
                for each in self.answers
            ],
            "waitsFor": self.waits_for or None,
        }


def find_negotiation(world: World, pod: Pod, claims: Mapping[str, ClassicClaim]) -> NegotiationReport | None:
    """Return the negotiation about a pod; None if no claim takes part: only pending, delayed claims do.

    Args:
        world: the objects of the cluster.
        pod: the pod.
        claims: the classic claims of the pod by their names in the pod.
    """
    pending = {name: each for name, each in claims.items() if each.is_delayed and each.claim.allocation is None}
    if not pending:
        return None
    context = world.scheduling_contexts.get(pod.ref)
    if context is None:
        return NegotiationReport(pod.ref)
    if not context.is_for(pod.metadata.uid):
        return NegotiationReport(pod.ref, replaced=True)
    return NegotiationReport(
        pod.ref,
        max(context.metadata.generation or 0, 1),
        tuple(context.spec.potential_nodes),
        context.spec.selected_node,
        tuple(_answer(context, name, each) for name, each in pending.items()),
    )


def _answer(context: PodSchedulingContext, name: str, claim: ClassicClaim) -> ControllerAnswer:
    answer = context.answer(name, claim.controller)
    nodes = () if answer is None else tuple(answer.unsuitable_nodes)
    return ControllerAnswer(name, claim.claim.ref, claim.controller, answer is not None, nodes)


def _list_claims(answers: list[ControllerAnswer] | tuple[ControllerAnswer, ...]) -> str:
    return ", ".join(f"{each.controller} (claim {each.claim})" for each in answers)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
