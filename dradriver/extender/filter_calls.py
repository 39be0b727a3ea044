"""What the calls of `filter` showed about each pod, in memory only: the next call shows it again.

kube-scheduler first asks about the node for which a pod is nominated, and no other node. If this node does not
suit the pod, kube-scheduler asks about all nodes that passed its own filters. So the first of these calls must
not lead to evictions or releases: another node may suit the pod as it is.

Source: `findNodesThatFitPod` and `evaluateNominatedNode` of kube-scheduler (`schedule_one.go`).
"""

from collections.abc import Sequence, Set

from dradriver.model.core.workload import Pod

__all__ = ["FilterCalls"]


class FilterCalls:
    """The calls by `namespace/name` of their pods."""

    def __init__(self) -> None:
        self._refusals: dict[str, str] = {}
        self._evicts_on: dict[str, str] = {}
        self._lacked_claims: dict[str, float] = {}
        self._asked_alone: set[str] = set()
        self._excluded: dict[str, frozenset[str]] = {}
        self._sets: dict[frozenset[str], tuple[frozenset[str], int]] = {}
        """The equal sets of `_excluded` as one set, with the number of its pods."""

    def is_first(self, key: str) -> bool:
        """Return whether the next call about a pod is the first one of its scheduling attempt."""
        return key not in self._asked_alone

    def begin(self, key: str, pod: Pod, nodes: Sequence[str]) -> bool:
        """Record that a call begins, and return whether it is only about the nominated node.

        If that node does not suit, call `expect_all_nodes`. Then the next call counts as a call about all
        nodes, even if only the nominated node passed the filters of kube-scheduler.

        Args:
            key: `namespace/name` of the pod.
            pod: the pod.
            nodes: the nodes of the call.
        """
        self._evicts_on.pop(key, None)
        is_first = self.is_first(key)
        self._asked_alone.discard(key)
        return is_first and list(nodes) == [pod.status.nominated_node_name]

    def expect_all_nodes(self, key: str) -> None:
        """Record that the nominated node was refused, so that the next call is about all nodes."""
        self._asked_alone.add(key)

    def record_evictions(self, key: str, node: str) -> None:
        """Record that the last call about a pod began to evict pods from a node, until the next call."""
        self._evicts_on[key] = node

    def evicts_on(self, key: str) -> str:
        """Return the node from which the last call about a pod evicts pods; empty if there is none."""
        return self._evicts_on.get(key, "")

    def record_lacked_claims(self, key: str, now: float) -> None:
        """Record that the last call about a pod, at a time in seconds, found that the pod lacks claims."""
        self._lacked_claims[key] = now

    def discard_lacked_claims(self, key: str) -> None:
        """Remove that record: kube-scheduler has called again, or the pod was nudged."""
        self._lacked_claims.pop(key, None)

    def lacked_claims_at(self, key: str) -> float | None:
        """Return the time of the last call about a pod if it found that the pod lacks claims; else None."""
        return self._lacked_claims.get(key)

    def accept(self, key: str) -> None:
        """Record that a node suits the pod."""
        self._refusals.pop(key, None)

    def refuse(self, key: str, message: str) -> None:
        """Record why no node suits the pod."""
        self._refusals[key] = message

    def refusal(self, key: str) -> str:
        """Return why no node suits the pod; empty if the pod has not been refused."""
        return self._refusals.get(key, "")

    def excluded(self, key: str) -> Set[str] | None:
        """Return the nodes that kube-scheduler excludes for the pod; None if they were not recorded."""
        return self._excluded.get(key)

    def exclude(self, key: str, nodes: Set[str]) -> None:
        """Record the nodes that kube-scheduler excludes for the pod.

        In a large cluster these are thousands of names, so pods with equal sets share one set.
        """
        self._include(key)
        shared, pods = self._sets.get(names := frozenset(nodes), (names, 0))
        self._sets[shared] = shared, pods + 1
        self._excluded[key] = shared

    def forget(self, key: str) -> None:
        """Remove all records about a pod."""
        self._refusals.pop(key, None)
        self._evicts_on.pop(key, None)
        self._lacked_claims.pop(key, None)
        self._asked_alone.discard(key)
        self._include(key)

    def _include(self, key: str) -> None:
        if (names := self._excluded.pop(key, None)) is not None:
            _, pods = self._sets.pop(names)
            if pods > 1:
                self._sets[names] = names, pods - 1
