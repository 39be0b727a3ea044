"""Does a device match a selector, and what does an expression give? The search asks a provider, not CEL."""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from dradriver.allocator.supply.pools import PooledDevice
from dradriver.model.resource.device import AttributeValue

__all__ = ["Deriver", "Matcher", "SelectorProvider"]

Matcher: TypeAlias = Callable[[PooledDevice], bool]
"""Whether a device matches; raises `cel.errors.EvaluationError` when the selector fails on it."""

Deriver: TypeAlias = Callable[[PooledDevice], AttributeValue]
"""The value of a derived attribute; raises `cel.errors.EvaluationError` when the expression fails."""


class SelectorProvider(Protocol):
    """What the allocator must be told about selectors."""

    def compile(self, expression: str) -> Matcher:
        """The selector of this expression. Called once per request; matching is called per device.

        Raises:
            CompileError: the expression is not a selector.
        """

    def derive(self, expression: str) -> Deriver:
        """The derived attribute of this expression (KEP-6080).

        Raises:
            CompileError: the expression gives no attribute.
        """

    def reads(self, expression: str, *, derives: bool = False) -> frozenset[str] | None:
        """The names, without domains, of the attributes on which the answer depends; None: possibly all.

        Args:
            expression: of a selector, or with `derives` of a derived attribute.
            derives: which of the two it is.
        """
