# ruff: noqa: ARG002 -- the methods of all strategies have the same parameters
"""Strategies of custom resource definitions and of their objects."""

import re

from dradriver.cluster.apiserver.formats.values import Object, dig
from dradriver.cluster.apiserver.kinds.resources import ServedResource
from dradriver.cluster.apiserver.strategies.base import Context, Strategy, keep, keep_metadata
from dradriver.cluster.apiserver.structural import find_violations, make_structure
from dradriver.cluster.apiserver.validation.definitions import APPROVAL, PROTECTED, check_definition
from dradriver.cluster.apiserver.validation.field import Causes


class DefinitionStrategy(Strategy):
    """Definitions are served as soon as they are established, which happens at once."""

    def prepare(self, context: Context, obj: Object, old: Object | None) -> None:
        """See `Strategy`."""
        spec = obj["spec"]
        names, kind = spec["names"], spec["names"]["kind"]
        names.setdefault("singular", kind.lower())
        names.setdefault("listKind", f"{kind}List")
        spec.setdefault("conversion", {"strategy": "None"})
        stored = [version["name"] for version in spec.get("versions") or () if version["storage"]]
        obj["status"] = {
            "acceptedNames": names,
            "storedVersions": stored,
            "conditions": build_conditions(obj, context.now),
        }
        if old is not None:
            status = old.get("status") or {}
            obj["status"] = {**status, "acceptedNames": names, "conditions": _keep_times(obj, status)}

    def validate(self, context: Context, obj: Object, old: Object | None) -> Causes:
        """See `Strategy`."""
        return check_definition(obj)


def _keep_times(obj: Object, status: Object) -> list[Object]:
    """Return the new conditions. Unchanged conditions keep their time."""
    before = {each["type"]: each for each in status.get("conditions") or ()}
    return [
        before[each["type"]] if before.get(each["type"], {}).get("status") == each["status"] else each
        for each in obj["status"]["conditions"]
    ]


def build_conditions(definition: Object, now: str) -> list[Object]:
    """Return the conditions of a definition."""
    annotation = (definition["metadata"].get("annotations") or {}).get(APPROVAL, "")
    found = []
    if PROTECTED.search(definition["spec"].get("group", "")):
        found.append(_build_approval(annotation, now))
    accepted = _build_condition("NamesAccepted", "NoConflicts", "no conflicts found", now)
    return [
        *found,
        accepted,
        _build_condition("Established", "InitialNamesAccepted", "the initial names have been accepted", now),
    ]


def _build_approval(annotation: str, now: str) -> Object:
    if annotation.startswith("unapproved"):
        message = f'not approved: "{annotation}"'
        return {
            **_build_condition("KubernetesAPIApprovalPolicyConformant", "UnapprovedAnnotation", message, now),
            "status": "False",
        }
    return _build_condition(
        "KubernetesAPIApprovalPolicyConformant", "ApprovedAnnotation", f"approved in {annotation}", now
    )


def _build_condition(kind: str, reason: str, message: str, now: str) -> Object:
    return {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now}


def list_served(definition: Object) -> tuple[ServedResource, ...]:
    """Return the resources that a definition adds; empty while the definition is being deleted."""
    metadata, spec = definition["metadata"], definition["spec"]
    established = any(
        each["type"] == "Established" and each["status"] == "True"
        for each in dig(definition, "status", "conditions") or ()
    )
    if not established:
        return ()
    names, storage = spec["names"], f"{spec['group']}/{spec['names']['plural']}"
    rows = []
    for version in spec["versions"]:
        if version.get("served"):
            status = ("status",) if dig(version, "subresources", "status") is not None else ()
            selectable = {
                field["jsonPath"][1:]: field["jsonPath"][1:] for field in version.get("selectableFields") or ()
            }
            rows.append(
                ServedResource(
                    spec["group"],
                    version["name"],
                    names["plural"],
                    names["kind"],
                    spec["scope"] == "Namespaced",
                    None,
                    tuple(names.get("shortNames") or ()),
                    status,
                    {"metadata.namespace": "metadata.namespace", **selectable},
                    stored_as=storage,
                    returns_deleted=False,
                    categories=tuple(names.get("categories") or ()),
                    generation=True,
                    singular=names.get("singular", ""),
                    uid=metadata["uid"],
                    structure=make_structure(version["schema"]["openAPIV3Schema"]),
                )
            )
    return tuple(sorted(rows, key=lambda row: _version_priority(row.version), reverse=True))


def _version_priority(version: str) -> tuple[int, int, int]:
    """Return the sort key of a version in Kubernetes' order: v10, v2, v1, v1beta1, v1alpha1."""
    match = re.fullmatch(r"v(\d+)(?:(alpha|beta)(\d+))?", version)
    if match is None:
        return (-1, 0, 0)
    return ({"alpha": 0, "beta": 1, None: 2}[match[2]], int(match[1]), int(match[3] or 0))


class CustomStrategy(Strategy):
    """Objects of a custom kind: spec and status are written separately if the definition requires it."""

    def __init__(self, resource: ServedResource) -> None:
        self._with_status = "status" in resource.subresources
        self._schema = resource.structure.schema if resource.structure is not None else {}

    def prepare(self, context: Context, obj: Object, old: Object | None) -> None:
        """See `Strategy`."""
        if self._with_status:
            keep(obj, old, "status")

    def prepare_status(self, context: Context, obj: Object, old: Object) -> None:
        """See `Strategy`: everything but the status and the server's metadata is restored."""
        for field in {*obj, *old} - {"status", "metadata", "apiVersion", "kind"}:
            keep(obj, old, field)
        keep_metadata(obj, old)

    def validate(self, context: Context, obj: Object, old: Object | None) -> Causes:
        """See `Strategy`."""
        return find_violations(self._schema, obj, old)

    def validate_status(self, context: Context, obj: Object, old: Object) -> Causes:
        """See `Strategy`."""
        return find_violations(self._schema, obj, old, only="status")
