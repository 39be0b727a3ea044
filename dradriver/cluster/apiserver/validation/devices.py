"""Rules that claims, classes and slices share: selectors, configuration, taints, binding conditions."""

import json
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from dradriver.cluster.apiserver.formats.values import JsonValue, Object
from dradriver.cluster.apiserver.validation.field import (
    Causes,
    check_each,
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
)
from dradriver.cluster.apiserver.validation.names import (
    check_driver_of_claim,
    check_label_name,
    check_label_value,
    to_causes,
)
from dradriver.cluster.apiserver.validation.nodeselector import check_taint_effect

CEL_LIMIT = 10 * 1024
OPAQUE_LIMIT = 10 * 1024
SELECTORS_LIMIT = 32
CONFIG_LIMIT = 32

CelCheck: TypeAlias = Callable[[str], str | None]
"""Returns the reason to reject a CEL expression, or None."""


def check_selectors(items: list[Object] | None, path: str, cel_check: CelCheck | None) -> Causes:
    """Check a list of device selectors. Without a CEL check, only lengths are checked."""

    def check(selector: Object, at: str) -> Causes:
        cel = selector.get("cel")
        if cel is None:
            return [required(f"{at}.cel")]
        return _check_expression(cel.get("expression", ""), f"{at}.cel.expression", cel_check)

    return check_each(items, SELECTORS_LIMIT, check, path)


def _check_expression(expression: str, path: str, cel_check: CelCheck | None) -> Causes:
    if len(expression.encode()) > CEL_LIMIT:
        return [too_long(path, CEL_LIMIT)]
    refusal = cel_check(expression) if cel_check is not None else None
    return [invalid(path, expression, refusal)] if refusal else []


def check_configuration(config: Object, path: str, *, stored: bool = False) -> Causes:
    """Check one configuration entry. For stored parameters, the size is not checked."""
    opaque = config.get("opaque")
    if opaque is None:
        return [required(f"{path}.opaque")]
    causes = check_driver_of_claim(opaque.get("driver", ""), f"{path}.opaque.driver")
    return causes + check_raw_object(
        opaque.get("parameters"), f"{path}.opaque.parameters", OPAQUE_LIMIT, stored=stored
    )


def check_raw_object(value: JsonValue, path: str, limit: int, *, stored: bool = False) -> Causes:
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


def check_taint(value: Object, path: str) -> Causes:
    """Check a device taint."""
    causes = check_label_name(value.get("key", ""), f"{path}.key")
    if value.get("value"):
        causes += to_causes(check_label_value, value["value"], f"{path}.value")
    return causes + check_taint_effect(value.get("effect", ""), f"{path}.effect", optional=False)


def check_toleration(value: Object, path: str) -> Causes:
    """Check a device toleration."""
    causes = check_label_name(value["key"], f"{path}.key") if value.get("key") else []
    operator, text = value.get("operator", ""), value.get("value", "")
    if operator == "Exists":
        if text:
            causes.append(invalid(f"{path}.value", text, "must be empty for operator `Exists`"))
    elif operator == "Equal":
        causes += to_causes(check_label_value, text, f"{path}.value")
    elif not operator:
        causes.append(required(f"{path}.operator"))
    else:
        causes.append(not_supported(f"{path}.operator", operator, ("Equal", "Exists")))
    return causes + check_taint_effect(value.get("effect", ""), f"{path}.effect", optional=True)


def check_binding_conditions(owner: Object, path: str) -> Causes:
    """Check binding and failure conditions: at most 4 of each, both or neither, and no duplicates."""
    good, bad = owner.get("bindingConditions") or [], owner.get("bindingFailureConditions") or []
    causes = check_each(good, 4, check_label_name, f"{path}.bindingConditions")
    causes += check_each(bad, 4, check_label_name, f"{path}.bindingFailureConditions")
    causes += _find_duplicates(good, f"{path}.bindingConditions") + _find_duplicates(
        bad, f"{path}.bindingFailureConditions"
    )
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


def _find_duplicates(items: list[str], path: str) -> Causes:
    return [duplicate(f"{path}[{index}]", item) for index, item in enumerate(items) if item in items[:index]]


_OPERATIONS = ("*", "NodePrepareResources", "NodeUnprepareResources")


def check_skip_node_operations(operations: list[str] | None, path: str) -> Causes:
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
    return causes + _find_duplicates(operations, path)
