"""Rules of ResourceSlice."""

import re

from dradriver.cluster.apiserver.formats.values import JsonValue, Object, dig
from dradriver.cluster.apiserver.validation import capacities
from dradriver.cluster.apiserver.validation.devices import (
    check_binding_conditions,
    check_skip_node_operations,
    check_taint,
)
from dradriver.cluster.apiserver.validation.field import (
    Causes,
    check_each,
    check_unique,
    immutable,
    invalid,
    required,
    too_long,
    too_many,
)
from dradriver.cluster.apiserver.validation.names import (
    check_dns_label,
    check_driver_name,
    check_fully_qualified_name,
    check_pool_name,
    check_qualified_name,
    check_required_label,
)
from dradriver.cluster.apiserver.validation.nodeselector import check_node_name, check_node_selector

MAX_DEVICES = 128
MAX_DEVICES_ADVANCED = 64
MAX_COUNTER_SETS = 8
MAX_COUNTERS = 32
MAX_TAINTS = 16
MAX_COUNTER_CONSUMPTIONS = 2
MAX_GROUPS = 2
MAX_ATTRIBUTES_AND_CAPACITIES = 32
MAX_ATTRIBUTE_VALUES = 48
MAX_STRING = 64
_LISTS = ("ints", "bools", "strings", "versions")
_SCALARS = ("int", "bool", "string", "version")
_ATTRIBUTE_TYPES = ", ".join(f"`{each}`" for each in (*_SCALARS, *_LISTS))
_NUMBER = r"(0|[1-9]\d*)"
_PRERELEASE = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_SEMVER = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_PRERELEASE}(\.{_PRERELEASE})*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?"
)
_EXACTLY_ONE = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
_EXACTLY_ONE_DEVICE = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when "
    "`perDeviceNodeSelection` is set to true in "
    "the ResourceSlice spec"
)


def check_slice(new: Object, old: Object | None) -> Causes:
    """Check a slice, new or changed."""
    spec, old_spec = new.get("spec") or {}, (old or {}).get("spec")
    causes = check_driver_name(spec.get("driver", ""), "spec.driver") + _check_pool(
        spec.get("pool") or {}, "spec.pool"
    )
    if old_spec is not None:
        for path in (("pool", "name"), ("driver",), ("nodeName",)):
            if dig(spec, *path) != dig(old_spec, *path):
                causes.append(immutable("spec." + ".".join(path), dig(spec, *path)))
    causes += _check_node_selection(spec)
    if spec.get("sharedCounters") is not None and spec.get("devices") is not None:
        causes.append(invalid("spec", "", "only one of `sharedCounters` or `devices` is allowed"))
    devices = spec.get("devices") or []
    old_devices = {each["name"]: each for each in (old_spec or {}).get("devices") or [] if "name" in each}
    per_device = spec.get("perDeviceNodeSelection") is True
    causes += check_unique(
        devices,
        MAX_DEVICES_ADVANCED if any(map(_is_advanced, devices)) else MAX_DEVICES,
        lambda device, path: _check_device(
            device, old_devices.get(device.get("name", "")), path, per_device=per_device
        ),
        lambda device: device.get("name", ""),
        "spec.devices",
        show_item=False,
    )
    causes += check_unique(
        spec.get("sharedCounters"),
        MAX_COUNTER_SETS,
        _check_counter_set,
        lambda each: each.get("name", ""),
        "spec.sharedCounters",
    )
    causes += _check_partition_type(spec)
    return causes + check_skip_node_operations(spec.get("skipNodeOperations"), "spec.skipNodeOperations")


def _check_pool(pool: Object, path: str) -> Causes:
    causes = check_pool_name(pool.get("name", ""), f"{path}.name")
    count, generation = pool.get("resourceSliceCount", 0), pool.get("generation", 0)
    if count <= 0:
        causes.append(invalid(f"{path}.resourceSliceCount", count, "must be greater than zero"))
    if generation < 0:
        causes.append(invalid(f"{path}.generation", generation, "must be greater than or equal to zero"))
    return causes


def _check_node_selection(spec: Object) -> Causes:
    causes: Causes = []
    chosen = []
    if "nodeName" in spec:
        if spec["nodeName"]:
            chosen.append("`nodeName`")
            causes += check_node_name(spec["nodeName"], "spec.nodeName")
        else:
            causes.append(invalid("spec.nodeName", "", "must be either unset or set to a non-empty string"))
    if "nodeSelector" in spec:
        chosen.append("`nodeSelector`")
        causes += check_node_selector(spec["nodeSelector"], "spec.nodeSelector")
        terms = spec["nodeSelector"].get("nodeSelectorTerms") or []
        if len(terms) != 1:
            path = "spec.nodeSelector.nodeSelectorTerms"
            causes.append(invalid(path, terms, "must have exactly one node selector term"))
    for field in ("allNodes", "perDeviceNodeSelection"):
        if field in spec:
            if spec[field]:
                chosen.append(f"`{field}`")
            else:
                causes.append(
                    invalid(f"spec.{field}", value=False, detail="must be either unset or set to true")
                )
    if not chosen:
        causes.append(required("spec", _EXACTLY_ONE))
    elif len(chosen) > 1:
        causes.append(
            invalid("spec", "{" + ", ".join(chosen) + "}", _EXACTLY_ONE + ", but multiple fields are set")
        )
    return causes


def _is_advanced(device: Object) -> bool:
    lists = any(key in attribute for attribute in (device.get("attributes") or {}).values() for key in _LISTS)
    return bool(device.get("taints") or device.get("consumesCounters") or lists)


def _check_counters(counters: dict[str, Object] | None, path: str) -> Causes:
    if not counters:
        return [required(path)]
    if len(counters) > MAX_COUNTERS:
        return [too_many(path, len(counters), MAX_COUNTERS)]
    return [cause for name in counters for cause in check_dns_label(name, path)]


def _check_counter_set(counter_set: Object, path: str) -> Causes:
    causes = check_required_label(counter_set.get("name", ""), f"{path}.name")
    return causes + _check_counters(counter_set.get("counters"), f"{path}.counters")


def _check_device(device: Object, old: Object | None, path: str, *, per_device: bool) -> Causes:
    causes = check_dns_label(device.get("name", ""), f"{path}.name")
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    count = len(attributes) + len(capacity)
    if count > MAX_ATTRIBUTES_AND_CAPACITIES:
        detail = (
            f"the total number of attributes and capacities must not exceed {MAX_ATTRIBUTES_AND_CAPACITIES}"
        )
        causes.append(invalid(path, count, detail))
    values = sum(sum(len(each.get(key) or ()) for key in _LISTS) or 1 for each in attributes.values())
    if values > MAX_ATTRIBUTE_VALUES:
        causes.append(
            invalid(
                path, values, f"the total number of attribute values must not exceed {MAX_ATTRIBUTE_VALUES}"
            )
        )
    for name, attribute in attributes.items():
        causes += check_qualified_name(name, f"{path}.attributes") + _check_attribute(
            attribute, f"{path}.attributes[{name}]"
        )
    if old is None or old.get("capacity") != device.get("capacity"):
        causes += _check_capacities(device, capacity, f"{path}.capacity")
    if old is None or old.get("taints") != device.get("taints"):
        causes += check_each(device.get("taints"), MAX_TAINTS, check_taint, f"{path}.taints")
    causes += check_unique(
        device.get("consumesCounters"), MAX_COUNTER_CONSUMPTIONS, _check_consumption,
        lambda consumption: consumption.get("counterSet", ""), f"{path}.consumesCounters",
    )  # fmt: skip
    causes += _check_device_nodes(device, path, per_device=per_device) + check_binding_conditions(device, path)
    return causes + capacities.check_node_allocatable(device, f"{path}.nodeAllocatableResources")


def _check_capacities(device: Object, capacity: Object, path: str) -> Causes:
    multiple = device.get("allowMultipleAllocations") is True
    causes: Causes = []
    for name, value in capacity.items():
        causes += check_qualified_name(name, path) + capacities.check_capacity(
            value, f"{path}[{name}]", multiple=multiple
        )
    return causes


def _check_consumption(consumption: Object, path: str) -> Causes:
    causes = check_required_label(consumption.get("counterSet", ""), f"{path}.counterSet")
    causes += _check_counters(consumption.get("counters"), f"{path}.counters")
    groups, at = consumption.get("compatibilityGroups"), f"{path}.compatibilityGroups"
    return causes + check_unique(groups, MAX_GROUPS, check_dns_label, lambda group: group, at)


def _check_device_nodes(device: Object, path: str, *, per_device: bool) -> Causes:
    present = [field for field in ("nodeName", "nodeSelector", "allNodes") if field in device]
    if not per_device:
        detail = (
            "`nodeName`, `nodeSelector` and `allNodes` can only be set if "
            "`perDeviceNodeSelection` is set to true in the ResourceSlice spec"
        )
        return [invalid(path, None, detail)] if present else []
    causes: Causes = []
    chosen = [f"`{field}`" for field in present if device[field] or field == "nodeSelector"]
    if device.get("nodeName") == "":
        causes.append(invalid(f"{path}.nodeName", "", "must not be empty"))
    elif "nodeName" in device:
        causes += check_node_name(device["nodeName"], f"{path}.nodeName")
    if "nodeSelector" in device:
        causes += check_node_selector(device["nodeSelector"], f"{path}.nodeSelector")
    if device.get("allNodes") is False:
        causes.append(invalid(f"{path}.allNodes", value=False, detail="must be either unset or set to true"))
    if not chosen:
        causes.append(required(path, _EXACTLY_ONE_DEVICE))
    elif len(chosen) > 1:
        causes.append(invalid(path, "{" + ", ".join(chosen) + "}", _EXACTLY_ONE_DEVICE))
    return causes


def _check_attribute(attribute: Object, path: str) -> Causes:
    causes: Causes = []
    present = [key for key in (*_SCALARS, *_LISTS) if key in attribute]
    for key in present:
        at = f"{path}.{key}"
        items = attribute[key] if key in _LISTS else [attribute[key]]
        if not items:
            causes.append(invalid(at, [], "must not be empty if specified"))
        for index, item in enumerate(items):
            where = f"{at}[{index}]" if key in _LISTS else at
            causes += _check_attribute_value(key.removesuffix("s"), item, where)
    if not present:
        causes.append(invalid(path, "", f"must specify one of: {_ATTRIBUTE_TYPES}"))
    elif len(present) > 1:
        shown = "{" + ", ".join(present) + "}"
        causes.append(invalid(path, shown, f"must specify exactly one of: {_ATTRIBUTE_TYPES}"))
    return causes


def _check_attribute_value(kind: str, value: JsonValue, path: str) -> Causes:
    causes: Causes = []
    if kind == "version" and not _SEMVER.fullmatch(value):
        causes.append(invalid(path, value, "must be a string compatible with semver.org spec 2.0.0"))
    if kind in {"string", "version"} and len(value.encode()) > MAX_STRING:
        causes.append(too_long(path, MAX_STRING))
    return causes


def _check_partition_type(spec: Object) -> Causes:
    name = spec.get("partitionTypeAttribute")
    if name is None:
        return []
    path = "spec.partitionTypeAttribute"
    consuming = [(i, each) for i, each in enumerate(spec.get("devices") or []) if each.get("consumesCounters")]
    if not consuming:
        return [invalid(path, name, "may only be set on a slice which declares devices that consume counters")]
    malformed = check_fully_qualified_name(name, path)
    if malformed:
        return malformed
    bare = name.removeprefix(spec.get("driver", "") + "/")
    causes: Causes = []
    for index, device in consuming:
        attributes = device.get("attributes") or {}
        at = f"spec.devices[{index}].attributes[{name}]"
        attribute = attributes.get(name, attributes.get(bare))
        if attribute is None:
            detail = (
                "device consumes counters and `partitionTypeAttribute` names this attribute, so it must be set"
            )
            causes.append(required(at, detail))
        elif "string" not in attribute:
            detail = "must be a string value because `partitionTypeAttribute` names this attribute"
            causes.append(invalid(at, attribute, detail))
    return causes
