"""Explain why no node suits a pod, once for all waiting pods of one kind.

If a device becomes free, all waiting pods are tried again, and most of them are refused again. Pods of one kind
differ only in their names and in the names of their claims. As long as the cluster does not change, they are
refused for the same reasons, so the nodes and devices are examined only for the first of them.
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from dradriver.allocator import Refusal
from dradriver.allocator.placement import RefusedNodes

__all__ = ["KnownRefusals", "NodeRefusals"]

_MAX_REASONS: Final = 4
"""Maximum number of different reasons in one message, because an event's message has at most 1024 bytes."""
_MAX_KINDS: Final = 64
"""Maximum number of kinds of pods whose refusals are known."""


@dataclass(frozen=True, slots=True)
class NodeRefusals:
    """The reasons why no node suits a pod.

    Attributes:
        claims: `namespace/name` of each claim of the pod, in the order of the pod's spec.
        filtered: the names of the nodes for each reason that does not concern the allocator.
        refused: the allocator's refusals with their nodes.
        is_undecided: whether the allocator gave up on a node.
    """

    claims: tuple[str, ...]
    filtered: Mapping[str, Sequence[str]]
    refused: Sequence[RefusedNodes]
    is_undecided: bool

    def message(self) -> str:
        """Return the message for users, as kube-scheduler writes it."""
        counts, invalid = Counter({reason: len(nodes) for reason, nodes in self.filtered.items()}), set[str]()
        for group in self.refused:
            reason = group.refusal.brief()
            counts[reason] += len(group.nodes)
            if any(each.code == "pool-invalid" for each in group.refusal.reasons):
                invalid.add(reason)
        if not counts:
            return "no nodes available to schedule pods"
        # Reasons about invalid pools contain the name of the pool, so each is rare. They come first (KEP-4815,
        # Risks).
        counted = sorted(counts.most_common(), key=lambda item: item[0] not in invalid)
        reasons = sorted(f"{number} {reason}" for reason, number in counted[:_MAX_REASONS])
        if others := sum(number for _, number in counted[_MAX_REASONS:]):
            reasons.append(f"{others} node(s) for other reasons")
        return f"0/{counts.total()} nodes are available: {', '.join(reasons)}."

    def by_node(self) -> dict[str, str]:
        """Return the reason for each node."""
        reasons = {name: reason for reason, nodes in self.filtered.items() for name in nodes}
        return reasons | {name: group.refusal.brief() for group in self.refused for name in group.nodes}

    def for_claims(self, claims: tuple[str, ...]) -> "NodeRefusals | None":
        """Return the reasons for a pod with equal claims of other names; None if this is not possible.

        Args:
            claims: `namespace/name` of each claim, in the same order.
        """
        names = dict(zip(self.claims, claims, strict=True))
        if any(name in str(group.refusal) for group in self.refused for name in names):
            return None  # the text of the refusal contains the name of a claim
        refused = [replace(group, refusal=_with_claim(group.refusal, names)) for group in self.refused]
        return replace(self, claims=claims, refused=refused)


def _with_claim(refusal: Refusal, names: Mapping[str, str]) -> Refusal:
    """Return a refusal whose claim has its new name."""
    return Refusal(
        refusal.kind,
        str(refusal),
        claim=names.get(refusal.claim, refusal.claim),
        request=refusal.request,
        node=refusal.node,
        reasons=refusal.reasons,
    )


class KnownRefusals:
    """The refusals of kinds of pods, as long as the cluster has not changed.

    It also records the kinds of pods for which no eviction helps, as long as no pod uses another claim.
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, NodeRefusals] = {}
        self._hopeless: set[Hashable] = set()

    def find(self, kind: Hashable) -> NodeRefusals | None:
        """Return the refusals of another pod of this kind; None if they are unknown."""
        return self._known.get(kind)

    def add(self, kind: Hashable, refusals: NodeRefusals) -> None:
        """Record why no node suits a pod of this kind."""
        if len(self._known) >= _MAX_KINDS:
            del self._known[next(iter(self._known))]
        self._known[kind] = refusals

    def is_hopeless(self, kind: Hashable) -> bool:
        """Return whether it is known that evictions do not help a pod of this kind and priority."""
        return kind in self._hopeless

    def add_hopeless(self, kind: Hashable) -> None:
        """Record that no eviction helps a pod of this kind and priority."""
        if len(self._hopeless) >= _MAX_KINDS:
            self._hopeless.clear()
        self._hopeless.add(kind)

    def forget_hopeless(self) -> None:
        """Forget for which pods no eviction helps, because the users of a claim have changed."""
        self._hopeless.clear()

    def forget_all(self) -> None:
        """Forget all refusals, because the cluster has changed."""
        self._known.clear()
        self._hopeless.clear()
