"""Texts about groups of nodes that have the same result."""

import re
from collections.abc import Sequence
from typing import Final

__all__ = ["NODE", "describe_nodes", "hide_node_name"]

NODE: Final = "<node>"
"""Placeholder for the name of each node of a group."""

_MAX_NAMES: Final = 4


def hide_node_name(text: str, node: str) -> str:
    """Return the text with `<node>` instead of the node's name, so that texts of similar nodes are equal.

    Args:
        text: the text. It can contain the node's name as a part of a pool name.
        node: name of the node.
    """
    return re.sub(rf"(?<![A-Za-z0-9]){re.escape(node)}(?![A-Za-z0-9])", NODE, text)


def describe_nodes(nodes: Sequence[str]) -> str:
    """Return `node-1, node-2`, or `9 nodes (node-1, node-2, node-3, node-4 and 5 more)`.

    Args:
        nodes: names of the nodes.
    """
    if len(nodes) <= _MAX_NAMES:
        return ", ".join(nodes)
    return f"{len(nodes)} nodes ({', '.join(nodes[:_MAX_NAMES])} and {len(nodes) - _MAX_NAMES} more)"
