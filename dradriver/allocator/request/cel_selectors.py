"""Evaluates selectors with CEL. All uses outside of tests take this provider."""

from collections.abc import Callable
from typing import TypeVar, cast

from dradriver.allocator.request.selectors import Deriver, Matcher
from dradriver.allocator.supply.pools import PooledDevice
from dradriver.cel import SelectorDevice, compile_derivation, compile_selector
from dradriver.cel.evaluate.errors import EvaluationError
from dradriver.model.resource.device import AttributeValue

__all__ = ["CelSelectors", "selector_view"]

T = TypeVar("T")

_MEMO_LIMIT = 64
_VIEW = "device"
"""Memo key of the device as selectors see it.

The verdict of an expression is never stored under this key: the expression `device` gives no bool, so it does
not compile.
"""
_DERIVED = "derived: "
"""Prefix that separates the values of derived attributes from the verdicts of selectors in the memo."""


class CelSelectors:
    """Selectors in CEL, as in Kubernetes. Verdicts are cached on the devices between calls."""

    def compile(self, expression: str) -> Matcher:
        """Return the matcher of a CEL expression.

        Raises:
            CompileError: the expression is not valid CEL for devices.
        """
        selector = compile_selector(expression)

        def matches(device: PooledDevice) -> bool:
            verdict = device.memo.get(expression)
            if verdict is True or verdict is False:
                return verdict
            return cast(bool, _kept(device, expression, selector.matches))

        return matches

    def derive(self, expression: str) -> Deriver:
        """Return the function that computes a derived attribute from a CEL expression.

        Raises:
            CompileError: the expression gives no attribute of devices.
        """
        derivation = compile_derivation(expression)

        def value(device: PooledDevice) -> AttributeValue:
            return cast(AttributeValue, _kept(device, _DERIVED + expression, derivation.of))

        return value

    def reads(self, expression: str, *, derives: bool = False) -> frozenset[str] | None:
        """Return the attributes that the compiled expression reads; None: possibly all."""
        return compile_derivation(expression).reads if derives else compile_selector(expression).reads


def _kept(device: PooledDevice, key: str, compute: Callable[[SelectorDevice], object]) -> object:
    """Return the cached value of `key`, or compute and cache it.

    Raises:
        EvaluationError: the computation fails now or failed before.
    """
    memo = device.memo
    if key not in memo:
        if len(memo) >= _MEMO_LIMIT:
            memo.clear()
        try:
            memo[key] = compute(selector_view(device))
        except EvaluationError as error:
            memo[key] = error
    found = memo[key]
    if isinstance(found, EvaluationError):
        raise found
    return found


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
