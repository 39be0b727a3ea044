"""Bounds the work of an expression without loops, for all devices that are not unusually large."""

from typing import Final

from dradriver.cel.compile.syntax import CallExpression, SyntaxNode, parts
from dradriver.cel.evaluate import steps
from dradriver.cel.evaluate.cost import LIMIT, pattern_cost, text_cost
from dradriver.cel.evaluate.regex import pattern_size, pattern_steps

__all__ = ["MAX_DEVICE_SIZE", "estimate_steps", "is_bounded"]

MAX_DEVICE_SIZE: Final = 256
"""Maximum size of a text, list or map in a device. Up to this size, costs are bounded at compile time."""

_MAX_HEIGHT: Final = 24


def is_bounded(order: list[SyntaxNode]) -> bool:
    """Return whether cost and steps stay below their limits on each device of at most `MAX_DEVICE_SIZE`.

    The bound is valid only for the functions that the fast path supports. The height of the tree is limited
    too, because Python's own compiler recurses.

    Args:
        order: all nodes of a checked and folded tree, each after its parts.
    """
    return _height(order) <= _MAX_HEIGHT and _max_cost(order) <= LIMIT and _max_steps(order) <= steps.LIMIT


def estimate_steps(order: list[SyntaxNode]) -> int:
    """Return the steps of the fast path of a checked and folded tree, whatever the device is.

    Searches in texts count with their maximum. Other nodes count with about the mean, because their steps are
    an upper bound for the machine.
    """
    return sum(_max_steps([node]) // (1 if _searches(node) else _NODE_STEPS) for node in order)


def _searches(node: SyntaxNode) -> bool:
    return isinstance(node, CallExpression) and node.name in {"matches", "contains"}


def _height(order: list[SyntaxNode]) -> int:
    """Return the height of the tree."""
    heights: dict[int, int] = {}
    for node in order:
        heights[id(node)] = 1 + max((heights.get(id(part), 0) for part in parts(node)), default=0)
    return max(heights.values())


def _max_steps(order: list[SyntaxNode]) -> int:
    """Return the maximum number of steps for a device of at most `MAX_DEVICE_SIZE`."""
    total = 0
    for node in order:
        longest = max(MAX_DEVICE_SIZE, *(_length(part) for part in parts(node)), 0)
        if isinstance(node, CallExpression) and node.name == "matches":
            pattern = node.args[1].value
            total += pattern_steps(pattern_size(pattern) if isinstance(pattern, str) else 0, longest)
        elif isinstance(node, CallExpression) and node.name == "contains":
            total += steps.search_steps(longest, longest)
        elif isinstance(node, CallExpression) and node.name in _TEXT_READERS:
            total += _NODE_STEPS + longest
        elif isinstance(node, CallExpression) and _reads_elements(node):
            total += _NODE_STEPS + _ELEMENT_STEPS * longest
        else:
            total += _NODE_STEPS
    return total


def _reads_elements(node: CallExpression) -> bool:
    """Return whether a call may read each element of a list."""
    if node.name in {"_==_", "_!=_"}:
        return not any(arg.constant and not isinstance(arg.value, tuple | dict) for arg in node.args)
    return node.name == "includes"


_NODE_STEPS: Final = 50
"""Upper bound on the steps of a node whose work does not depend on sizes."""

_ELEMENT_STEPS: Final = 10
_TEXT_READERS: Final = frozenset({
    "lowerAscii", "upperAscii", "startsWith", "endsWith", "quantity", "semver", "isSemver", "isQuantity",
})  # fmt: skip
"""Functions that read a text."""


def _max_cost(order: list[SyntaxNode]) -> int:
    """Return the maximum cost for a device of at most `MAX_DEVICE_SIZE`."""
    total = 0
    for node in order:
        longest = max(MAX_DEVICE_SIZE, *(_length(part) for part in parts(node)), 0)
        if isinstance(node, CallExpression) and node.name == "matches":
            total += pattern_cost(longest, longest)
        elif isinstance(node, CallExpression) and node.name == "contains":
            total += text_cost(longest) ** 2
        else:
            total += 30 + longest
    return total


def _length(node: SyntaxNode) -> int:
    return len(node.value) if isinstance(node.value, str | bytes | tuple) else 0
