"""The provider of every real use: CEL."""

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
"""The key of the device as selectors see it; no expression that compiles is kept under it: it gives no bool."""
_DERIVED = "derived: "
"""Tells what a derived attribute gave from what a selector did."""


class CelSelectors:
    """Selectors in CEL, as Kubernetes has them. Verdicts are kept on the devices from call to call."""

    def compile(self, expression: str) -> Matcher:
        """The compiled CEL expression.

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
        """The compiled CEL expression of a derived attribute.

        Raises:
            CompileError: the expression gives no attribute of devices.
        """
        derivation = compile_derivation(expression)

        def value(device: PooledDevice) -> AttributeValue:
            return cast(AttributeValue, _kept(device, _DERIVED + expression, derivation.of))

        return value

    def reads(self, expression: str, *, derives: bool = False) -> frozenset[str] | None:
        """The attributes that the compiled expression looks at; None: possibly all."""
        return compile_derivation(expression).reads if derives else compile_selector(expression).reads


def _kept(device: PooledDevice, key: str, compute: Callable[[SelectorDevice], object]) -> object:
    """What was found out of the device before, or is now."""
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
    """The device as selectors see it, made once: it costs more than most selectors."""
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
