"""Rules of resource amounts, in containers and in quotas."""

from collections.abc import Mapping

from dradriver.cluster.apiserver.formats.quantity import NANO, parse_amount
from dradriver.cluster.apiserver.formats.values import Object
from dradriver.cluster.apiserver.validation.field import Causes, invalid, required
from dradriver.cluster.apiserver.validation.names import check_extended_resource_name, check_qualified

_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_COUNTED = (
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
)
_QUOTAS = {
    *_COMPUTE,
    "requests.storage",
    *_COUNTED,
    *(f"{k}.{n}" for n in _COMPUTE for k in ("requests", "limits")),
}
_STANDARD = {*_QUOTAS, "storage"}
_HUGE, _HUGE_QUOTA = "hugepages-", "requests.hugepages-"


def check_container_amounts(resources: Object, path: str) -> Causes:
    """Check a container's requests and limits; they must be equal for resources without overcommitment."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    causes: Causes = []
    for field, amounts in (("limits", limits), ("requests", requests)):
        for name, quantity in sorted(amounts.items()):
            at = f"{path}.{field}[{name}]"
            causes += _check_container_name(name, at) + _check_quantity(name, quantity, at)
            if field == "requests":
                causes += _check_request(name, quantity, limits, path)
    return causes


def _check_request(name: str, quantity: str, limits: Mapping[str, str], path: str) -> Causes:
    overcommitted = _is_native(name) and not name.startswith(_HUGE)
    limit = limits.get(name)
    if limit is None:
        detail = "Limit must be set for non overcommitable resources"
        return [] if overcommitted else [required(f"{path}.limits", detail)]
    relation = "less than or equal to" if overcommitted else "equal to"
    fits = (
        parse_amount(quantity) <= parse_amount(limit)
        if overcommitted
        else parse_amount(quantity) == parse_amount(limit)
    )
    detail = f"must be {relation} {name} limit of {limit}"
    return [] if fits else [invalid(f"{path}.requests", quantity, detail)]


def check_quota_amounts(amounts: Mapping[str, str], path: str) -> Causes:
    """Check the amounts of a quota."""
    causes: Causes = []
    for name, quantity in sorted(amounts.items()):
        at = f"{path}[{name}]"
        causes += _check_resource_name(name, at)
        if "/" not in name and name not in _QUOTAS and not name.startswith((_HUGE, _HUGE_QUOTA)):
            causes.append(invalid(at, name, "must be a standard resource for quota"))
        causes += _check_quantity(name, quantity, at)
    return causes


def _check_container_name(name: str, path: str) -> Causes:
    causes = _check_resource_name(name, path)
    if "/" not in name:
        if name not in _COMPUTE and not name.startswith(_HUGE):
            causes.append(invalid(path, name, "must be a standard resource for containers"))
    elif not _is_native(name) and check_extended_resource_name(name, path):
        causes.append(invalid(path, name, "doesn't follow extended resource name standard"))
    return causes


def _check_resource_name(name: str, path: str) -> Causes:
    if problems := check_qualified(name):
        return [invalid(path, name, problem) for problem in problems]
    if "/" not in name and name not in _STANDARD and not name.startswith((_HUGE, _HUGE_QUOTA)):
        return [invalid(path, name, "must be a standard resource type or fully qualified")]
    return []


def _check_quantity(name: str, quantity: str, path: str) -> Causes:
    nano = parse_amount(quantity)
    causes = [invalid(path, quantity, "must be greater than or equal to 0")] if nano < 0 else []
    counted = name in _COUNTED or not check_extended_resource_name(name, path)
    if counted and nano % NANO:
        causes.append(invalid(path, quantity, "must be an integer"))
    return causes


def _is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name
