"""Rules of device capacities that are shared between requests, and of node allocatable resources."""

from dradriver.cluster.apiserver.formats.quantity import NANO, parse_amount
from dradriver.cluster.apiserver.formats.values import Object
from dradriver.cluster.apiserver.validation.field import (
    Causes,
    duplicate,
    forbidden,
    invalid,
    not_found,
    required,
    too_many,
)

MAX_VALID_VALUES = 10
_INT64 = (2**63 - 1) * NANO
_NODE_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})


def check_capacity(value: Object, path: str, *, multiple: bool) -> Causes:
    """Check one capacity of a device."""
    policy = value.get("requestPolicy")
    if policy is None:
        return []
    if not multiple:
        return [forbidden(f"{path}.requestPolicy", "allowMultipleAllocations must be true")]
    return _check_policy(value["value"], policy, f"{path}.requestPolicy")


def _check_policy(most: str, policy: Object, path: str) -> Causes:
    values, span, default = policy.get("validValues") or [], policy.get("validRange"), policy.get("default")
    if values and span is not None:
        detail = (
            'exactly one policy can be specified, cannot specify "validValues" and '
            '"validRange" at the same time'
        )
        return [forbidden(path, detail)]
    if values:
        if default is None:
            return [required(f"{path}.default", "required when validValues is defined")]
        return _check_valid_values(default, most, values, f"{path}.validValues")
    if span is not None:
        if default is None:
            return [required(f"{path}.default", "required when validRange is defined")]
        return _check_valid_range(default, most, span, f"{path}.validRange")
    return []


def _check_valid_values(default: str, most: str, values: list[str], path: str) -> Causes:
    causes: Causes = []
    amounts = [parse_amount(value) for value in values]
    for index in range(1, len(amounts)):
        if amounts[index - 1] > amounts[index]:
            causes.append(
                invalid(f"{path}[{index}]", values[index], "values must be sorted in ascending order")
            )
    if len(values) > MAX_VALID_VALUES:
        return [*causes, too_many(path, len(values), MAX_VALID_VALUES)]
    for index, value in enumerate(values):
        if amounts[index] > parse_amount(most):
            causes.append(invalid(f"{path}[{index}]", value, f"option is larger than capacity value: {most}"))
    repeated = [index for index, value in enumerate(amounts) if value in amounts[:index]]
    causes += [duplicate(f"{path}[{index}]", values[index]) for index in repeated]
    if parse_amount(default) not in amounts:
        causes.append(invalid(path, default, "default value is not valid according to the requestPolicy"))
    return causes


def _check_valid_range(default: str, most: str, span: Object, path: str) -> Causes:
    least, highest, step = span.get("min"), span.get("max"), span.get("step")
    if least is None:
        return [required(f"{path}.min", "required when validRange is defined")]
    causes: Causes = []
    if parse_amount(least) > parse_amount(most):
        causes.append(invalid(f"{path}.min", least, f"min is larger than capacity value: {most}"))
    if parse_amount(default) < parse_amount(least):
        causes.append(invalid(f"{path}.default", default, f"default is less than min: {least}"))
    if highest is not None:
        if parse_amount(least) > parse_amount(highest):
            causes.append(invalid(f"{path}.max", least, f"min is larger than max: {highest}"))
        if parse_amount(highest) > parse_amount(most):
            causes.append(invalid(f"{path}.max", highest, f"max is larger than capacity value: {most}"))
        if parse_amount(default) > parse_amount(highest):
            causes.append(invalid(f"{path}.default", default, f"default is more than max: {highest}"))
    return causes + (_check_step(default, most, span, step, path) if step is not None else [])


def _check_step(default: str, most: str, span: Object, step: str, path: str) -> Causes:
    if parse_amount(step) <= 0:
        return [invalid(f"{path}.step", step, "must be greater than zero")]
    least, causes = parse_amount(span["min"]), Causes()
    if least + parse_amount(step) > parse_amount(most):
        causes.append(invalid(f"{path}.step", step, f"one step {step} is larger than capacity value: {most}"))
    bounds = {"default": default, "min": span["min"], "max": span.get("max"), "step": step}
    outside = [
        invalid(
            f"{path}.{name}",
            value,
            "must be greater than or equal to 0"
            if parse_amount(value) < 0
            else "must not be larger than 9223372036854775807",
        )
        for name, value in bounds.items()
        if value is not None and not 0 <= parse_amount(value) <= _INT64
    ]
    if outside:
        return causes + outside
    for value in filter(None, (default, span.get("max"))):
        if (parse_amount(value) - least) % parse_amount(step):
            detail = f"value is not a multiple of a given step ({step}) from ({span['min']})"
            causes.append(invalid(f"{path}.step", value, detail))
    return causes


def check_node_allocatable(device: Object, path: str) -> Causes:
    """Check the node allocatable resources that a device maps to."""
    causes: Causes = []
    for name, each in (device.get("nodeAllocatableResources") or {}).items():
        at = f"{path}[{name}]"
        if name not in _NODE_RESOURCES and not name.startswith("hugepages-"):
            causes.append(invalid(at, name, "must be a node allocatable resource name"))
        if "mapping" not in each and "overhead" not in each:
            causes.append(required(at, "at least one of mapping or overhead must be set"))
        if "mapping" in each:
            causes += _check_mapping(each["mapping"], device.get("capacity") or {}, f"{at}.mapping")
        if "overhead" in each:
            causes += _check_overhead(each["overhead"], f"{at}.overhead")
    return causes


def _check_mapping(mapping: Object, capacities: Object, path: str) -> Causes:
    causes: Causes = []
    key, multiplier = mapping.get("capacityKey"), mapping.get("capacityMultiplier")
    if key == "":
        causes.append(invalid(f"{path}.capacityKey", "", "capacityKey must not be an empty string"))
    elif key is not None and key not in capacities:
        causes.append(not_found(f"{path}.capacityKey", key))
    if key is not None and multiplier is None:
        causes.append(
            required(f"{path}.capacityMultiplier", "capacityMultiplier is required when capacityKey is set")
        )
    if multiplier is not None and key is None:
        causes.append(required(f"{path}.capacityKey", "capacityKey is required when capacityMultiplier is set"))
    for name in ("capacityMultiplier", "deviceMultiplier"):
        if mapping.get(name) is not None and parse_amount(mapping[name]) <= 0:
            causes.append(invalid(f"{path}.{name}", mapping[name], "must be positive"))
    return causes


def _check_overhead(overhead: Object, path: str) -> Causes:
    present = [name for name in ("perPod", "perContainer") if overhead.get(name) is not None]
    if not present:
        return [invalid(path, "", "at least one of perPod or perContainer must be set")]
    return [
        invalid(f"{path}.{name}", overhead[name], "must be non-negative")
        for name in present
        if parse_amount(overhead[name]) < 0
    ]
