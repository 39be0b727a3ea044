"""Rules of node selectors in slices, devices and allocations."""

from dradriver.cluster.apiserver.formats.values import Object
from dradriver.cluster.apiserver.validation.field import (
    Causes,
    check_each,
    forbidden,
    invalid,
    not_supported,
    required,
)
from dradriver.cluster.apiserver.validation.names import (
    check_label_name,
    check_label_value,
    check_subdomain,
    to_causes,
)

_OPERATORS = ("DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn")


def check_node_selector(selector: Object, path: str) -> Causes:
    """Check a node selector."""
    terms = selector.get("nodeSelectorTerms") or []
    if not terms:
        return [required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")]
    return check_each(terms, -1, _check_term, f"{path}.nodeSelectorTerms")


def _check_term(term: Object, path: str) -> Causes:
    return check_each(
        term.get("matchExpressions"), -1, _check_expression, f"{path}.matchExpressions"
    ) + check_each(term.get("matchFields"), -1, _check_match_field, f"{path}.matchFields")


def _check_expression(requirement: Object, path: str) -> Causes:
    causes: Causes = []
    operator, values = requirement.get("operator", ""), requirement.get("values") or []
    if operator in {"In", "NotIn"} and not values:
        causes.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in {"Exists", "DoesNotExist"} and values:
        causes.append(
            forbidden(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
        )
    elif operator in {"Gt", "Lt"} and len(values) != 1:
        causes.append(
            required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
        )
    elif operator not in _OPERATORS:
        causes.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    causes += check_label_name(requirement.get("key", ""), f"{path}.key")
    for index, value in enumerate(values):
        causes += to_causes(check_label_value, value, f"{path}.values[{index}]")
    return causes


def _check_match_field(requirement: Object, path: str) -> Causes:
    causes: Causes = []
    operator, values = requirement.get("operator", ""), requirement.get("values") or []
    if operator not in {"In", "NotIn"}:
        causes.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    elif len(values) != 1:
        causes.append(
            required(
                f"{path}.values",
                "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
            )
        )
    if requirement.get("key") != "metadata.name":
        causes.append(invalid(f"{path}.key", requirement.get("key", ""), "not a valid field selector key"))
        return causes
    return causes + [
        invalid(f"{path}.values[{index}]", value, problem)
        for index, value in enumerate(values)
        for problem in check_subdomain(value)
    ]


def check_node_name(name: str, path: str) -> Causes:
    """Check a node's name."""
    return [invalid(path, name, problem) for problem in check_subdomain(name)]


def check_taint_effect(effect: str, path: str, *, optional: bool) -> Causes:
    """Check the effect of a device taint or toleration."""
    if not effect:
        return [] if optional else [required(path)]
    if effect not in DEVICE_TAINT_EFFECTS:
        return [not_supported(path, effect, DEVICE_TAINT_EFFECTS)]
    return []


DEVICE_TAINT_EFFECTS = ("NoExecute", "NoSchedule", "None")
