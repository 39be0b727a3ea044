"""The cost of evaluation, so that one selector can't block an allocator: CEL's model with Kubernetes' limit.

Every field, name and call costs 1, a list literal 10, and a map literal 30. A text costs a tenth of its length,
rounded up. Source: cel-go's runtime cost and k8s.io/apiserver's estimator; the limit is `resource.k8s.io`
CELSelectorExpressionMaxCost.
"""

import math
from typing import Final

from dradriver.cel.compile.functions import Cost
from dradriver.cel.evaluate.errors import AbortError
from dradriver.cel.evaluate.values import size_of

__all__ = [
    "LIMIT",
    "LIST",
    "MAP",
    "MAX_LENGTH",
    "PRICED_BY_OVERLOAD",
    "by_sizes",
    "double_first",
    "double_result",
    "expression_size",
    "half_product",
    "listing",
    "of_first",
    "of_second",
    "regex",
    "self_compare",
    "smaller",
    "tenth",
    "traversal",
    "zero",
]

LIMIT: Final = 1_000_000
"""Maximum cost of one evaluation (CELSelectorExpressionMaxCost)."""

MAX_LENGTH: Final = 10 * 1024
"""Maximum size of an expression in bytes (CELSelectorExpressionMaxLength)."""

PRICED_BY_OVERLOAD: Final = frozenset(
    {"_+_", "_<_", "_<=_", "_>_", "_>=_", "_in_", "sort", "@sort_by", "string", "bytes"}
)
"""Functions whose cost is known only when the types of the arguments are known."""

LIST: Final = 10
MAP: Final = 30


def tenth(size: int) -> int:
    """Return the cost of reading a text of `size` once."""
    return math.ceil(size * 0.1)


def zero(args: list[object], result: object) -> int:  # noqa: ARG001 - the shape of every cost function
    """Return 0: the call is free."""
    return 0


def of_first(args: list[object], result: object) -> int:  # noqa: ARG001
    """Return the cost of reading the first argument once."""
    return tenth(size_of(args[0]))


def double_first(args: list[object], result: object) -> int:  # noqa: ARG001
    """Return the cost of reading the first argument and writing as much."""
    return math.ceil(size_of(args[0]) * 2 * 0.1)


def double_result(args: list[object], result: object) -> int:  # noqa: ARG001
    """Return the cost of writing the result and reading as much."""
    return math.ceil(size_of(result) * 2 * 0.1)


def of_second(args: list[object], result: object) -> int:  # noqa: ARG001
    """Return the cost of reading the second argument once."""
    return tenth(size_of(args[1]))


def by_sizes(args: list[object], result: object) -> int:  # noqa: ARG001
    """Return the cost of copying both arguments."""
    return tenth(size_of(args[0]) + size_of(args[1]))


def smaller(args: list[object], result: object) -> int:  # noqa: ARG001
    """Return the cost of comparing two values, up to the size of the smaller one."""
    return tenth(min(size_of(args[0]), size_of(args[1])))


def half_product(args: list[object], result: object) -> int:  # noqa: ARG001
    """Return the cost of searching one text in another."""
    return tenth(size_of(args[0])) * tenth(size_of(args[1]))


def regex(args: list[object], result: object) -> int:  # noqa: ARG001
    """Return the cost of matching a text with a pattern.

    The model assumes one expression for every four characters of the pattern.
    """
    return expression_size(size_of(args[0]), size_of(args[1]))


def expression_size(text: int, pattern: int) -> int:
    """Return the cost of matching a text of one length with a pattern of another."""
    return tenth(1 + text) * -(-pattern // 4)


def traversal(args: list[object], result: object) -> int:  # noqa: ARG001
    """Return the cost of reading each element of a list once, or a text once."""
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


def listing(args: list[object], result: object) -> int:  # noqa: ARG001
    """Return the cost of making a list."""
    return size_of(result) + 1 + LIST


def self_compare(which: int) -> Cost:
    """Return a cost function: compare every element of the list in argument `which` with every other.

    Kubernetes computes this cost even if the argument is an error, and then ends the evaluation. So this
    function raises `AbortError` in that case.
    """

    def cost(args: list[object], result: object) -> int:  # noqa: ARG001
        items = args[which]
        if not isinstance(items, tuple | list):
            raise AbortError(
                "an error in what is sorted or made distinct ends the evaluation", "test for it before"
            )
        size = size_of(items)
        textual = size > 0 and isinstance(items[0], str | bytes)
        return int(size * size * (2.1 if textual else 2.0)) + 1 + LIST

    return cost
