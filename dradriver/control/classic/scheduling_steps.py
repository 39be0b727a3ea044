"""The pipeline's steps for classic claims (KEP-3063): PreFilter, Filter, the next round, and PostFilter."""

from collections.abc import Iterator, Sequence
from typing import Final

from dradriver.control.claims.pod_claims import is_reserved_for, used_names
from dradriver.control.classic.deallocation import choose_deallocation, release_reservation
from dradriver.control.classic.negotiation import (
    WAITING_FOR_INFORMATION,
    describe_wait,
    find_unsuitable,
    negotiate,
    write_spec,
)
from dradriver.control.classic.values import (
    AwaitedClaim,
    explain_unreservable,
    is_controlled,
    list_awaited,
)
from dradriver.control.runtime.actions import RequestDeallocation, WriteContext
from dradriver.control.scheduler.snapshot import ClassicNeeds, Cycle, NoNode, Unschedulable, refuse_all_nodes
from dradriver.errors import InvalidObjectError
from dradriver.model.classic.controlled_claims import ControlledClaim, find_allocating_controller
from dradriver.model.classic.names import GROUP
from dradriver.model.classic.scheduling import SchedulingSpec
from dradriver.model.core.workload import Node

__all__ = ["check_drivers", "find_needs", "give_up_negotiation", "post_filter", "select_node"]

_NOT_SERVED: Final = f"the API server does not serve podschedulingcontexts.{GROUP}"


def find_needs(cycle: Cycle) -> None:
    """PreFilter: find the classic claims of the pod; raise if one of them cannot be used or allocated now."""
    classes = cycle.snapshot.cluster.classic_classes
    problem = ""
    unallocated: list[ControlledClaim] = []
    is_classic = False
    for claim in cycle.claims:
        if claim.allocation is not None:
            if is_controlled(claim):
                is_classic = True
                record = cycle.snapshot.classic.records.get(claim.metadata.uid)
                problem = problem or explain_unreservable(claim, cycle.pod, record) or ""
            continue
        controller = find_allocating_controller(claim) if claim.metadata.finalizers else ""
        try:
            controlled = classes.resolve(claim) if classes else None
        except InvalidObjectError as error:
            # An error of a class does not name the claim.
            names_claim = str(error).startswith(f"ResourceClaim {claim.ref}:")
            problem = problem or (str(error) if names_claim else f"resourceclaim {claim.ref}: {error}")
            is_classic = True
            continue
        if controlled is None and controller:
            rule = f"driver {controller} has begun to allocate it, and its class names no controller any more"
            problem, is_classic = problem or f"resourceclaim {claim.ref}: {rule}", True
        elif controlled is not None:
            is_classic = True
            unallocated.append(controlled)
            problem = problem or _explain_unallocated(controlled, controller)
    if not is_classic:
        return
    awaited = list_awaited(cycle.pod, [each for each in unallocated if each.is_delayed])
    cycle.classic = ClassicNeeds(
        unallocated={each.claim.metadata.uid: each for each in unallocated},
        awaited=awaited,
        context=cycle.snapshot.classic.context_of(cycle.pod),
    )
    if not problem and awaited and not cycle.snapshot.classic.is_served:
        problem = f"{', '.join(map(str, awaited))}: {_NOT_SERVED}"
    if problem:
        raise NoNode(refuse_all_nodes(cycle, problem))
    cycle.classic.unsuitable.update(find_unsuitable(cycle.classic.context, awaited))


def give_up_negotiation(cycle: Cycle) -> None:
    """PreEnqueue: note that a claim of the pod cannot be used, so that PostFilter frees the pod's other claims.

    The pod cannot run until its user acts. Until then, it neither selects a node nor keeps the devices of its
    other claims from other pods, as with claims that the scheduler allocates. kube-scheduler 1.30 keeps both.
    """
    claims = (cycle.snapshot.claims.get(ref) for ref in used_names(cycle.pod))
    cycle.claims = [each for each in claims if each is not None and is_reserved_for(each, cycle.pod)]
    cycle.classic = ClassicNeeds(
        unallocated={}, awaited=(), context=cycle.snapshot.classic.context_of(cycle.pod), is_refused=True
    )


def _explain_unallocated(controlled: ControlledClaim, allocating: str) -> str:
    """Return why the scheduler cannot ask a controller to allocate a claim now; empty if it can."""
    ref, controller = controlled.claim.ref, controlled.controller
    if not controlled.is_delayed:
        return f"unallocated immediate resourceclaim ({ref} by driver {controller})"
    if allocating not in {"", controller}:
        return f"resourceclaim {ref} must be deallocated by driver {allocating} before driver {controller}"
    return ""


def check_drivers(needs: ClassicNeeds, node: Node) -> str | None:
    """Filter: return the reason if a class or a controller's answer excludes the node."""
    name, labels = node.metadata.name, node.metadata.labels
    for controlled in needs.unallocated.values():
        if not controlled.suits(name, labels):
            return f"excluded by resource class node filter (resourceclaim {controlled.claim.ref})"
    refusing = needs.unsuitable.get(name)
    if refusing is None:
        return None
    needs.is_refused = True
    return f"resourceclaim cannot be allocated for the node (unsuitable) ({refusing})"


def select_node(cycle: Cycle, suitable: Sequence[str]) -> tuple[tuple[AwaitedClaim, ...], tuple[str, ...]]:
    """Return the claims that the controllers must allocate for the best node, and the potential nodes.

    Args:
        cycle: the attempt, after Filter.
        suitable: the nodes that suit the pod, the best first.

    Raises:
        NoNode: no node can be selected before all controllers have answered. The verdict has the write of the
            potential nodes, unless they are written already.
    """
    needs = cycle.classic
    if needs is None or not needs.awaited:
        return (), ()
    result = negotiate(needs.context, needs.awaited, suitable)
    if result.unanswered:
        write = write_spec(cycle.pod, cycle.snapshot.classic.context, result.spec)
        message = describe_wait(WAITING_FOR_INFORMATION, result.unanswered, needs.context)
        writes = () if write is None else (write,)
        raise NoNode(Unschedulable(message, releases=writes, every_node=message, awaits_drivers=True))
    return needs.awaited, tuple(result.spec.potential_nodes)


def post_filter(cycle: Cycle) -> Iterator[WriteContext | RequestDeallocation]:
    """Yield the writes for a pod without a suitable node: stop allocations, and deallocate one claim.

    The next attempt continues after each write. Before a controller is asked to deallocate, the node is not
    selected any more: otherwise the controller could deallocate, and allocate for the same node again.

    Source: `PostFilter` of the plugin `dynamicresources` in kube-scheduler 1.30.
    """
    needs, pod, objects = cycle.classic, cycle.pod, cycle.snapshot.classic
    if needs is None:
        return
    yield from release_reservation(pod, cycle.claims, objects.records)
    context = needs.context
    if context is not None and context.spec != SchedulingSpec():
        yield WriteContext(pod, SchedulingSpec(), context)
    deallocation = choose_deallocation(
        pod,
        cycle.claims,
        objects.records,
        unavailable=cycle.unavailable,
        is_refused=needs.is_refused,
        round_number=context.metadata.generation if context is not None else 0,
    )
    if deallocation is not None:
        yield deallocation
