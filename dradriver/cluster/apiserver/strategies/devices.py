# ruff: noqa: ARG002 -- the methods of all strategies have the same parameters
"""Strategies of the kinds of resource.k8s.io."""

from dradriver.cluster.apiserver.formats.values import Object, dig
from dradriver.cluster.apiserver.strategies import dropping
from dradriver.cluster.apiserver.strategies.base import Context, Strategy, keep, read_text, set_defaults
from dradriver.cluster.apiserver.validation import claims, slices
from dradriver.cluster.apiserver.validation.field import Causes, forbidden, immutable
from dradriver.cluster.apiserver.validation.metadata import check_metadata

ADMIN_LABEL = "resource.kubernetes.io/admin-access"


def default_claim(spec: Object) -> None:
    """Set the defaults of a claim's requests."""
    for request in dig(spec, "devices", "requests") or ():
        for each in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            if each is not None:
                set_defaults(each, {"allocationMode": "ExactCount"})
                if each["allocationMode"] == "ExactCount" and not each.get("count"):
                    each["count"] = 1
                _default_tolerations(each)


def _default_tolerations(owner: Object) -> None:
    for toleration in owner.get("tolerations") or ():
        set_defaults(toleration, {"operator": "Equal"})


def _check_admin_access(context: Context, obj: Object, requests: list[Object], path: str) -> Causes:
    wanted = next((i for i, each in enumerate(requests) if dig(each, "exactly", "adminAccess")), None)
    return [] if wanted is None else _check_admin_namespace(context, obj, f"{path}[{wanted}].adminAccess")


def _check_admin_namespace(context: Context, obj: Object, path: str) -> Causes:
    if context.namespace_labels(obj["metadata"].get("namespace", "")).get(ADMIN_LABEL) == "true":
        return []
    detail = f"admin access to devices requires the `{ADMIN_LABEL}: true` label on the containing namespace"
    return [forbidden(path, detail)]


class ClaimStrategy(Strategy):
    """Claims: the spec never changes. When a device is deallocated, its entry in the status is removed."""

    def prepare(self, context: Context, obj: Object, old: Object | None) -> None:
        """See `Strategy`."""
        keep(obj, old or {"status": {}}, "status")
        spec = obj.setdefault("spec", {})
        default_claim(spec)
        dropping.drop_claim_fields(spec, old and old.get("spec"), context.gates)

    def validate(self, context: Context, obj: Object, old: Object | None) -> Causes:
        """See `Strategy`."""
        if old is not None:
            return claims.check_claim_update(obj, old)
        requests = dig(obj, "spec", "devices", "requests") or []
        causes = _check_admin_access(context, obj, requests, "spec.devices.requests")
        return causes + claims.check_claim_spec(obj["spec"], "spec", context.cel_check)

    def prepare_status(self, context: Context, obj: Object, old: Object) -> None:
        """See `Strategy`."""
        super().prepare_status(context, obj, old)
        status = obj.setdefault("status", {})
        for result in dig(status, "allocation", "devices", "results") or ():
            _default_tolerations(result)
        dropping.drop_status_fields(obj, old, context.gates)
        _drop_deallocated(status, old.get("status") or {})

    def validate_status(self, context: Context, obj: Object, old: Object) -> Causes:
        """See `Strategy`."""
        causes: Causes = []
        results = dig(obj, "status", "allocation", "devices", "results") or []
        before = dig(old, "status", "allocation", "devices", "results") or []
        wanted = next((i for i, each in enumerate(results) if each.get("adminAccess")), None)
        if wanted is not None and not any(each.get("adminAccess") for each in before):
            path = f"status.allocation.devices.results[{wanted}].adminAccess"
            causes += _check_admin_namespace(context, obj, path)
        if context.gates.enabled("DRAResourceClaimGranularStatusAuthorization"):
            causes += _authorize_status(context, obj, old)
        return causes + claims.check_claim_status(obj, old)


def _drop_deallocated(status: Object, old: Object) -> None:
    """Remove the status entries of devices that are no longer allocated."""
    kept = {claims.get_device_id(each) for each in dig(status, "allocation", "devices", "results") or ()}
    before = {claims.get_device_id(each) for each in dig(old, "allocation", "devices", "results") or ()}
    devices = [each for each in status.get("devices") or () if claims.get_device_id(each) not in before - kept]
    if devices:
        status["devices"] = devices
    else:
        status.pop("devices", None)


def _authorize_status(context: Context, obj: Object, before: Object) -> Causes:
    """Check that a user may write these parts of a claim's status.

    Admins may write everything. A driver's service account may write the device entries of claims that are
    allocated to its node. A kubelet may write nothing. Source: resource.k8s.io's synthetic subresources
    `binding` and `driver`.
    """
    user, namespace = context.user, obj["metadata"].get("namespace", "")
    if user.is_admin or not user.node:
        return []
    status, old = obj.get("status") or {}, before.get("status") or {}
    causes: Causes = []
    if any(status.get(field) != old.get(field) for field in ("allocation", "reservedFor")):
        detail = (
            'changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", '
            f'verb="{context.verb}" permission: {_describe_denial(context, "binding", context.verb)}'
        )
        causes.append(forbidden("status.allocation", detail))
    if status.get("allocation") is None:
        return causes
    associated = not user.is_node and get_allocated_node(status["allocation"]) == user.node
    for driver in () if associated else _list_modified_drivers(status, old):
        verb = f"arbitrary-node:{context.verb}"
        detail = (
            f'changing status.devices requires resource="resourceclaims/driver", verb="[{verb}]" permission: '
            f"{_describe_denial(context, 'driver', verb, driver, namespace)}"
        )
        causes.append(forbidden("status.devices", detail))
    return causes


def _describe_denial(context: Context, subresource: str, verb: str, name: str = "", namespace: str = "") -> str:
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    named = f' "{name}"' if name else ""
    return (
        f'resourceclaims.resource.k8s.io{named} is forbidden: User "{context.user.name}" '
        f"cannot {verb} resource "
        f'"resourceclaims/{subresource}" in API group "resource.k8s.io" {where}'
    )


def get_allocated_node(allocation: Object) -> str:
    """Return the node of an allocation that selects exactly `metadata.name In [node]`; "" for others."""
    terms = dig(allocation, "nodeSelector", "nodeSelectorTerms") or []
    if len(terms) != 1 or terms[0].get("matchExpressions") or len(terms[0].get("matchFields") or ()) != 1:
        return ""
    field = terms[0]["matchFields"][0]
    exact = (
        field.get("key") == "metadata.name"
        and field.get("operator") == "In"
        and len(field.get("values") or ()) == 1
    )
    return str(field["values"][0]) if exact else ""


def _list_modified_drivers(status: Object, old: Object) -> list[str]:
    now = {claims.get_device_id(each): each for each in status.get("devices") or ()}
    before = {claims.get_device_id(each): each for each in old.get("devices") or ()}
    return sorted({key[0] for key in {*now, *before} if now.get(key) != before.get(key)})


class TemplateStrategy(Strategy):
    """Templates: the spec never changes."""

    def prepare(self, context: Context, obj: Object, old: Object | None) -> None:
        """See `Strategy`."""
        spec = obj.setdefault("spec", {}).setdefault("spec", {})
        default_claim(spec)
        dropping.drop_claim_fields(spec, dig(old, "spec", "spec"), context.gates)

    def validate(self, context: Context, obj: Object, old: Object | None) -> Causes:
        """See `Strategy`."""
        if old is not None:
            return [] if obj["spec"] == old["spec"] else [immutable("spec", "<value omitted>")]
        spec = obj["spec"]
        requests = dig(spec, "spec", "devices", "requests") or []
        causes = _check_admin_access(context, obj, requests, "spec.devices.requests")
        causes += check_metadata(spec.get("metadata") or {}, "spec.metadata")
        return causes + claims.check_claim_spec(spec["spec"], "spec.spec", context.cel_check)


class ClassStrategy(Strategy):
    """Device classes."""

    def prepare(self, context: Context, obj: Object, old: Object | None) -> None:
        """See `Strategy`."""
        dropping.drop_class_fields(obj.setdefault("spec", {}), old and old.get("spec"), context.gates)

    def validate(self, context: Context, obj: Object, old: Object | None) -> Causes:
        """See `Strategy`."""
        return claims.check_device_class(obj, old, context.cel_check)


class SliceStrategy(Strategy):
    """Resource slices: gated fields are dropped, and taints get a timestamp."""

    def prepare(self, context: Context, obj: Object, old: Object | None) -> None:
        """See `Strategy`."""
        spec = obj.setdefault("spec", {})
        for device in spec.get("devices") or ():
            for taint in device.get("taints") or ():
                set_defaults(taint, {"timeAdded": context.now})
        dropping.drop_slice_fields(spec, old and old.get("spec"), context.gates)

    def validate(self, context: Context, obj: Object, old: Object | None) -> Causes:
        """See `Strategy`."""
        return slices.check_slice(obj, old)

    def warnings(self, obj: Object) -> list[str]:
        """See `Strategy`."""
        driver = read_text(obj.get("spec") or {}, "driver")
        if driver == driver.lower():
            return []
        return [f'spec.driver: driver names should be lowercase; "{driver}" contains uppercase characters']


class TaintRuleStrategy(Strategy):
    """Device taint rules."""

    def prepare(self, context: Context, obj: Object, old: Object | None) -> None:
        """See `Strategy`."""
        keep(obj, old or {"status": {}}, "status")
        taint = obj.setdefault("spec", {}).setdefault("taint", {})
        same = old is not None and taint.get("effect") == dig(old, "spec", "taint", "effect")
        set_defaults(taint, {"timeAdded": dig(old, "spec", "taint", "timeAdded") if same else context.now})

    def validate(self, context: Context, obj: Object, old: Object | None) -> Causes:
        """See `Strategy`."""
        return claims.check_taint_rule(obj)

    def validate_status(self, context: Context, obj: Object, old: Object) -> Causes:
        """See `Strategy`."""
        return claims.check_conditions(dig(obj, "status", "conditions") or [], "status.conditions")
