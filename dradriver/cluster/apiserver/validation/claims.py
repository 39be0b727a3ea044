"""Rules of ResourceClaim, ResourceClaimTemplate, DeviceClass and DeviceTaintRule."""

import ipaddress
import re
from collections.abc import Mapping

from dradriver.cluster.apiserver.formats.values import Object, dig
from dradriver.cluster.apiserver.validation.derived import check_derived_attributes
from dradriver.cluster.apiserver.validation.devices import (
    CONFIG_LIMIT,
    CelCheck,
    check_binding_conditions,
    check_configuration,
    check_raw_object,
    check_selectors,
    check_skip_node_operations,
    check_taint,
    check_toleration,
)
from dradriver.cluster.apiserver.validation.field import (
    Causes,
    check_each,
    check_unique,
    forbidden,
    immutable,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)
from dradriver.cluster.apiserver.validation.names import (
    check_dns_label,
    check_driver_name,
    check_driver_of_claim,
    check_extended_resource_name,
    check_fully_qualified_name,
    check_label_name,
    check_pool_name,
    check_pool_of_result,
    check_subdomain,
    check_uuid,
    to_causes,
)
from dradriver.cluster.apiserver.validation.nodeselector import check_node_selector
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


def check_claim_spec(spec: Object, path: str, cel_check: CelCheck | None) -> Causes:
    """Check the spec of a new claim or template."""
    devices, path = spec.get("devices") or {}, f"{path}.devices"
    names = list_request_names(devices)

    def constraint(item: Object, at: str) -> Causes:
        return _check_constraint(item, at, names)

    def config(item: Object, at: str) -> Causes:
        return _check_references(item.get("requests"), f"{at}.requests", names) + check_configuration(item, at)

    causes = check_unique(
        devices.get("requests"), RESULTS_LIMIT, lambda item, at: _check_request(item, at, cel_check),
        lambda item: item.get("name", ""), f"{path}.requests",
    )  # fmt: skip
    causes += check_derived_attributes(devices, path)
    causes += check_each(devices.get("constraints"), 32, constraint, f"{path}.constraints")
    return causes + check_each(devices.get("config"), CONFIG_LIMIT, config, f"{path}.config")


def list_request_names(devices: Object) -> Requests:
    """Return the requests of a claim, each with its subrequests."""
    return {
        request.get("name", ""): frozenset(sub.get("name", "") for sub in request.get("firstAvailable") or ())
        for request in devices.get("requests") or ()
    }


def _is_known(name: str, names: Requests) -> bool:
    request, slash, sub = name.partition("/")
    return request in names and (not slash or sub in names[request])


def _check_reference(name: str, path: str, names: Requests) -> Causes:
    parts = name.split("/")
    if len(parts) > 2:
        return [invalid(path, name, _REFERENCE)]
    causes = [cause for part in parts for cause in check_dns_label(part, path)]
    return causes if _is_known(name, names) else [*causes, invalid(path, name, _REFERENCE)]


def _check_references(items: list[str] | None, path: str, names: Requests) -> Causes:
    return check_unique(
        items, RESULTS_LIMIT, lambda name, at: _check_reference(name, at, names), lambda name: name, path
    )


def _check_request(request: Object, path: str, cel_check: CelCheck | None) -> Causes:
    causes = check_dns_label(request.get("name", ""), f"{path}.name")
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable") or []
    one_of = "exactly one of `exactly` or `firstAvailable` is required"
    if exactly is not None and alternatives:
        return [*causes, invalid(path, None, one_of + ", but multiple fields are set")]
    if exactly is not None:
        return causes + _check_device_request(exactly, f"{path}.exactly", cel_check)
    if not alternatives:
        return [*causes, required(path, one_of)]

    def check(sub: Object, at: str) -> Causes:
        return check_dns_label(sub.get("name", ""), f"{at}.name") + _check_device_request(sub, at, cel_check)

    return causes + check_unique(
        alternatives, FIRST_AVAILABLE_LIMIT, check, lambda sub: sub.get("name", ""), f"{path}.firstAvailable"
    )


def _check_device_request(request: Object, path: str, cel_check: CelCheck | None) -> Causes:
    name = request.get("deviceClassName", "")
    causes = (
        to_causes(check_subdomain, name, f"{path}.deviceClassName")
        if name
        else [required(f"{path}.deviceClassName")]
    )
    causes += check_selectors(request.get("selectors"), f"{path}.selectors", cel_check)
    mode, count = request.get("allocationMode", ""), request.get("count", 0)
    if mode == "All":
        if count:
            causes.append(invalid(f"{path}.count", count, "must not be specified when allocationMode is 'All'"))
    elif mode == "ExactCount":
        if count <= 0:
            causes.append(invalid(f"{path}.count", count, "must be greater than zero"))
    else:
        causes.append(not_supported(f"{path}.allocationMode", mode, ("All", "ExactCount")))
    return causes + check_each(request.get("tolerations"), -1, check_toleration, f"{path}.tolerations")


def _check_constraint(constraint: Object, path: str, names: Requests) -> Causes:
    causes = _check_references(constraint.get("requests"), f"{path}.requests", names)
    for field in ("matchAttribute", "distinctAttribute"):
        if field in constraint:
            return causes + check_fully_qualified_name(constraint[field], f"{path}.{field}")
    detail = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
    return [*causes, required(path, detail)]


def check_claim_update(new: Object, old: Object) -> Causes:
    """Check that the spec of a claim does not change, byte for byte."""
    return [] if new.get("spec") == old.get("spec") else [immutable("spec", None)]


def check_claim_status(new: Object, old: Object) -> Causes:
    """Check a new status of a claim."""
    status, old_status = new.get("status") or {}, old.get("status") or {}
    names = list_request_names(dig(new, "spec", "devices") or {})
    allocation, old_allocation = status.get("allocation"), old_status.get("allocation")
    causes = check_unique(
        status.get("reservedFor"),
        RESERVED_LIMIT,
        _check_consumer,
        lambda item: item.get("uid", ""),
        "status.reservedFor",
    )
    allocated = {get_device_id(result) for result in dig(allocation, "devices", "results") or ()}
    causes += check_unique(
        status.get("devices"),
        -1,
        lambda item, at: _check_device_status(item, at, allocated),
        get_device_id,
        "status.devices",
    )
    causes += _check_reservation(status, old_status, deleted="deletionTimestamp" in new["metadata"])
    if allocation is not None and old_allocation is not None:
        if allocation != old_allocation:
            causes.append(invalid("status.allocation", None, "field cannot be modified once set"))
    elif allocation is not None:
        causes += _check_allocation(allocation, "status.allocation", names)
    return causes


def get_device_id(item: Object) -> tuple[str, str, str, str]:
    """Return driver, pool, device and share ID of an allocation result or a device status."""
    return item.get("driver", ""), item.get("pool", ""), item.get("device", ""), item.get("shareID") or ""


def _check_consumer(reference: Object, path: str) -> Causes:
    return [required(f"{path}.{field}") for field in ("resource", "name", "uid") if not reference.get(field)]


def _check_reservation(status: Object, old: Object, *, deleted: bool) -> Causes:
    reserved, path = status.get("reservedFor") or [], "status.reservedFor"
    if reserved and status.get("allocation") is None:
        return [forbidden(path, "may not be specified when `allocated` is not set")]
    if deleted and any(item not in (old.get("reservedFor") or []) for item in reserved):
        detail = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        return [forbidden(path, detail)]
    return []


def _check_allocation(allocation: Object, path: str, names: Requests) -> Causes:
    devices = allocation.get("devices") or {}

    def config(item: Object, at: str) -> Causes:
        source = item.get("source", "")
        causes: Causes = []
        if not source:
            causes.append(required(f"{at}.source"))
        elif source not in {"FromClass", "FromClaim"}:
            causes.append(not_supported(f"{at}.source", source, ("FromClaim", "FromClass")))
        return (
            causes
            + _check_references(item.get("requests"), f"{at}.requests", names)
            + check_configuration(item, at)
        )

    causes = check_each(
        devices.get("results"),
        RESULTS_LIMIT,
        lambda item, at: _check_result(item, at, names),
        f"{path}.devices.results",
    )
    causes += check_each(devices.get("config"), 2 * CONFIG_LIMIT, config, f"{path}.devices.config")
    if "nodeSelector" in allocation:
        causes += check_node_selector(allocation["nodeSelector"], f"{path}.nodeSelector")
    return causes


def _check_result(result: Object, path: str, names: Requests) -> Causes:
    causes = _check_reference(result.get("request", ""), f"{path}.request", names)
    causes += check_driver_of_claim(result.get("driver", ""), f"{path}.driver")
    causes += check_pool_of_result(result.get("pool", ""), f"{path}.pool")
    causes += check_dns_label(result.get("device", ""), f"{path}.device") + check_binding_conditions(
        result, path
    )
    causes += check_each(result.get("tolerations"), -1, check_toleration, f"{path}.tolerations")
    if "shareID" in result:
        causes += check_uuid(result["shareID"], f"{path}.shareID")
    causes += _check_recorded_groups(result.get("compatibilityGroups") or {}, f"{path}.compatibilityGroups")
    return causes + check_skip_node_operations(result.get("skipNodeOperations"), f"{path}.skipNodeOperations")


def _check_recorded_groups(recorded: Object, path: str) -> Causes:
    """Check the recorded compatibility groups: those that a device declared for each counter set (KEP-5963)."""
    causes: Causes = []
    if len(recorded) > MAX_COUNTER_CONSUMPTIONS:
        causes.append(too_many(path, len(recorded), MAX_COUNTER_CONSUMPTIONS))
    for counter_set, groups in recorded.items():
        causes += check_dns_label(counter_set, path)
        causes += check_unique(
            groups, MAX_GROUPS, check_dns_label, lambda group: group, f"{path}[{counter_set}]"
        )
    return causes


def _check_device_status(device: Object, path: str, allocated: set[tuple[str, str, str, str]]) -> Causes:
    causes = check_driver_name(device.get("driver", ""), f"{path}.driver") + check_pool_name(
        device.get("pool", ""), f"{path}.pool"
    )
    causes += check_dns_label(device.get("device", ""), f"{path}.device")
    if "shareID" in device:
        causes += check_uuid(device["shareID"], f"{path}.shareID")
    if get_device_id(device) not in allocated:
        # The message shows Kubernetes' internal identity, with the names of its Go fields.
        shown = dict(zip(("Driver", "Pool", "Device", "ShareID"), get_device_id(device), strict=True))
        causes.append(invalid(path, shown, "must be an allocated device in the claim"))
    causes += check_conditions(device.get("conditions") or [], f"{path}.conditions")
    if "data" in device:
        causes += check_raw_object(device["data"], f"{path}.data", DATA_LIMIT)
    return causes + _check_network_data(device.get("networkData") or {}, f"{path}.networkData")


def check_conditions(items: list[Object], path: str) -> Causes:
    """Check conditions: at most 8, at most one of each type, and each complete."""
    causes = [too_many(path, len(items), CONDITIONS_LIMIT)] if len(items) > CONDITIONS_LIMIT else []

    def check(condition: Object, at: str) -> Causes:
        found = check_label_name(condition.get("type", ""), f"{at}.type")
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

    return causes + check_unique(
        items, -1, check, lambda condition: condition.get("type", ""), path, show_item=False
    )


def _check_network_data(data: Object, path: str) -> Causes:
    causes: Causes = []
    for field, limit in (("interfaceName", 256), ("hardwareAddress", 128)):
        if len(data.get(field, "").encode()) > limit:
            causes.append(too_long(f"{path}.{field}", limit))
    return causes + check_unique(data.get("ips"), 16, _check_address, lambda address: address, f"{path}.ips")


def _check_address(address: str, path: str) -> Causes:
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


def check_device_class(new: Object, old: Object | None, cel_check: CelCheck | None) -> Causes:
    """Check a class. Selectors and parameters that are already stored are not checked again."""
    spec, old_spec = new.get("spec") or {}, (old or {}).get("spec") or {}
    unchanged = old is not None and spec.get("selectors") == old_spec.get("selectors")
    causes = check_selectors(spec.get("selectors"), "spec.selectors", None if unchanged else cel_check)
    stored = old is not None and spec.get("config") == old_spec.get("config")
    causes += check_each(
        spec.get("config"),
        CONFIG_LIMIT,
        lambda item, at: check_configuration(item, at, stored=stored),
        "spec.config",
    )
    name = spec.get("extendedResourceName")
    return causes + (
        check_extended_resource_name(name, "spec.extendedResourceName") if name is not None else []
    )


def check_taint_rule(new: Object) -> Causes:
    """Check a device taint rule."""
    spec = new.get("spec") or {}
    selector, path = spec.get("deviceSelector") or {}, "spec.deviceSelector"
    causes: Causes = []
    for field, check in (("driver", check_driver_name), ("pool", check_pool_name), ("device", check_dns_label)):
        if field in selector:
            causes += check(selector[field], f"{path}.{field}")
    return causes + check_taint(spec.get("taint") or {}, "spec.taint")
