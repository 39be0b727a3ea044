"""Hides what a visitor may not list."""

import re
from dataclasses import dataclass, replace
from typing import Final

from dradriver.overview import Card, NodeOverview, Overview, RecentChange, Waiting

__all__ = [
    "EVERYTHING",
    "HIDDEN",
    "Visibility",
    "show_card",
    "show_changes",
    "show_node",
    "show_text",
    "show_waiting",
]

HIDDEN: Final = "(hidden)"
"""Stands for the name of an object that the visitor may not list."""
_REF: Final = re.compile(r"(?<![\w./-])([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)/[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?")
"""Text that can be `namespace/name`. The name of a namespace has no dots."""


@dataclass(frozen=True, slots=True)
class Visibility:
    """What a visitor may list.

    Attributes:
        claims, pods: the namespaces whose claims and pods the visitor may list; None: all namespaces.
        nodes: whether the visitor may list nodes.
    """

    claims: frozenset[str] | None
    pods: frozenset[str] | None
    nodes: bool

    @property
    def is_complete(self) -> bool:
        """Return whether nothing is hidden."""
        return self.claims is None and self.pods is None and self.nodes

    def shows(self, kind: str, ref: str) -> bool:
        """Return whether the visitor may list an object.

        Args:
            kind: `Pod` or `ResourceClaim`.
            ref: `namespace/name` of the object.
        """
        namespaces = self.pods if kind == "Pod" else self.claims
        return namespaces is None or ref.partition("/")[0] in namespaces


EVERYTHING: Final = Visibility(None, None, nodes=True)


def show_node(node: NodeOverview, visible: Visibility) -> NodeOverview:
    """Return a node as a visitor may see it. Without the right to list nodes, its state and labels are hidden.

    Args:
        node: the node.
        visible: the visitor's rights.
    """
    if visible.is_complete:
        return node
    cards = tuple(show_card(card, visible) for card in node.cards)
    if visible.nodes:
        return replace(node, cards=cards)
    return replace(node, cards=cards, is_ready=True, labels={})


def show_card(card: Card, visible: Visibility) -> Card:
    """Return a card with the names of the claims and pods that a visitor may list.

    Args:
        card: the card.
        visible: the visitor's rights.
    """
    if visible.is_complete:
        return card
    listed = tuple(
        replace(
            device,
            claims=tuple(each if visible.shows("ResourceClaim", each) else HIDDEN for each in device.claims),
            pods=tuple(each for each in device.pods if visible.shows("Pod", each)),
        )
        for device in card.listed
    )
    return replace(card, listed=listed)


def show_waiting(overview: Overview, visible: Visibility) -> tuple[Waiting, ...]:
    """Return the pods and claims that wait and that a visitor may list.

    Args:
        overview: the cluster.
        visible: the visitor's rights.
    """
    return tuple(
        replace(each, reason=show_text(each.reason, visible))
        for each in overview.waiting
        if visible.shows(each.kind, each.ref)
    )


def show_changes(overview: Overview, visible: Visibility) -> tuple[RecentChange, ...]:
    """Return the recent changes, without the names that are hidden.

    Args:
        overview: the cluster.
        visible: the visitor's rights.
    """
    return tuple(replace(each, text=show_text(each.text, visible)) for each in overview.changes)


def show_text(text: str, visible: Visibility, keep: str = "") -> str:
    """Return a text in which each `namespace/name` that may be hidden is replaced.

    The text does not tell claims from pods, so a name is shown only if both may be listed in the namespace. The
    names of other objects that look like `namespace/name` are replaced too.

    Args:
        text: the text.
        visible: the visitor's rights.
        keep: `namespace/name` of an object that is shown.
    """
    if visible.claims is None and visible.pods is None:
        return text

    def replace_ref(found: re.Match[str]) -> str:
        ref = found[0]
        is_shown = visible.shows("Pod", ref) and visible.shows("ResourceClaim", ref)
        return ref if is_shown or ref == keep else HIDDEN

    return _REF.sub(replace_ref, text)
