"""The protocol for selectors. The search uses a provider and does not depend on CEL."""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from dradriver.allocator.supply.pools import PooledDevice
from dradriver.model.resource.device import AttributeValue

__all__ = ["Deriver", "Matcher", "SelectorProvider"]

Matcher: TypeAlias = Callable[[PooledDevice], bool]
"""Tells whether a device matches; raises `cel.evaluate.errors.EvaluationError` if the selector fails on it."""

Deriver: TypeAlias = Callable[[PooledDevice], AttributeValue]
"""Returns the value of a derived attribute.

It raises `cel.evaluate.errors.EvaluationError` if the expression fails.
"""


class SelectorProvider(Protocol):
    """Compiles the expressions of claims for the allocator."""

    def compile(self, expression: str) -> Matcher:
        """Return the matcher of this expression.

        The allocator calls `compile` once for each request and the matcher once for each device.

        Raises:
            CompileError: the expression is not a selector.
        """

    def derive(self, expression: str) -> Deriver:
        """Return the derived attribute of this expression (KEP-6080).

        Raises:
            CompileError: the expression gives no attribute.
        """

    def reads(self, expression: str, *, derives: bool = False) -> frozenset[str] | None:
        """Return the names, without domains, of the attributes on which the result depends; None: possibly all.

        Args:
            expression: the expression of a selector or of a derived attribute.
            derives: True for a derived attribute, False for a selector.
        """
