"""The columns of `kubectl get` for each kind, as in the real server's tables."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from dradriver.cluster.apiserver.formats.values import JsonValue, Object, dig
from dradriver.cluster.apiserver.kinds.resources import ServedResource
from dradriver.cluster.apiserver.schema.decode import parse_time


@dataclass(frozen=True, slots=True)
class Column:
    """One column. If it is `wide`, it is printed only with `-o wide`."""

    name: str
    cell: Callable[[Object], JsonValue]
    type: str = "string"
    wide: bool = False


def format_duration(seconds: float) -> str:
    """Return a duration as kubectl prints ages: `5s`, `2m30s`, `3h`, `4d`, `2y`."""
    whole = int(seconds)
    if whole < 0:
        return "0s" if whole >= -1 else "<invalid>"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    steps = (
        (whole < 120, f"{whole}s"), (minutes < 10, _format_two_units(minutes, "m", whole % 60, "s")),
        (minutes < 180, f"{minutes}m"),
        (hours < 8, _format_two_units(hours, "h", minutes % 60, "m")), (hours < 48, f"{hours}h"),
        (days < 8, _format_two_units(days, "d", hours % 24, "h")), (days < 730, f"{days}d"),
        (days < 2920, _format_two_units(days // 365, "y", days % 365, "d")),
    )  # fmt: skip
    return next((text for fits, text in steps if fits), f"{days // 365}y")


def _format_two_units(first: int, unit: str, second: int, small: str) -> str:
    return f"{first}{unit}{second}{small}" if second else f"{first}{unit}"


def _format_age(value: JsonValue) -> str:
    if not value:
        return "<unknown>"
    return format_duration((datetime.now(UTC) - parse_time(value)).total_seconds())


def _path(*path: str, missing: str = "") -> Callable[[Object], JsonValue]:
    def cell(obj: Object) -> JsonValue:
        value = dig(obj, *path)
        return missing if value in (None, "") else value

    return cell


def _name(obj: Object) -> str:
    return str(obj["metadata"]["name"])


def _age(obj: Object) -> str:
    return _format_age(obj["metadata"].get("creationTimestamp"))


def _pod_ready(obj: Object) -> str:
    statuses = dig(obj, "status", "containerStatuses") or []
    return f"{sum(bool(each.get('ready')) for each in statuses)}/{len(dig(obj, 'spec', 'containers') or ())}"


def _pod_status(obj: Object) -> str:
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    status = obj.get("status") or {}
    gated = any(
        each.get("type") == "PodScheduled" and each.get("reason") == "SchedulingGated"
        for each in status.get("conditions") or ()
    )
    shown = status.get("reason") or ("SchedulingGated" if gated else status.get("phase", ""))
    for container in reversed(status.get("containerStatuses") or []):
        state = container.get("state") or {}
        waiting, terminated = dig(state, "waiting", "reason"), state.get("terminated")
        if waiting:
            shown = waiting
        elif terminated:
            code = (
                f"Signal:{terminated['signal']}"
                if terminated.get("signal")
                else f"ExitCode:{terminated.get('exitCode', 0)}"
            )
            shown = terminated.get("reason") or code
    return str(shown)


def _pod_restarts(obj: Object) -> str:
    return str(sum(each.get("restartCount", 0) for each in dig(obj, "status", "containerStatuses") or ()))


def _readiness_gates(obj: Object) -> str:
    total = dig(obj, "spec", "readinessGates") or []
    if not total:
        return "<none>"
    conditions = {each.get("type"): each.get("status") for each in dig(obj, "status", "conditions") or ()}
    return f"{sum(conditions.get(each['conditionType']) == 'True' for each in total)}/{len(total)}"


def _path_or_none(*path: str) -> Callable[[Object], JsonValue]:
    return lambda obj: dig(obj, *path) or "<none>"


def _node_status(obj: Object) -> str:
    ready = next((each for each in dig(obj, "status", "conditions") or () if each.get("type") == "Ready"), None)
    shown = "Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"
    return f"{shown},SchedulingDisabled" if dig(obj, "spec", "unschedulable") else shown


def _node_roles(obj: Object) -> str:
    prefix = "node-role.kubernetes.io/"
    roles = [key.removeprefix(prefix) for key in obj["metadata"].get("labels") or {} if key.startswith(prefix)]
    return ",".join(sorted(roles)) or "<none>"


def _node_address(kind: str) -> Callable[[Object], JsonValue]:
    def cell(obj: Object) -> JsonValue:
        found = (each["address"] for each in dig(obj, "status", "addresses") or () if each.get("type") == kind)
        return next(found, "<none>")

    return cell


def _quota_usage(obj: Object, *, limits: bool) -> str:
    hard, used = dig(obj, "status", "hard") or {}, dig(obj, "status", "used") or {}
    names = [name for name in sorted(hard) if name.startswith("limits.") == limits]
    return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)


def _claim_state(obj: Object) -> str:
    status = obj.get("status") or {}
    states = []
    if obj["metadata"].get("deletionTimestamp"):
        states.append("deleted")
    if status.get("allocation") is None:
        states += [] if states else ["pending"]
    else:
        states.append("allocated")
        if status.get("reservedFor"):
            states.append("reserved")
    return ",".join(states)


def _event_object(obj: Object) -> str:
    involved = obj.get("involvedObject") or {}
    return f"{involved.get('kind', '').lower()}/{involved.get('name', '')}"


def _event_seen(obj: Object) -> str:
    return _format_age(
        obj.get("lastTimestamp")
        or dig(obj, "series", "lastObservedTime")
        or obj.get("eventTime")
        or obj.get("firstTimestamp")
    )


NAME, AGE = Column("Name", _name), Column("Age", _age)
_WIDE_NAME = Column("Name", _name, wide=True)
_COLUMNS: dict[str, Sequence[Column]] = {
    "Pod": (
        NAME, Column("Ready", _pod_ready), Column("Status", _pod_status),
        Column("Restarts", _pod_restarts), AGE,
        Column("IP", _path_or_none("status", "podIP"), wide=True),
        Column("Node", _path_or_none("spec", "nodeName"), wide=True),
        Column("Nominated Node", _path_or_none("status", "nominatedNodeName"), wide=True),
        Column("Readiness Gates", _readiness_gates, wide=True),
    ),
    "Node": (
        NAME, Column("Status", _node_status), Column("Roles", _node_roles), AGE,
        Column("Version", _path("status", "nodeInfo", "kubeletVersion")),
        Column("Internal-IP", _node_address("InternalIP"), wide=True),
        Column("External-IP", _node_address("ExternalIP"), wide=True),
        Column("OS-Image", _path("status", "nodeInfo", "osImage", missing="<unknown>"), wide=True),
        Column("Kernel-Version", _path("status", "nodeInfo", "kernelVersion", missing="<unknown>"), wide=True),
        Column(
            "Container-Runtime",
            _path("status", "nodeInfo", "containerRuntimeVersion", missing="<unknown>"),
            wide=True,
        ),
    ),
    "Namespace": (NAME, Column("Status", _path("status", "phase")), AGE),
    "ServiceAccount": (NAME, AGE),
    "ConfigMap": (
        NAME, Column("Data", lambda obj: len(obj.get("data") or ()) + len(obj.get("binaryData") or ())), AGE,
    ),
    "Secret": (
        NAME, Column("Type", _path("type")), Column("Data", lambda obj: len(obj.get("data") or ())), AGE,
    ),
    "ResourceQuota": (
        NAME, Column("Request", lambda obj: _quota_usage(obj, limits=False)),
        Column("Limit", lambda obj: _quota_usage(obj, limits=True)), AGE,
    ),
    "PodDisruptionBudget": (
        NAME,
        Column("Min Available", _path("spec", "minAvailable", missing="N/A")),
        Column("Max Unavailable", _path("spec", "maxUnavailable", missing="N/A")),
        Column("Allowed Disruptions", _path("status", "disruptionsAllowed"), "integer"),
        AGE,
    ),
    "Lease": (NAME, Column("Holder", _path("spec", "holderIdentity")), AGE),
    "Event": (
        Column("Last Seen", _event_seen), Column("Type", _path("type")), Column("Reason", _path("reason")),
        Column("Object", _event_object),
        Column("Subobject", _path("involvedObject", "fieldPath"), wide=True),
        Column(
            "Source",
            lambda obj: dig(obj, "source", "component") or obj.get("reportingComponent") or "",
            wide=True,
        ),
        Column("Message", _path("message")),
        Column(
            "First Seen", lambda obj: _format_age(obj.get("firstTimestamp") or obj.get("eventTime")), wide=True
        ),
        Column("Count", lambda obj: obj.get("count") or dig(obj, "series", "count") or 1, wide=True),
        _WIDE_NAME,
    ),
    "DeviceClass": (NAME, AGE),
    "ResourceClaim": (NAME, Column("State", _claim_state), AGE),
    "ResourceClaimTemplate": (NAME, AGE),
    "ResourceSlice": (
        NAME, Column("Node", _path("spec", "nodeName")), Column("Driver", _path("spec", "driver")),
        Column("Pool", _path("spec", "pool", "name")), AGE,
    ),
    "DeviceTaintRule": (
        NAME,
        Column("Key", _path("spec", "taint", "key")),
        Column("Value", _path("spec", "taint", "value")),
        Column("Effect", _path("spec", "taint", "effect")),
        Column("TimeAdded", lambda obj: _format_age(dig(obj, "spec", "taint", "timeAdded"))),
        AGE,
    ),
    "CustomResourceDefinition": (
        NAME, Column("Created At", lambda obj: obj["metadata"].get("creationTimestamp"), "date"),
    ),
}  # fmt: skip


def get_columns(resource: ServedResource, printer: Sequence[Object] = ()) -> Sequence[Column]:
    """Return the columns of a kind. The columns of a custom kind come from its definition (`printer`)."""
    if resource.schema is not None:
        return _COLUMNS.get(resource.kind, (NAME, AGE))
    if not printer:
        return (NAME, AGE)
    return (NAME, *(_to_column(each) for each in printer))


def _to_column(spec: Object) -> Column:
    path = [part for part in str(spec.get("jsonPath", "")).replace("\\.", "\0").split(".") if part]
    path = [part.replace("\0", ".") for part in path]
    wide = spec.get("priority", 0) > 0
    if spec.get("type") == "date":
        return Column(spec["name"], lambda obj: _format_age(dig(obj, *path)), wide=wide)
    return Column(spec["name"], lambda obj: _to_cell(dig(obj, *path)), wide=wide)


def _to_cell(value: JsonValue) -> JsonValue:
    return json.dumps(value, separators=(",", ":")) if isinstance(value, (dict, list)) else value


def build_table(
    resource: ServedResource,
    items: Sequence[tuple[Object, Object]],
    printer: Sequence[Object],
    metadata: Object,
) -> Object:
    """Return a `Table`.

    Args:
        resource: the kind.
        items: for each row, the stored object and the row's field `object`.
        printer: the printer columns of a custom kind.
        metadata: list metadata.
    """
    shown = get_columns(resource, printer)
    definitions = [
        {"name": each.name, "type": each.type, "format": "name" if each in (NAME, _WIDE_NAME) else "",
        "description": each.name,
         "priority": 1 if each.wide else 0}
        for each in shown
    ]  # fmt: skip
    rows = [{"cells": [each.cell(obj) for each in shown], "object": carried} for obj, carried in items]
    return {
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
        "columnDefinitions": definitions, "rows": rows,
    }  # fmt: skip
