"""Find which pods are equal for the choice of a node, so that one decision holds for all of them."""

from collections.abc import Hashable

from dradriver.control.scheduler.snapshot import Cycle
from dradriver.model.encoding.codec import encode

__all__ = ["find_need", "find_pod_kind"]


def find_pod_kind(cycle: Cycle) -> Hashable | None:
    """Return a key that is equal for pods that all nodes refuse for the same reasons; None if there is none.

    A pod has no kind if a check of nodes reads more than its spec and the specs of its claims: if a claim is
    allocated already, for extended resources, and if there is required anti-affinity between pods.
    """
    return None if cycle.amounts else find_need(cycle)


def find_need(cycle: Cycle) -> Hashable | None:
    """Return a key that is equal for pods that need the same devices on the same nodes; None if there is none.

    It covers extended resources too, unlike the kind of a pod.
    """
    pod, spec = cycle.pod, cycle.pod.spec
    is_special = pod.required_anti_affinity or cycle.snapshot.has_anti_affinity or cycle.leftover is not None
    if is_special or len(cycle.to_allocate) != len(cycle.claims):
        return None
    rules = encode([spec.node_selector, spec.affinity, spec.tolerations])
    containers = (*spec.init_containers, *spec.containers) if cycle.amounts else ()
    amounts = encode([(each.resources, each.restart_policy) for each in containers])
    nodes = cycle.snapshot.nodes
    names = None if nodes is None else frozenset(nodes)
    return rules, amounts, names, cycle.precedence, tuple([encode(claim.spec) for claim in cycle.claims])
