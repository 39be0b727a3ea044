"""Rules of ResourceClaim, ResourceClaimTemplate, DeviceClass and DeviceTaintRule."""

import ipaddress
import re
from collections.abc import Mapping

from dradriver.cluster.apiserver.formats.values import Object, dig
from dradriver.cluster.apiserver.validation.derived import derived_attributes
from dradriver.cluster.apiserver.validation.devices import (
    CONFIG_LIMIT,
    CelCheck,
    binding_conditions,
    configuration,
    raw_object,
    selectors,
    skip_node_operations,
    taint,
    toleration,
)
from dradriver.cluster.apiserver.validation.field import (
    Causes,
    each,
    forbidden,
    immutable,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
    unique,
)
from dradriver.cluster.apiserver.validation.names import (
    checked,
    dns_label,
    driver_name,
    driver_of_claim,
    extended_resource_name,
    fully_qualified_name,
    label_name,
    pool_name,
    pool_of_result,
    subdomain,
    uuid,
)
from dradriver.cluster.apiserver.validation.nodeselector import node_selector
from dradriver.cluster.apiserver.validation.slices import MAX_COUNTER_CONSUMPTIONS, MAX_GROUPS

RESULTS_LIMIT = 32
RESERVED_LIMIT = 256
CONDITIONS_LIMIT = 8
FIRST_AVAILABLE_LIMIT = 8
DATA_LIMIT = 10 * 1024
_REFERENCE = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)

_REASON = re.compile("[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_REASON_MESSAGE = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  "
    "or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is "
    f"'{_REASON.pattern}')"
)

Requests = Mapping[str, frozenset[str]]


def claim_spec(spec: Object, path: str, cel_check: CelCheck | None) -> Causes:
    """Check the spec of a new claim or template."""
    devices, path = spec.get("devices") or {}, f"{path}.devices"
    names = request_names(devices)

    def constraint(item: Object, at: str) -> Causes:
        return _constraint(item, at, names)

    def config(item: Object, at: str) -> Causes:
        return _references(item.get("requests"), f"{at}.requests", names) + configuration(item, at)

    causes = unique(
        devices.get("requests"), RESULTS_LIMIT, lambda item, at: _request(item, at, cel_check),
        lambda item: item.get("name", ""), f"{path}.requests",
    )  # fmt: skip
    causes += derived_attributes(devices, path)
    causes += each(devices.get("constraints"), 32, constraint, f"{path}.constraints")
    return causes + each(devices.get("config"), CONFIG_LIMIT, config, f"{path}.config")


def request_names(devices: Object) -> Requests:
    """Return the requests of a claim, each with its subrequests."""
    return {
        request.get("name", ""): frozenset(sub.get("name", "") for sub in request.get("firstAvailable") or ())
        for request in devices.get("requests") or ()
    }


def _known(name: str, names: Requests) -> bool:
    request, slash, sub = name.partition("/")
    return request in names and (not slash or sub in names[request])


def _reference(name: str, path: str, names: Requests) -> Causes:
    parts = name.split("/")
    if len(parts) > 2:
        return [invalid(path, name, _REFERENCE)]
    causes = [cause for part in parts for cause in dns_label(part, path)]
    return causes if _known(name, names) else [*causes, invalid(path, name, _REFERENCE)]


def _references(items: list[str] | None, path: str, names: Requests) -> Causes:
    return unique(items, RESULTS_LIMIT, lambda name, at: _reference(name, at, names), lambda name: name, path)


def _request(request: Object, path: str, cel_check: CelCheck | None) -> Causes:
    causes = dns_label(request.get("name", ""), f"{path}.name")
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable") or []
    one_of = "exactly one of `exactly` or `firstAvailable` is required"
    if exactly is not None and alternatives:
        return [*causes, invalid(path, None, one_of + ", but multiple fields are set")]
    if exactly is not None:
        return causes + _device_request(exactly, f"{path}.exactly", cel_check)
    if not alternatives:
        return [*causes, required(path, one_of)]

    def check(sub: Object, at: str) -> Causes:
        return dns_label(sub.get("name", ""), f"{at}.name") + _device_request(sub, at, cel_check)

    return causes + unique(
        alternatives, FIRST_AVAILABLE_LIMIT, check, lambda sub: sub.get("name", ""), f"{path}.firstAvailable"
    )


def _device_request(request: Object, path: str, cel_check: CelCheck | None) -> Causes:
    name = request.get("deviceClassName", "")
    causes = (
        checked(subdomain, name, f"{path}.deviceClassName") if name else [required(f"{path}.deviceClassName")]
    )
    causes += selectors(request.get("selectors"), f"{path}.selectors", cel_check)
    mode, count = request.get("allocationMode", ""), request.get("count", 0)
    if mode == "All":
        if count:
            causes.append(invalid(f"{path}.count", count, "must not be specified when allocationMode is 'All'"))
    elif mode == "ExactCount":
        if count <= 0:
            causes.append(invalid(f"{path}.count", count, "must be greater than zero"))
    else:
        causes.append(not_supported(f"{path}.allocationMode", mode, ("All", "ExactCount")))
    return causes + each(request.get("tolerations"), -1, toleration, f"{path}.tolerations")


def _constraint(constraint: Object, path: str, names: Requests) -> Causes:
    causes = _references(constraint.get("requests"), f"{path}.requests", names)
    for field in ("matchAttribute", "distinctAttribute"):
        if field in constraint:
            return causes + fully_qualified_name(constraint[field], f"{path}.{field}")
    detail = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
    return [*causes, required(path, detail)]


def claim_update(new: Object, old: Object) -> Causes:
    """Check that the spec of a claim does not change, byte for byte."""
    return [] if new.get("spec") == old.get("spec") else [immutable("spec", None)]


def claim_status(new: Object, old: Object) -> Causes:
    """Check a new status of a claim."""
    status, old_status = new.get("status") or {}, old.get("status") or {}
    names = request_names(dig(new, "spec", "devices") or {})
    allocation, old_allocation = status.get("allocation"), old_status.get("allocation")
    causes = unique(
        status.get("reservedFor"),
        RESERVED_LIMIT,
        _consumer,
        lambda item: item.get("uid", ""),
        "status.reservedFor",
    )
    allocated = {device_id(result) for result in dig(allocation, "devices", "results") or ()}
    causes += unique(
        status.get("devices"),
        -1,
        lambda item, at: _device_status(item, at, allocated),
        device_id,
        "status.devices",
    )
    causes += _reservation(status, old_status, deleted="deletionTimestamp" in new["metadata"])
    if allocation is not None and old_allocation is not None:
        if allocation != old_allocation:
            causes.append(invalid("status.allocation", None, "field cannot be modified once set"))
    elif allocation is not None:
        causes += _allocation(allocation, "status.allocation", names)
    return causes


def device_id(item: Object) -> tuple[str, str, str, str]:
    """Return driver, pool, device and share of an allocation result or a device status."""
    return item.get("driver", ""), item.get("pool", ""), item.get("device", ""), item.get("shareID") or ""


def _consumer(reference: Object, path: str) -> Causes:
    return [required(f"{path}.{field}") for field in ("resource", "name", "uid") if not reference.get(field)]


def _reservation(status: Object, old: Object, *, deleted: bool) -> Causes:
    reserved, path = status.get("reservedFor") or [], "status.reservedFor"
    if reserved and status.get("allocation") is None:
        return [forbidden(path, "may not be specified when `allocated` is not set")]
    if deleted and any(item not in (old.get("reservedFor") or []) for item in reserved):
        detail = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        return [forbidden(path, detail)]
    return []


def _allocation(allocation: Object, path: str, names: Requests) -> Causes:
    devices = allocation.get("devices") or {}

    def config(item: Object, at: str) -> Causes:
        source = item.get("source", "")
        causes: Causes = []
        if not source:
            causes.append(required(f"{at}.source"))
        elif source not in {"FromClass", "FromClaim"}:
            causes.append(not_supported(f"{at}.source", source, ("FromClaim", "FromClass")))
        return causes + _references(item.get("requests"), f"{at}.requests", names) + configuration(item, at)

    causes = each(
        devices.get("results"),
        RESULTS_LIMIT,
        lambda item, at: _result(item, at, names),
        f"{path}.devices.results",
    )
    causes += each(devices.get("config"), 2 * CONFIG_LIMIT, config, f"{path}.devices.config")
    if "nodeSelector" in allocation:
        causes += node_selector(allocation["nodeSelector"], f"{path}.nodeSelector")
    return causes


def _result(result: Object, path: str, names: Requests) -> Causes:
    causes = _reference(result.get("request", ""), f"{path}.request", names)
    causes += driver_of_claim(result.get("driver", ""), f"{path}.driver")
    causes += pool_of_result(result.get("pool", ""), f"{path}.pool")
    causes += dns_label(result.get("device", ""), f"{path}.device") + binding_conditions(result, path)
    causes += each(result.get("tolerations"), -1, toleration, f"{path}.tolerations")
    if "shareID" in result:
        causes += uuid(result["shareID"], f"{path}.shareID")
    causes += _recorded_groups(result.get("compatibilityGroups") or {}, f"{path}.compatibilityGroups")
    return causes + skip_node_operations(result.get("skipNodeOperations"), f"{path}.skipNodeOperations")


def _recorded_groups(recorded: Object, path: str) -> Causes:
    """Check recorded groups: a device's counter sets, with the groups that it declared for each (KEP-5963)."""
    causes: Causes = []
    if len(recorded) > MAX_COUNTER_CONSUMPTIONS:
        causes.append(too_many(path, len(recorded), MAX_COUNTER_CONSUMPTIONS))
    for counter_set, groups in recorded.items():
        causes += dns_label(counter_set, path)
        causes += unique(groups, MAX_GROUPS, dns_label, lambda group: group, f"{path}[{counter_set}]")
    return causes


def _device_status(device: Object, path: str, allocated: set[tuple[str, str, str, str]]) -> Causes:
    causes = driver_name(device.get("driver", ""), f"{path}.driver") + pool_name(
        device.get("pool", ""), f"{path}.pool"
    )
    causes += dns_label(device.get("device", ""), f"{path}.device")
    if "shareID" in device:
        causes += uuid(device["shareID"], f"{path}.shareID")
    if device_id(device) not in allocated:
        # The message shows Kubernetes' internal identity, with the names of its Go fields.
        shown = dict(zip(("Driver", "Pool", "Device", "ShareID"), device_id(device), strict=True))
        causes.append(invalid(path, shown, "must be an allocated device in the claim"))
    causes += conditions(device.get("conditions") or [], f"{path}.conditions")
    if "data" in device:
        causes += raw_object(device["data"], f"{path}.data", DATA_LIMIT)
    return causes + _network(device.get("networkData") or {}, f"{path}.networkData")


def conditions(items: list[Object], path: str) -> Causes:
    """Check conditions: at most 8, one of each type, complete."""
    causes = [too_many(path, len(items), CONDITIONS_LIMIT)] if len(items) > CONDITIONS_LIMIT else []

    def check(condition: Object, at: str) -> Causes:
        found = label_name(condition.get("type", ""), f"{at}.type")
        if condition.get("status") not in {"True", "False", "Unknown"}:
            found.append(
                not_supported(f"{at}.status", condition.get("status", ""), ("False", "True", "Unknown"))
            )
        if not condition.get("lastTransitionTime"):
            found.append(required(f"{at}.lastTransitionTime"))
        reason = condition.get("reason", "")
        if not reason:
            found.append(required(f"{at}.reason"))
        elif not _REASON.fullmatch(reason):
            found.append(invalid(f"{at}.reason", reason, _REASON_MESSAGE))
        return found

    return causes + unique(items, -1, check, lambda condition: condition.get("type", ""), path, whole=False)


def _network(data: Object, path: str) -> Causes:
    causes: Causes = []
    for field, limit in (("interfaceName", 256), ("hardwareAddress", 128)):
        if len(data.get(field, "").encode()) > limit:
            causes.append(too_long(f"{path}.{field}", limit))
    return causes + unique(data.get("ips"), 16, _address, lambda address: address, f"{path}.ips")


def _address(address: str, path: str) -> Causes:
    try:
        canonical = str(ipaddress.ip_interface(address)) if "/" in address else ""
    except ValueError:
        canonical = ""
    if not canonical:
        detail = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
        return [invalid(path, address, detail)]
    return (
        [] if address == canonical else [invalid(path, address, f'must be in canonical form ("{canonical}")')]
    )


def device_class(new: Object, old: Object | None, cel_check: CelCheck | None) -> Causes:
    """Check a class, except selectors and parameters that are stored already."""
    spec, old_spec = new.get("spec") or {}, (old or {}).get("spec") or {}
    unchanged = old is not None and spec.get("selectors") == old_spec.get("selectors")
    causes = selectors(spec.get("selectors"), "spec.selectors", None if unchanged else cel_check)
    stored = old is not None and spec.get("config") == old_spec.get("config")
    causes += each(
        spec.get("config"), CONFIG_LIMIT, lambda item, at: configuration(item, at, stored=stored), "spec.config"
    )
    name = spec.get("extendedResourceName")
    return causes + (extended_resource_name(name, "spec.extendedResourceName") if name is not None else [])


def taint_rule(new: Object, _old: Object | None) -> Causes:
    """Check a device taint rule."""
    spec = new.get("spec") or {}
    selector, path = spec.get("deviceSelector") or {}, "spec.deviceSelector"
    causes: Causes = []
    for field, check in (("driver", driver_name), ("pool", pool_name), ("device", dns_label)):
        if field in selector:
            causes += check(selector[field], f"{path}.{field}")
    return causes + taint(spec.get("taint") or {}, "spec.taint")
