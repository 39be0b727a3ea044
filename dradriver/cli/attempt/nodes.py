"""Names for groups of nodes that have the same result."""

import re
from collections.abc import Sequence
from typing import Final

__all__ = ["NODE", "anonymous", "named_nodes"]

NODE: Final = "<node>"
"""Placeholder for the name of each node of a group."""

_NAMED: Final = 4


def anonymous(text: str, node: str) -> str:
    """Return the text without the node's name, also in pool names, so that texts of similar nodes are equal."""
    return re.sub(rf"(?<![A-Za-z0-9]){re.escape(node)}(?![A-Za-z0-9])", NODE, text)


def named_nodes(nodes: Sequence[str]) -> str:
    """Return `node-1, node-2`, or `9 nodes (node-1, node-2, node-3, node-4 and 5 more)`."""
    if len(nodes) <= _NAMED:
        return ", ".join(nodes)
    return f"{len(nodes)} nodes ({', '.join(nodes[:_NAMED])} and {len(nodes) - _NAMED} more)"
