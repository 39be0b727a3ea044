"""Evaluates selectors with CEL. All code outside of tests uses this selector provider."""

from collections.abc import Callable
from typing import Final, NamedTuple, cast

from dradriver.allocator.meter import COMPILING, SELECTORS, Meter
from dradriver.allocator.request.selectors import Deriver, Matcher
from dradriver.allocator.supply.pools import PooledDevice
from dradriver.cel import (
    Conjunct,
    SelectorDevice,
    compile_derivation,
    compile_selector,
    split_conjuncts,
)
from dradriver.cel.evaluate.errors import EvaluationError
from dradriver.model.resource.device import AttributeValue

__all__ = ["CelSelectors", "selector_view"]

_MAX_MEMO = 64
_BASE_STEPS: Final = 4
"""Steps that an evaluation counts in addition to the steps of its expression."""
_VIEW = "device"
"""The key in `memo` of the `SelectorDevice` that selectors read.

No result of a selector is stored under this key, because the selector `device` does not compile: its type is
not bool.
"""
_DERIVED = "derived: "
"""Prefix of the keys in `memo` for derived attributes. The key of a selector is the expression itself."""


class _Result(NamedTuple):
    """The result of one evaluation.

    Attributes:
        value: the value, or the error.
        steps: the steps of the evaluation.
    """

    value: object
    steps: int


class CelSelectors:
    """Evaluates selectors in CEL, as Kubernetes does. The results are cached on the devices between calls."""

    def compile(self, expression: str, meter: Meter) -> Matcher:
        """Return the matcher of a CEL expression.

        Args:
            expression: the `cel.expression` of a device selector.
            meter: counts the work.

        Raises:
            CompileError: the expression is not valid CEL for devices.
            BudgetSpentError: the budget is spent.
        """
        is_new = meter.spend_once(COMPILING, expression, len(expression))
        selector = compile_selector(expression)
        if is_new:
            meter.spend(SELECTORS, selector.pattern_size)

        def matches(device: PooledDevice, meter: Meter) -> bool:
            return cast(bool, _get_or_compute(device, expression, selector.count_match, meter))

        return matches

    def derive(self, expression: str, meter: Meter) -> Deriver:
        """Return the function that computes a derived attribute from a CEL expression.

        Args:
            expression: the expression of a `DeviceDerivedAttribute`.
            meter: counts the work.

        Raises:
            CompileError: the expression is invalid, or its type is not a type of attributes.
            BudgetSpentError: the budget is spent.
        """
        is_new = meter.spend_once(COMPILING, _DERIVED + expression, len(expression))
        derivation = compile_derivation(expression)
        if is_new:
            meter.spend(SELECTORS, derivation.pattern_size)

        def value(device: PooledDevice, meter: Meter) -> AttributeValue:
            return cast(
                AttributeValue, _get_or_compute(device, _DERIVED + expression, derivation.compute, meter)
            )

        return value

    def reads(self, expression: str, *, derives: bool = False) -> frozenset[str] | None:
        """Return the names, without domains, of the attributes whose values are read; None: possibly all.

        Args:
            expression: the expression of a selector or of a derived attribute.
            derives: True for a derived attribute, False for a selector.

        Raises:
            CompileError: the expression is invalid.
        """
        return compile_derivation(expression).reads if derives else compile_selector(expression).reads

    def reads_capacity(self, expression: str, *, derives: bool = False) -> bool:
        """Return whether the expression may read a capacity.

        Args:
            expression: the expression of a selector or of a derived attribute.
            derives: True for a derived attribute, False for a selector.

        Raises:
            CompileError: the expression is invalid.
        """
        compiled = compile_derivation(expression) if derives else compile_selector(expression)
        return compiled.reads_capacity

    def conjuncts(self, expression: str) -> tuple[Conjunct, ...] | None:
        """Return the parts of a selector; see `dradriver.cel.split_conjuncts`.

        Args:
            expression: the `cel.expression` of a device selector.

        Raises:
            CompileError: the expression is not valid CEL for devices.
        """
        return split_conjuncts(expression)


def _get_or_compute(
    device: PooledDevice, key: str, compute: Callable[[SelectorDevice], tuple[object, int]], meter: Meter
) -> object:
    """Return the cached value of `key`, or compute and cache it. The meter counts both in the same way.

    Raises:
        EvaluationError: the computation failed, now or in an earlier call.
        BudgetSpentError: the budget is spent.
    """
    memo = device.memo
    known = memo.get(key)
    if not isinstance(known, _Result):
        if len(memo) >= _MAX_MEMO:
            memo.clear()
        try:
            known = _Result(*compute(selector_view(device)))
        except EvaluationError as error:
            known = _Result(error, error.steps)
        memo[key] = known
    meter.spend(SELECTORS, _BASE_STEPS + known.steps)
    if isinstance(known.value, EvaluationError):
        raise known.value
    return known.value


def selector_view(device: PooledDevice) -> SelectorDevice:
    """Return the device as selectors see it.

    The view is cached, because building it costs more than most selectors.
    """
    view = device.memo.get(_VIEW)
    if not isinstance(view, SelectorDevice):
        published = device.device
        view = device.memo[_VIEW] = SelectorDevice(
            device.id.driver,
            {name: attribute.value for name, attribute in published.attributes.items()},
            {name: capacity.value for name, capacity in published.capacity.items()},
            published.shareable,
        )
    return view
