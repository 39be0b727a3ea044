"""Computes the cost of evaluations by CEL's model. With Kubernetes' limit, no selector can block an allocator.

Every field, name and call costs 1, a list literal 10, and a map literal 30. Reading a text costs a tenth of its
length, rounded up. Source: cel-go's runtime cost, k8s.io/apiserver's estimator and, for the limit,
CELSelectorExpressionMaxCost of `resource.k8s.io`.
"""

import math
from typing import Final

from dradriver.cel.compile.functions import Cost
from dradriver.cel.evaluate.errors import AbortError
from dradriver.cel.evaluate.values import size_of

__all__ = [
    "COST_BY_OVERLOAD",
    "LIMIT",
    "LIST",
    "MAP",
    "MAX_LENGTH",
    "concat_cost",
    "double_first_cost",
    "double_result_cost",
    "first_cost",
    "list_cost",
    "no_cost",
    "pairwise_cost",
    "pattern_cost",
    "regex_cost",
    "search_cost",
    "second_cost",
    "smaller_cost",
    "text_cost",
    "traversal_cost",
]

LIMIT: Final = 1_000_000
"""Maximum cost of one evaluation (CELSelectorExpressionMaxCost)."""

MAX_LENGTH: Final = 10 * 1024
"""Maximum size of an expression in bytes (CELSelectorExpressionMaxLength)."""

COST_BY_OVERLOAD: Final = frozenset(
    {"_+_", "_<_", "_<=_", "_>_", "_>=_", "_in_", "sort", "@sort_by", "string", "bytes"}
)
"""Functions whose cost is known only when the types of the arguments are known."""

LIST: Final = 10
MAP: Final = 30


def text_cost(size: int) -> int:
    """Return the cost of reading a text of `size` once."""
    return math.ceil(size * 0.1)


def no_cost(args: list[object], result: object) -> int:  # noqa: ARG001 - the shape of every cost function
    """Return 0: the call is free."""
    return 0


def first_cost(args: list[object], result: object) -> int:  # noqa: ARG001
    """Return the cost of reading the first argument once."""
    return text_cost(size_of(args[0]))


def double_first_cost(args: list[object], result: object) -> int:  # noqa: ARG001
    """Return the cost of reading the first argument and writing a value of the same size."""
    return math.ceil(size_of(args[0]) * 2 * 0.1)


def double_result_cost(args: list[object], result: object) -> int:  # noqa: ARG001
    """Return the cost of reading a value of the size of the result, and writing the result."""
    return math.ceil(size_of(result) * 2 * 0.1)


def second_cost(args: list[object], result: object) -> int:  # noqa: ARG001
    """Return the cost of reading the second argument once."""
    return text_cost(size_of(args[1]))


def concat_cost(args: list[object], result: object) -> int:  # noqa: ARG001
    """Return the cost of copying both arguments."""
    return text_cost(size_of(args[0]) + size_of(args[1]))


def smaller_cost(args: list[object], result: object) -> int:  # noqa: ARG001
    """Return the cost of comparing two values, up to the size of the smaller one."""
    return text_cost(min(size_of(args[0]), size_of(args[1])))


def search_cost(args: list[object], result: object) -> int:  # noqa: ARG001
    """Return the cost of searching one text in another."""
    return text_cost(size_of(args[0])) * text_cost(size_of(args[1]))


def regex_cost(args: list[object], result: object) -> int:  # noqa: ARG001
    """Return the cost of matching a text with a pattern.

    CEL's cost model assumes one sub-expression for every four characters of the pattern.
    """
    return pattern_cost(size_of(args[0]), size_of(args[1]))


def pattern_cost(text: int, pattern: int) -> int:
    """Return the cost of matching a text with a pattern, given both lengths."""
    return text_cost(1 + text) * -(-pattern // 4)


def traversal_cost(args: list[object], result: object) -> int:  # noqa: ARG001
    """Return the cost of reading a text, or each element of a list, once."""
    total = steps = 0
    pending = [args[0]]
    while pending:
        item = pending.pop()
        steps += 1
        if steps > LIMIT:
            return LIMIT + 1
        if isinstance(item, str):
            total += int(len(item.encode(errors="replace")) * 0.1)
        elif isinstance(item, bytes):
            total += int(len(item) * 0.1)
        elif isinstance(item, tuple | list):
            pending.extend(item)
        else:
            total += 1
    return total


def list_cost(args: list[object], result: object) -> int:  # noqa: ARG001
    """Return the cost of making a list."""
    return size_of(result) + 1 + LIST


def pairwise_cost(which: int) -> Cost:
    """Return the cost function for comparing each element of the list argument `which` with all others.

    If the argument is an error, Kubernetes ends the evaluation while it computes this cost. So the cost
    function raises `AbortError` in this case.
    """

    def cost(args: list[object], result: object) -> int:  # noqa: ARG001
        items = args[which]
        if not isinstance(items, tuple | list):
            raise AbortError(
                "an error in the argument of sort(), sortBy() or distinct() ends the evaluation",
                "check for the error first",
            )
        size = size_of(items)
        textual = size > 0 and isinstance(items[0], str | bytes)
        return int(size * size * (2.1 if textual else 2.0)) + 1 + LIST

    return cost
