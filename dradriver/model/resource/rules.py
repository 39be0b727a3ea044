"""The rules for a single device or a single counter set.

Source: `pkg/apis/resource/validation` of Kubernetes 1.37 and the limits in `resource.k8s.io/v1`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from dradriver.errors import Problem
from dradriver.model import names
from dradriver.model.core.node_selector import NodeSelector
from dradriver.model.resource.counters import (
    MAX_COMPATIBILITY_GROUPS,
    MAX_CONSUMPTIONS,
    MAX_COUNTERS,
    Counter,
    CounterConsumption,
    CounterSet,
)
from dradriver.model.resource.device import (
    MAX_ATTRIBUTE_LENGTH,
    MAX_ATTRIBUTE_VALUES,
    MAX_ATTRIBUTES_AND_CAPACITIES,
    MAX_BINDING_CONDITIONS,
    MAX_TAINTS,
    Attribute,
    Device,
    Taint,
)

__all__ = ["counter_set_problems", "device_problems", "node_selector_problems"]


def counter_set_problems(counter_set: CounterSet) -> Iterator[Problem]:
    """Yield the broken rules of one counter set."""
    if rule := names.dns_label(counter_set.name):
        yield Problem("name", rule)
    yield from _counters(counter_set.counters)


def device_problems(device: Device, *, per_device_nodes: bool = False) -> Iterator[Problem]:
    """Yield the broken rules of one device.

    Args:
        device: the device.
        per_device_nodes: whether each device of the device's slice selects its own nodes.
    """
    if rule := names.dns_label(device.name):
        yield Problem("name", rule)
    yield from _attributes(device)
    yield from _consumptions(device.consumes_counters)
    yield from _taints(device.taints)
    yield from _binding(device)
    yield from _nodes(device, per_device_nodes=per_device_nodes)


def node_selector_problems(selector: NodeSelector) -> Iterator[Problem]:
    """Yield the broken rules of the node selector of a pool or device."""
    if len(selector.node_selector_terms) != 1:
        # The API server accepts several terms for a device, but then the allocation fails later.
        yield Problem("nodeSelector", "exactly one node selector term is required")
    for i, term in enumerate(selector.node_selector_terms):
        for j, requirement in enumerate(term.match_expressions):
            path = f"nodeSelector.nodeSelectorTerms[{i}].matchExpressions[{j}]"
            for k, value in enumerate(requirement.values):
                if rule := names.label_value(value):
                    yield Problem(f"{path}.values[{k}]", rule)


def _counters(counters: Mapping[str, Counter]) -> Iterator[Problem]:
    if not counters:
        yield Problem("counters", "at least one counter is required")
    yield from _at_most("counters", counters, MAX_COUNTERS)
    for name, counter in counters.items():
        if rule := names.dns_label(name):
            yield Problem(f"counters[{name}]", rule)
        if counter.value.nano < 0:
            yield Problem(f"counters[{name}].value", f"{counter.value} must not be negative")


def _attributes(device: Device) -> Iterator[Problem]:
    total = len(device.attributes) + len(device.capacity)
    if total > MAX_ATTRIBUTES_AND_CAPACITIES:
        yield Problem(
            "attributes",
            f"{total} attributes and capacities, at most {MAX_ATTRIBUTES_AND_CAPACITIES} are allowed together",
        )
    count = 0
    for name, attribute in device.attributes.items():
        path = f"attributes[{name}]"
        if rule := names.qualified_name(name):
            yield Problem(path, rule)
        yield from (problem.under(path) for problem in _attribute(attribute))
        count += sum(len(items) for items in _lists(attribute)) or 1
    if count > MAX_ATTRIBUTE_VALUES:
        yield Problem("attributes", f"{count} values in all, at most {MAX_ATTRIBUTE_VALUES} are allowed")
    for name, capacity in device.capacity.items():
        if rule := names.qualified_name(name):
            yield Problem(f"capacity[{name}]", rule)
        if capacity.value.nano < 0:
            yield Problem(f"capacity[{name}].value", f"{capacity.value} must not be negative")


def _lists(attribute: Attribute) -> list[Sequence[object]]:
    lists = (attribute.ints, attribute.bools, attribute.strings, attribute.versions)
    return [items for items in lists if items is not None]


def _attribute(attribute: Attribute) -> Iterator[Problem]:
    scalars = (attribute.int_value, attribute.bool_value, attribute.string, attribute.version)
    lists = _lists(attribute)
    if sum(value is not None for value in scalars) + len(lists) != 1:
        yield Problem("", "exactly one of int, bool, string, version or their list forms is required")
    if any(not items for items in lists):
        yield Problem("", "a list attribute must not be empty")
    texts = chain(
        (text for text in (attribute.string, attribute.version) if text is not None),
        attribute.strings or (),
        attribute.versions or (),
    )
    for text in texts:
        if len(text.encode()) > MAX_ATTRIBUTE_LENGTH:
            yield Problem("", f"{text!r} must be at most {MAX_ATTRIBUTE_LENGTH} bytes")
    for text in chain((attribute.version,) if attribute.version is not None else (), attribute.versions or ()):
        if not names.is_semver(text):
            yield Problem("version", f"{text!r} is not a semantic version 2.0.0, like 1.2.3 or 1.2.3-rc.1")


def _consumptions(consumptions: Sequence[CounterConsumption]) -> Iterator[Problem]:
    yield from _at_most("consumesCounters", consumptions, MAX_CONSUMPTIONS)
    seen: set[str] = set()
    for index, consumption in enumerate(consumptions):
        path = f"consumesCounters[{index}]"
        if rule := names.dns_label(consumption.counter_set):
            yield Problem(f"{path}.counterSet", rule)
        if consumption.counter_set in seen:
            yield Problem(f"{path}.counterSet", f"{consumption.counter_set!r} is consumed twice")
        seen.add(consumption.counter_set)
        yield from (problem.under(path) for problem in _counters(consumption.counters))
        yield from (problem.under(path) for problem in _groups(consumption.compatibility_groups))


def _groups(groups: Sequence[str]) -> Iterator[Problem]:
    yield from _at_most("compatibilityGroups", groups, MAX_COMPATIBILITY_GROUPS)
    for index, group in enumerate(groups):
        if rule := names.dns_label(group):
            yield Problem(f"compatibilityGroups[{index}]", rule)
        if group in groups[:index]:
            yield Problem(f"compatibilityGroups[{index}]", f"{group!r} is named twice")


def _taints(taints: Sequence[Taint]) -> Iterator[Problem]:
    yield from _at_most("taints", taints, MAX_TAINTS)
    for index, taint in enumerate(taints):
        if rule := names.label_key(taint.key):
            yield Problem(f"taints[{index}].key", rule)
        if rule := names.label_value(taint.value):
            yield Problem(f"taints[{index}].value", rule)


def _binding(device: Device) -> Iterator[Problem]:
    conditions, failures = device.binding_conditions, device.binding_failure_conditions
    yield from _at_most("bindingConditions", conditions, MAX_BINDING_CONDITIONS)
    yield from _at_most("bindingFailureConditions", failures, MAX_BINDING_CONDITIONS)
    if bool(conditions) != bool(failures):
        missing = "bindingFailureConditions" if conditions else "bindingConditions"
        yield Problem(missing, "binding conditions and binding failure conditions must be set together")
    seen: set[str] = set()
    for field, items in (("bindingConditions", conditions), ("bindingFailureConditions", failures)):
        for index, condition in enumerate(items):
            if rule := names.label_key(condition):
                yield Problem(f"{field}[{index}]", rule)
            if condition in seen:
                yield Problem(f"{field}[{index}]", f"{condition!r} is named twice")
            seen.add(condition)


def _nodes(device: Device, *, per_device_nodes: bool) -> Iterator[Problem]:
    selected = [
        field
        for field, is_set in (
            ("nodeName", device.node_name is not None),
            ("nodeSelector", device.node_selector is not None),
            ("allNodes", device.all_nodes is not None),
        )
        if is_set
    ]
    if per_device_nodes and len(selected) != 1:
        yield Problem(
            "nodeName",
            "with per-device node selection exactly one of nodeName, nodeSelector, allNodes is required",
        )
    if not per_device_nodes and selected:
        yield Problem(selected[0], "only devices of a pool with per-device node selection may choose nodes")
    if device.node_selector is not None:
        yield from node_selector_problems(device.node_selector)


def _at_most(field: str, items: Iterable[object], limit: int) -> Iterator[Problem]:
    count = sum(1 for _ in items)
    if count > limit:
        yield Problem(field, f"{count} entries, at most {limit} are allowed")
