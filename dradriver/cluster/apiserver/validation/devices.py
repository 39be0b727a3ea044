"""Rules that claims, classes and slices share: selectors, configuration, taints, binding conditions."""

import json
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from dradriver.cluster.apiserver.formats.values import JsonValue, Object
from dradriver.cluster.apiserver.validation.field import (
    Causes,
    duplicate,
    each,
    invalid,
    not_supported,
    required,
    too_long,
)
from dradriver.cluster.apiserver.validation.names import checked, driver_of_claim, label_name, label_value
from dradriver.cluster.apiserver.validation.nodeselector import taint_effect

CEL_LIMIT = 10 * 1024
OPAQUE_LIMIT = 10 * 1024
SELECTORS_LIMIT = 32
CONFIG_LIMIT = 32

CelCheck: TypeAlias = Callable[[str], str | None]
"""Returns the reason to reject a CEL expression, or None."""


def selectors(items: list[Object] | None, path: str, cel_check: CelCheck | None) -> Causes:
    """Check a list of device selectors. Without a CEL check, only lengths are checked."""

    def check(selector: Object, at: str) -> Causes:
        cel = selector.get("cel")
        if cel is None:
            return [required(f"{at}.cel")]
        return _expression(cel.get("expression", ""), f"{at}.cel.expression", cel_check)

    return each(items, SELECTORS_LIMIT, check, path)


def _expression(expression: str, path: str, cel_check: CelCheck | None) -> Causes:
    if len(expression.encode()) > CEL_LIMIT:
        return [too_long(path, CEL_LIMIT)]
    refusal = cel_check(expression) if cel_check is not None else None
    return [invalid(path, expression, refusal)] if refusal else []


def configuration(config: Object, path: str, *, stored: bool = False) -> Causes:
    """Check one configuration entry, except the size of stored parameters."""
    opaque = config.get("opaque")
    if opaque is None:
        return [required(f"{path}.opaque")]
    causes = driver_of_claim(opaque.get("driver", ""), f"{path}.opaque.driver")
    return causes + raw_object(
        opaque.get("parameters"), f"{path}.opaque.parameters", OPAQUE_LIMIT, stored=stored
    )


def raw_object(value: JsonValue, path: str, limit: int, *, stored: bool = False) -> Causes:
    """Check bytes that must be a JSON object."""
    kept = bytes(value) if isinstance(value, msgspec.Raw) else b""
    if not kept:
        return [required(path)]
    if not stored and len(kept) > limit:
        return [too_long(path, limit)]
    try:
        decoded = json.loads(kept)
    except ValueError as error:
        return [invalid(path, "<value omitted>", f"error parsing data as JSON: {error}")]
    if decoded is None:
        return [required(path)]
    return (
        [] if isinstance(decoded, dict) else [invalid(path, "<value omitted>", "must be a valid JSON object")]
    )


def taint(value: Object, path: str) -> Causes:
    """Check a device taint."""
    causes = label_name(value.get("key", ""), f"{path}.key")
    if value.get("value"):
        causes += checked(label_value, value["value"], f"{path}.value")
    return causes + taint_effect(value.get("effect", ""), f"{path}.effect", optional=False)


def toleration(value: Object, path: str) -> Causes:
    """Check a device toleration."""
    causes = label_name(value["key"], f"{path}.key") if value.get("key") else []
    operator, text = value.get("operator", ""), value.get("value", "")
    if operator == "Exists":
        if text:
            causes.append(invalid(f"{path}.value", text, "must be empty for operator `Exists`"))
    elif operator == "Equal":
        causes += checked(label_value, text, f"{path}.value")
    elif not operator:
        causes.append(required(f"{path}.operator"))
    else:
        causes.append(not_supported(f"{path}.operator", operator, ("Equal", "Exists")))
    return causes + taint_effect(value.get("effect", ""), f"{path}.effect", optional=True)


def binding_conditions(owner: Object, path: str) -> Causes:
    """Check binding and failure conditions: at most 4 each, none without the other, and no duplicates."""
    good, bad = owner.get("bindingConditions") or [], owner.get("bindingFailureConditions") or []
    causes = each(good, 4, label_name, f"{path}.bindingConditions")
    causes += each(bad, 4, label_name, f"{path}.bindingFailureConditions")
    causes += _repeated(good, f"{path}.bindingConditions") + _repeated(bad, f"{path}.bindingFailureConditions")
    for index, condition in enumerate(bad):
        if condition in good:
            detail = "bindingFailureConditions must not overlap with bindingConditions"
            causes.append(invalid(f"{path}.bindingFailureConditions[{index}]", condition, detail))
    if bad and not good:
        detail = "bindingConditions are required to use bindingFailureConditions"
        causes.append(invalid(f"{path}.bindingConditions", None, detail))
    if good and not bad:
        detail = "bindingFailureConditions are required to use bindingConditions"
        causes.append(invalid(f"{path}.bindingFailureConditions", None, detail))
    return causes


def _repeated(items: list[str], path: str) -> Causes:
    return [duplicate(f"{path}[{index}]", item) for index, item in enumerate(items) if item in items[:index]]


_OPERATIONS = ("*", "NodePrepareResources", "NodeUnprepareResources")


def skip_node_operations(operations: list[str] | None, path: str) -> Causes:
    """Check the node operations that may be skipped: prepare only together with unprepare."""
    operations = operations or []
    causes = [
        not_supported(f"{path}[{i}]", each, _OPERATIONS)
        for i, each in enumerate(operations)
        if each not in _OPERATIONS
    ]
    if "NodePrepareResources" in operations and not {"NodeUnprepareResources", "*"} & set(operations):
        detail = "NodePrepareResources cannot be skipped unless NodeUnprepareResources is also skipped"
        causes.append(invalid(path, operations, detail))
    return causes + _repeated(operations, path)
