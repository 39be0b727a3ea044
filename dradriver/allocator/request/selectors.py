"""The protocol for selectors. The search uses a provider and does not depend on how selectors are evaluated."""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from dradriver.allocator.meter import Meter
from dradriver.allocator.supply.pools import PooledDevice
from dradriver.cel import Conjunct
from dradriver.model.resource.device import AttributeValue

__all__ = ["Deriver", "Matcher", "SelectorProvider"]

Matcher: TypeAlias = Callable[[PooledDevice, Meter], bool]
"""Returns whether a device matches.

The meter counts the evaluation, even if its result is cached. The function raises
`cel.evaluate.errors.EvaluationError` if the evaluation fails.
"""

Deriver: TypeAlias = Callable[[PooledDevice, Meter], AttributeValue]
"""Returns the value of a derived attribute.

The meter counts the evaluation, even if its result is cached. The function raises
`cel.evaluate.errors.EvaluationError` if the expression fails.
"""


class SelectorProvider(Protocol):
    """Compiles the expressions of claims for the allocator."""

    def compile(self, expression: str, meter: Meter) -> Matcher:
        """Return the matcher of this expression.

        The allocator calls `compile` once for each request, and the returned matcher once for each device.

        Args:
            expression: the `cel.expression` of a device selector.
            meter: counts the work.

        Raises:
            CompileError: the expression is not a selector.
        """

    def derive(self, expression: str, meter: Meter) -> Deriver:
        """Return the function that computes a derived attribute from this expression.

        Args:
            expression: the expression of a `DeviceDerivedAttribute`.
            meter: counts the work.

        Source: KEP-6080.

        Raises:
            CompileError: the expression does not compute an attribute.
        """

    def reads(self, expression: str, *, derives: bool = False) -> frozenset[str] | None:
        """Return the names, without domains, of the attributes whose values are read; None: possibly all.

        The result on a device depends only on these values, on the names of the device's attributes, on its
        driver, on `allowMultipleAllocations` and, if `reads_capacity`, on its capacities.

        Args:
            expression: the expression of a selector or of a derived attribute.
            derives: True for a derived attribute, False for a selector.

        Raises:
            CompileError: the expression is invalid.
        """

    def reads_capacity(self, expression: str, *, derives: bool = False) -> bool:
        """Return whether the expression may read a capacity.

        Args:
            expression: the expression of a selector or of a derived attribute.
            derives: True for a derived attribute, False for a selector.

        Raises:
            CompileError: the expression is invalid.
        """

    def conjuncts(self, expression: str) -> tuple[Conjunct, ...] | None:
        """Return the parts that a selector joins by `&&`; None if they can't replace the selector.

        Args:
            expression: the `cel.expression` of a device selector.

        Raises:
            CompileError: the expression is not a selector.
        """
