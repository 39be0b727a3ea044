"""Filter, whatever devices are free: check each node at most once in one attempt.

A node is refused by its own rules and the pod's (`node_filters`), by allocated claims that cannot be used on
it, by extended resources (KEP-5004), or by the controllers of classic claims (KEP-3063).
"""

from collections.abc import Iterable, Iterator
from typing import Final

from dradriver.control.classic.scheduling_steps import check_drivers
from dradriver.control.extended import scheduling_steps
from dradriver.control.scheduler.node_choice import node_filters
from dradriver.control.scheduler.snapshot import Cycle
from dradriver.model.core.workload import Node

__all__ = ["CheckedNodes"]

_NODE_FILTERS: Final = (
    node_filters.check_cordon,
    node_filters.check_ready,
    node_filters.check_node_affinity,
    node_filters.check_taints,
)


class CheckedNodes:
    """The reasons why nodes do not suit a pod, whatever devices are free. Each node is checked on demand."""

    def __init__(self, cycle: Cycle) -> None:
        """Create the checks of one attempt.

        Args:
            cycle: the attempt, after PreFilter.
        """
        self._cycle = cycle
        self._nodes = cycle.snapshot.cluster.nodes
        self._checked = cycle.checked
        # A pod without classic claims has no additional work for a node.
        self._check = self._check_node if cycle.classic is None else self._check_with_drivers

    def refusal(self, name: str) -> str | None:
        """Return why a node does not suit the pod, whatever devices are free; None if it does."""
        if name not in self._checked:
            self._checked[name] = self._check(self._nodes[name])
        return self._checked[name]

    def select_suitable(self, names: Iterator[str]) -> Iterator[str]:
        """Return those of the given nodes for which `refusal` is None.

        If the candidates differ only in their free devices, all are returned, without a check.
        """
        cycle = self._cycle
        has_special = scheduling_steps.has_extended_resources(cycle) or cycle.classic is not None
        is_allocated = any(claim.allocation is not None for claim in cycle.claims)
        if cycle.snapshot.nodes is None or is_allocated or has_special:
            return (name for name in names if self.refusal(name) is None)
        return names

    def refuse(self, names: Iterable[str], reason: str) -> None:
        """Record a reason that was found later, because the claims are wrong on these nodes."""
        self._checked.update(dict.fromkeys(names, reason))

    def _check_with_drivers(self, node: Node) -> str | None:
        reason, needs = self._check_node(node), self._cycle.classic
        return check_drivers(needs, node) if reason is None and needs is not None else reason

    def _check_node(self, node: Node) -> str | None:
        cycle = self._cycle
        if cycle.snapshot.nodes is None and (reason := _check_rules(cycle, node)) is not None:
            return reason
        if scheduling_steps.has_extended_resources(cycle):
            with cycle.times.measure_plugin("NodeResourcesFit") as time:
                if (reason := scheduling_steps.check_resources(cycle, node)) is not None:
                    return reason
                time.passed = True
        if all(claim.allocation is None for claim in cycle.claims):
            return None
        if cycle.to_allocate:
            return _check_claims_available(cycle, node)
        with cycle.times.measure_plugin("DynamicResources") as time:
            reason = _check_claims_available(cycle, node)
            time.passed |= reason is None
            return reason


def _check_rules(cycle: Cycle, node: Node) -> str | None:
    """Return the reason if a rule of the pod or of the node forbids the node, whatever its devices are."""
    pod = cycle.pod
    for check in _NODE_FILTERS:
        if (reason := check(pod, node)) is not None:
            return reason
    if pod.required_anti_affinity or cycle.snapshot.has_anti_affinity:
        cluster = cycle.snapshot.cluster
        nodes, pods_on = cluster.nodes.values(), cluster.pods_on
        return node_filters.check_pod_anti_affinity(pod, node, nodes, pods_on)
    return None


def _check_claims_available(cycle: Cycle, node: Node) -> str | None:
    """Return the reason if allocated claims cannot be used on the node."""
    name, labels = node.metadata.name, node.metadata.labels
    unavailable = {
        claim.metadata.uid: claim.ref
        for claim in cycle.claims
        if claim.allocation
        and (selector := claim.allocation.node_selector)
        and not selector.matches(name, labels)
    }
    cycle.unavailable |= unavailable.keys()
    # kube-scheduler omits the names. Users need them if claims are allocated on different nodes.
    return (
        f"resourceclaim not available on the node ({', '.join(unavailable.values())})" if unavailable else None
    )
