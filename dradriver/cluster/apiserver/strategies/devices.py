# ruff: noqa: ARG002 -- the methods of all strategies have the same parameters
"""The kinds of resource.k8s.io."""

from dradriver.cluster.apiserver.formats.values import Object, dig
from dradriver.cluster.apiserver.strategies import dropping
from dradriver.cluster.apiserver.strategies.base import Context, Strategy, default, keep, text
from dradriver.cluster.apiserver.validation import claims, slices
from dradriver.cluster.apiserver.validation.field import Causes, forbidden, immutable
from dradriver.cluster.apiserver.validation.metadata import common

ADMIN_LABEL = "resource.kubernetes.io/admin-access"


def default_claim(spec: Object) -> None:
    """Set the defaults of a claim's requests."""
    for request in dig(spec, "devices", "requests") or ():
        for each in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            if each is not None:
                default(each, {"allocationMode": "ExactCount"})
                if each["allocationMode"] == "ExactCount" and not each.get("count"):
                    each["count"] = 1
                _default_tolerations(each)


def _default_tolerations(owner: Object) -> None:
    for toleration in owner.get("tolerations") or ():
        default(toleration, {"operator": "Equal"})


def _admin_access(context: Context, obj: Object, requests: list[Object], path: str) -> Causes:
    wanted = next((i for i, each in enumerate(requests) if dig(each, "exactly", "adminAccess")), None)
    return [] if wanted is None else _admin_namespace(context, obj, f"{path}[{wanted}].adminAccess")


def _admin_namespace(context: Context, obj: Object, path: str) -> Causes:
    if context.namespace_labels(obj["metadata"].get("namespace", "")).get(ADMIN_LABEL) == "true":
        return []
    detail = f"admin access to devices requires the `{ADMIN_LABEL}: true` label on the containing namespace"
    return [forbidden(path, detail)]


class ClaimStrategy(Strategy):
    """Claims: the spec never changes. Device entries of the status are removed with the allocation."""

    def prepare_create(self, context: Context, obj: Object) -> None:
        """See `Strategy`."""
        obj["status"] = {}
        spec = obj.setdefault("spec", {})
        default_claim(spec)
        dropping.claim_spec(spec, None, context.gates)

    def validate_create(self, context: Context, obj: Object) -> Causes:
        """See `Strategy`."""
        requests = dig(obj, "spec", "devices", "requests") or []
        causes = _admin_access(context, obj, requests, "spec.devices.requests")
        return causes + claims.claim_spec(obj["spec"], "spec", context.cel_check)

    def prepare_update(self, context: Context, obj: Object, old: Object) -> None:
        """See `Strategy`."""
        keep(obj, old, "status")
        spec = obj.setdefault("spec", {})
        default_claim(spec)
        dropping.claim_spec(spec, old.get("spec"), context.gates)

    def validate_update(self, context: Context, obj: Object, old: Object) -> Causes:
        """See `Strategy`."""
        return claims.claim_update(obj, old)

    def prepare_status(self, context: Context, obj: Object, old: Object) -> None:
        """See `Strategy`."""
        super().prepare_status(context, obj, old)
        status = obj.setdefault("status", {})
        for result in dig(status, "allocation", "devices", "results") or ():
            _default_tolerations(result)
        dropping.claim_status(obj, old, context.gates)
        _drop_deallocated(status, old.get("status") or {})

    def validate_status(self, context: Context, obj: Object, old: Object) -> Causes:
        """See `Strategy`."""
        causes: Causes = []
        results = dig(obj, "status", "allocation", "devices", "results") or []
        before = dig(old, "status", "allocation", "devices", "results") or []
        wanted = next((i for i, each in enumerate(results) if each.get("adminAccess")), None)
        if wanted is not None and not any(each.get("adminAccess") for each in before):
            path = f"status.allocation.devices.results[{wanted}].adminAccess"
            causes += _admin_namespace(context, obj, path)
        if context.gates.enabled("DRAResourceClaimGranularStatusAuthorization"):
            causes += _authorize_status(context, obj, old)
        return causes + claims.claim_status(obj, old)


def _drop_deallocated(status: Object, old: Object) -> None:
    """Remove the status entries of devices that are no longer allocated."""
    kept = {claims.device_id(each) for each in dig(status, "allocation", "devices", "results") or ()}
    before = {claims.device_id(each) for each in dig(old, "allocation", "devices", "results") or ()}
    devices = [each for each in status.get("devices") or () if claims.device_id(each) not in before - kept]
    if devices:
        status["devices"] = devices
    else:
        status.pop("devices", None)


def _authorize_status(context: Context, obj: Object, before: Object) -> Causes:
    """Check that a user may write these parts of a claim's status.

    Admins may write everything, a driver's service account the device entries of claims that are allocated to
    its node, and a kubelet nothing. Source: resource.k8s.io's synthetic subresources `binding` and `driver`.
    """
    user, namespace = context.user, obj["metadata"].get("namespace", "")
    if user.is_admin or not user.node:
        return []
    status, old = obj.get("status") or {}, before.get("status") or {}
    causes: Causes = []
    if any(status.get(field) != old.get(field) for field in ("allocation", "reservedFor")):
        detail = (
            'changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", '
            f'verb="{context.verb}" permission: {_denied(context, "binding", context.verb)}'
        )
        causes.append(forbidden("status.allocation", detail))
    if status.get("allocation") is None:
        return causes
    associated = not user.is_node and allocated_node(status["allocation"]) == user.node
    for driver in () if associated else _modified_drivers(status, old):
        verb = f"arbitrary-node:{context.verb}"
        detail = (
            f'changing status.devices requires resource="resourceclaims/driver", verb="[{verb}]" permission: '
            f"{_denied(context, 'driver', verb, driver, namespace)}"
        )
        causes.append(forbidden("status.devices", detail))
    return causes


def _denied(context: Context, subresource: str, verb: str, name: str = "", namespace: str = "") -> str:
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    named = f' "{name}"' if name else ""
    return (
        f'resourceclaims.resource.k8s.io{named} is forbidden: User "{context.user.name}" '
        f"cannot {verb} resource "
        f'"resourceclaims/{subresource}" in API group "resource.k8s.io" {where}'
    )


def allocated_node(allocation: Object) -> str:
    """Return the node of an allocation with the exact selector `metadata.name In [node]`, "" for any other."""
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


def _modified_drivers(status: Object, old: Object) -> list[str]:
    now = {claims.device_id(each): each for each in status.get("devices") or ()}
    before = {claims.device_id(each): each for each in old.get("devices") or ()}
    return sorted({key[0] for key in {*now, *before} if now.get(key) != before.get(key)})


class TemplateStrategy(Strategy):
    """Templates: the spec never changes."""

    def prepare_create(self, context: Context, obj: Object) -> None:
        """See `Strategy`."""
        self._prepare(context, obj, None)

    def prepare_update(self, context: Context, obj: Object, old: Object) -> None:
        """See `Strategy`."""
        self._prepare(context, obj, dig(old, "spec", "spec"))

    @staticmethod
    def _prepare(context: Context, obj: Object, old: Object | None) -> None:
        spec = obj.setdefault("spec", {}).setdefault("spec", {})
        default_claim(spec)
        dropping.claim_spec(spec, old, context.gates)

    def validate_create(self, context: Context, obj: Object) -> Causes:
        """See `Strategy`."""
        spec = obj["spec"]
        requests = dig(spec, "spec", "devices", "requests") or []
        causes = _admin_access(context, obj, requests, "spec.devices.requests")
        causes += common(spec.get("metadata") or {}, "spec.metadata")
        return causes + claims.claim_spec(spec["spec"], "spec.spec", context.cel_check)

    def validate_update(self, context: Context, obj: Object, old: Object) -> Causes:
        """See `Strategy`."""
        return [] if obj["spec"] == old["spec"] else [immutable("spec", "<value omitted>")]


class ClassStrategy(Strategy):
    """Device classes."""

    def prepare_create(self, context: Context, obj: Object) -> None:
        """See `Strategy`."""
        obj.setdefault("spec", {})
        dropping.device_class(obj["spec"], None, context.gates)

    def prepare_update(self, context: Context, obj: Object, old: Object) -> None:
        """See `Strategy`."""
        obj.setdefault("spec", {})
        dropping.device_class(obj["spec"], old.get("spec"), context.gates)

    def validate_create(self, context: Context, obj: Object) -> Causes:
        """See `Strategy`."""
        return claims.device_class(obj, None, context.cel_check)

    def validate_update(self, context: Context, obj: Object, old: Object) -> Causes:
        """See `Strategy`."""
        return claims.device_class(obj, old, context.cel_check)


class SliceStrategy(Strategy):
    """Resource slices: gated fields are dropped, and taints get a timestamp."""

    def prepare_create(self, context: Context, obj: Object) -> None:
        """See `Strategy`."""
        spec = obj.setdefault("spec", {})
        _stamp_taints(spec, context.now)
        dropping.resource_slice(spec, None, context.gates)

    def prepare_update(self, context: Context, obj: Object, old: Object) -> None:
        """See `Strategy`."""
        spec = obj.setdefault("spec", {})
        _stamp_taints(spec, context.now)
        dropping.resource_slice(spec, old.get("spec"), context.gates)

    def validate_create(self, context: Context, obj: Object) -> Causes:
        """See `Strategy`."""
        return slices.resource_slice(obj, None)

    def validate_update(self, context: Context, obj: Object, old: Object) -> Causes:
        """See `Strategy`."""
        return slices.resource_slice(obj, old)

    def warnings(self, obj: Object) -> list[str]:
        """See `Strategy`."""
        driver = text(obj.get("spec") or {}, "driver")
        if driver == driver.lower():
            return []
        return [f'spec.driver: driver names should be lowercase; "{driver}" contains uppercase characters']


def _stamp_taints(spec: Object, now: str) -> None:
    for device in spec.get("devices") or ():
        for taint in device.get("taints") or ():
            default(taint, {"timeAdded": now})


class TaintRuleStrategy(Strategy):
    """Device taint rules."""

    def prepare_create(self, context: Context, obj: Object) -> None:
        """See `Strategy`."""
        obj["status"] = {}
        default(obj.setdefault("spec", {}).setdefault("taint", {}), {"timeAdded": context.now})

    def prepare_update(self, context: Context, obj: Object, old: Object) -> None:
        """See `Strategy`."""
        keep(obj, old, "status")
        taint = obj.setdefault("spec", {}).setdefault("taint", {})
        same = taint.get("effect") == dig(old, "spec", "taint", "effect")
        default(taint, {"timeAdded": dig(old, "spec", "taint", "timeAdded") if same else context.now})

    def validate_create(self, context: Context, obj: Object) -> Causes:
        """See `Strategy`."""
        return claims.taint_rule(obj, None)

    def validate_update(self, context: Context, obj: Object, old: Object) -> Causes:
        """See `Strategy`."""
        return claims.taint_rule(obj, old)

    def validate_status(self, context: Context, obj: Object, old: Object) -> Causes:
        """See `Strategy`."""
        return claims.conditions(dig(obj, "status", "conditions") or [], "status.conditions")
