"""Nodes that are told together."""

import re
from collections.abc import Sequence
from typing import Final

__all__ = ["NODE", "anonymous", "named_nodes"]

NODE: Final = "<node>"
"""Stands for the name of each of several nodes that are told together."""

_NAMED: Final = 4


def anonymous(text: str, node: str) -> str:
    """The text without the node's name, also in names of pools: equal for nodes that are alike."""
    return re.sub(rf"(?<![A-Za-z0-9]){re.escape(node)}(?![A-Za-z0-9])", NODE, text)


def named_nodes(nodes: Sequence[str]) -> str:
    """`node-1, node-2`, or `9 nodes (node-1, node-2, node-3, node-4 and 5 more)`."""
    if len(nodes) <= _NAMED:
        return ", ".join(nodes)
    return f"{len(nodes)} nodes ({', '.join(nodes[:_NAMED])} and {len(nodes) - _NAMED} more)"
