"""The values that the page draws, as JSON. Keys are short where a cluster has them many times."""

from collections.abc import Mapping, Sequence
from typing import Final

from dradriver.model.encoding.codec import rfc3339
from dradriver.monitor.dashboard.visibility import Visibility, show_card, show_changes, show_node, show_waiting
from dradriver.overview import Card, NodeOverview, Overview, Reach
from dradriver.overview.drawing.marks import DeviceNodes, mark_devices
from dradriver.overview.drawing.svg import draw_card

__all__ = ["card_details", "card_value", "lists_value", "node_value", "reach_value"]

_CHANGES_SHOWN: Final = 50


def node_value(node: NodeOverview, visible: Visibility) -> dict[str, object]:
    """Return a node as a visitor may see it.

    Args:
        node: the node.
        visible: the visitor's rights.
    """
    shown = show_node(node, visible)
    return {
        "name": shown.name,
        "ready": shown.is_ready,
        "labels": dict(shown.labels),
        "cards": [card_value(card, 1) for card in shown.cards],
    }


def reach_value(reach: Reach, visible: Visibility) -> dict[str, object]:
    """Return a pool that several nodes reach.

    Args:
        reach: the pool.
        visible: the visitor's rights.
    """
    return {
        "driver": reach.driver,
        "pool": reach.pool,
        "nodes": list(reach.nodes),
        "everywhere": reach.is_everywhere,
        "cards": [
            card_value(show_card(card, visible), device_nodes=reach.device_nodes) for card in reach.cards
        ],
    }


def card_value(
    card: Card, max_lanes: int | None = None, device_nodes: DeviceNodes | None = None
) -> dict[str, object]:
    """Return a card. Each device in use has a letter and a color, which are the same in all drawings.

    Args:
        card: the card.
        max_lanes: number of lanes, the most important ones first; None: all.
        device_nodes: `Reach.device_nodes` of a pool that several nodes reach.
    """
    return {
        "driver": card.driver,
        "pool": card.pool,
        "name": card.name,
        "product": card.product,
        "total": card.devices,
        "fits": len(card.fitting),
        "lanes": [
            {
                "name": lane.name,
                "cells": lane.cells,
                "total": lane.total,
                "used": lane.used,
                "parts": [(each.device, round(each.start, 5), round(each.end, 5)) for each in lane.segments],
            }
            for lane in card.lanes[:max_lanes]
        ],
        "devices": [
            {
                "name": mark.device.name,
                "letter": mark.letter,
                "color": mark.color,
                "bad": mark.is_problem,
                "claims": list(mark.device.claims),
                "users": list(mark.users),
                "problems": list(mark.problems),
            }
            for mark in mark_devices(card, device_nodes)
        ],
    }


def card_details(
    cards: Sequence[Card], visible: Visibility, device_nodes: DeviceNodes | None = None
) -> list[dict[str, object]]:
    """Return the drawings of cards with all lanes, and the names of all devices that still fit.

    Args:
        cards: the cards of a node or of a pool.
        visible: the visitor's rights.
        device_nodes: `Reach.device_nodes` of a pool that several nodes reach.
    """
    return [
        {
            **card_value(card, device_nodes=device_nodes),
            "fitting": list(card.fitting),
            "svg": draw_card(card, device_nodes=device_nodes),
        }
        for card in (show_card(each, visible) for each in cards)
    ]


def lists_value(overview: Overview, visible: Visibility) -> Mapping[str, object]:
    """Return what waits, what is broken, and what changed.

    Args:
        overview: the cluster.
        visible: the visitor's rights.
    """
    return {
        "waiting": [
            {
                "kind": each.kind,
                "ref": each.ref,
                "since": rfc3339(each.since) if each.since is not None else "",
                "reason": each.reason,
                "node": each.node,
            }
            for each in show_waiting(overview, visible)
        ],
        "problems": [
            {"driver": each.driver, "pool": each.pool, "node": each.node, "problem": each.problem}
            for each in overview.problems
        ],
        "changes": [
            {"at": rfc3339(each.at), "text": each.text, "node": each.node, "bad": each.is_problem}
            for each in show_changes(overview, visible)[:_CHANGES_SHOWN]
        ],
    }
