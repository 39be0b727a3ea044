"""Does a device match a selector? The search asks a provider, so that it need not know CEL."""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from dradriver.allocator.inventory import PooledDevice

__all__ = ["Matcher", "SelectorProvider"]

Matcher: TypeAlias = Callable[[PooledDevice], bool]
"""Whether a device matches; raises `cel.errors.EvaluationError` when the selector fails on it."""


class SelectorProvider(Protocol):
    """What the allocator must be told about selectors."""

    def compile(self, expression: str) -> Matcher:
        """The selector of this expression. Called once per request; matching is called per device.

        Raises:
            CompileError: the expression is not a selector.
        """
