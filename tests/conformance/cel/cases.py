"""Devices and cases of the CEL fixtures: the JSON of resource.k8s.io with its selectors."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from dradriver.cel import CompileError, EvaluationError, Selector, SelectorDevice
from dradriver.model.quantity import Quantity
from dradriver.model.resource.device import AttributeValue, Version

CASES: Final = Path(__file__).with_name("fixtures")

JsonDevice = Mapping[str, Any]


def selector_device(device: JsonDevice) -> SelectorDevice:
    """Return the device that a fixture describes."""
    return SelectorDevice(
        device.get("driver", ""),
        {name: _value(attribute) for name, attribute in device.get("attributes", {}).items()},
        {name: Quantity.parse(value) for name, value in device.get("capacity", {}).items()},
        bool(device.get("allowMultipleAllocations")),
    )


def _value(attribute: Mapping[str, Any]) -> AttributeValue:
    ((kind, value),) = attribute.items()
    convert: Callable[[Any], AttributeValue] = _KINDS.get(kind, lambda plain: plain)
    return convert(value)


_KINDS: Final[Mapping[str, Callable[[Any], AttributeValue]]] = {
    "version": Version,
    "versions": lambda texts: tuple(map(Version, texts)),
    "ints": tuple,
    "bools": tuple,
    "strings": tuple,
}


def verdict(expression: str, device: SelectorDevice) -> tuple[str, int | None]:
    """Return our verdict: `true`, `false`, `compile` or `evaluate`, and the cost of an evaluation."""
    try:
        selector = Selector(expression)
    except CompileError:
        return "compile", None
    try:
        exact, cost, _ = selector.evaluate(device)
    except EvaluationError:
        assert _fails(selector, device), "the fast path gives a verdict where the machine fails"
        return "evaluate", None
    assert selector.matches(device) is exact, "the fast path and the machine differ"
    return str(exact).lower(), cost


def _fails(selector: Selector, device: SelectorDevice) -> bool:
    try:
        selector.matches(device)
    except EvaluationError:
        return True
    return False


def load(name: str) -> Any:
    """Return the content of one fixture file."""
    return json.loads((CASES / name).read_text(encoding="utf-8"))
