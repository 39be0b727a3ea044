# ruff: noqa: ARG002 -- the methods of all strategies have the same parameters
"""Strategy of pods: defaults, fields that may change after creation, graceful deletion."""

from dradriver.cluster.apiserver.formats.values import Object, copy, dig
from dradriver.cluster.apiserver.strategies.base import Context, Strategy, keep, set_defaults
from dradriver.cluster.apiserver.validation.field import (
    Causes,
    duplicate,
    forbidden,
    invalid,
    required,
)
from dradriver.cluster.apiserver.validation.names import check_required_label, check_subdomain
from dradriver.cluster.apiserver.validation.pod_claims import check_pod_claims
from dradriver.cluster.apiserver.validation.resources import check_container_amounts

_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_FINAL_PHASES = ("Succeeded", "Failed")
_MAPPING_FIELDS = ("containerName", "resourceName", "requestName")
_DEFAULTS = {
    "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
    "securityContext": {}, "schedulerName": "default-scheduler", "enableServiceLinks": True, "priority": 0,
    "preemptionPolicy": "PreemptLowerPriority", "serviceAccountName": "default", "serviceAccount": "default",
}  # fmt: skip
_IMMUTABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


class PodStrategy(Strategy):
    """Pods: few fields of the spec may change; the kubelet writes the status, and confirms each deletion."""

    def prepare(self, context: Context, obj: Object, old: Object | None) -> None:
        """See `Strategy`."""
        spec = obj.setdefault("spec", {})
        if old is not None:
            keep(obj, old, "status")
            set_defaults(spec, {key: value for key, value in old["spec"].items() if key in _DEFAULTS})
            return
        obj["status"] = {"phase": "Pending", "qosClass": compute_qos_class(spec)}
        if spec.get("schedulingGates"):
            obj["status"]["conditions"] = [{
                "type": "PodScheduled", "status": "False", "lastTransitionTime": context.now,
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }]  # fmt: skip
        set_defaults(spec, copy(_DEFAULTS))
        _default_tolerations(spec)
        for field in _CONTAINERS:
            for container in spec.get(field) or ():
                _default_container(container)
        for volume in spec.get("volumes") or ():
            _default_volume(volume)

    def validate(self, context: Context, obj: Object, old: Object | None) -> Causes:
        """See `Strategy`."""
        if old is not None:
            return _check_update(obj["spec"], old["spec"])
        spec = obj["spec"]
        causes = [] if spec.get("containers") else [required("spec.containers")]
        seen: set[str] = set()
        for field in ("containers", "initContainers"):
            for index, container in enumerate(spec.get(field) or ()):
                causes += _check_container(container, f"spec.{field}[{index}]", seen)
        return causes + check_pod_claims(spec)

    def prepare_status(self, context: Context, obj: Object, old: Object) -> None:
        """See `Strategy`."""
        keep(obj, old, "spec")
        keep(obj["metadata"], old["metadata"], "ownerReferences", "deletionTimestamp", "generation")
        status, before = obj.setdefault("status", {}), old.get("status") or {}
        # The server restores fields that may not be cleared. The first of these fields names a claim that was
        # created for this pod.
        for field in ("extendedResourceClaimStatus", "qosClass"):
            if field not in status and field in before:
                status[field] = before[field]
        if not context.gates.enabled("DRAExtendedResource") and "extendedResourceClaimStatus" not in before:
            status.pop("extendedResourceClaimStatus", None)

    def validate_status(self, context: Context, obj: Object, old: Object) -> Causes:
        """See `Strategy`."""
        special = dig(obj, "status", "extendedResourceClaimStatus")
        causes = _check_special_claim(special, obj["spec"]) if special is not None else []
        names = {claim["name"] for claim in dig(obj, "spec", "resourceClaims") or ()}
        for index, each in enumerate(dig(obj, "status", "resourceClaimStatuses") or ()):
            if each.get("name") not in names:
                at = f"status.resourceClaimStatuses[{index}].name"
                causes.append(
                    invalid(
                        at, each.get("name", ""), "must match the name of an entry in `spec.resourceClaims`"
                    )
                )
        return causes

    def grace(self, obj: Object, requested: int | None) -> int:
        """See `Strategy`: a pod on a node waits for its kubelet; any other pod is removed at once."""
        spec, metadata = obj["spec"], obj["metadata"]
        seconds = requested if requested is not None else spec.get("terminationGracePeriodSeconds", 30)
        if not spec.get("nodeName") or dig(obj, "status", "phase") in _FINAL_PHASES:
            return 0
        seconds = 1 if seconds < 0 else seconds
        pending = metadata.get("deletionGracePeriodSeconds")
        return seconds if pending is None else min(seconds, pending)


def _check_update(spec: Object, old: Object) -> Causes:
    if _immutable_part(spec, old) != _immutable_part(old, old):
        return [forbidden("spec", _IMMUTABLE)]
    gates = [gate["name"] for gate in old.get("schedulingGates") or ()]
    added = [gate["name"] for gate in spec.get("schedulingGates") or () if gate["name"] not in gates]
    if not added:
        return []
    detail = f"only deletion is allowed, but found new scheduling gate '{added[0]}'"
    return [forbidden("spec.schedulingGates", detail)]


def compute_qos_class(spec: Object) -> str:
    """Return the quality-of-service class of a pod, from the CPU and memory requests and limits."""
    resources = [
        container.get("resources") or {} for field in _CONTAINERS[:2] for container in spec.get(field) or ()
    ]
    amounts = [
        (key, (each.get("requests") or {}).get(key), (each.get("limits") or {}).get(key))
        for each in resources
        for key in ("cpu", "memory")
    ]
    if not any(request or limit for _, request, limit in amounts):
        return "BestEffort"
    return (
        "Guaranteed"
        if all(limit and request in {None, limit} for _, request, limit in amounts)
        else "Burstable"
    )


def _default_container(container: Object) -> None:
    image = container.get("image", "")
    latest = image.endswith(":latest") or ":" not in image.rpartition("/")[2]
    set_defaults(container, {
        "imagePullPolicy": "Always" if latest and "@" not in image else "IfNotPresent", "resources": {},
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
    })  # fmt: skip
    limits = container["resources"].get("limits")
    if limits:
        requests = container["resources"].get("requests") or {}
        container["resources"]["requests"] = {**limits, **requests}
    for port in container.get("ports") or ():
        set_defaults(port, {"protocol": "TCP"})
    for variable in container.get("env") or ():
        if dig(variable, "valueFrom", "fieldRef") is not None:
            set_defaults(variable["valueFrom"]["fieldRef"], {"apiVersion": "v1"})


def _default_volume(volume: Object) -> None:
    for kind in ("configMap", "secret", "projected", "downwardAPI"):
        if kind in volume:
            set_defaults(volume[kind], {"defaultMode": 420})
    if "hostPath" in volume:
        set_defaults(volume["hostPath"], {"type": ""})
    if set(volume) == {"name"}:
        volume["emptyDir"] = {}


def _default_tolerations(spec: Object) -> None:
    tolerations = spec.setdefault("tolerations", [])
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        covered = any(
            each.get("effect", "NoExecute") == "NoExecute" and each.get("key", key) == key
            for each in tolerations
        )
        if not covered:
            tolerations.append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            )


def _check_container(container: Object, path: str, seen: set[str]) -> Causes:
    name = container.get("name", "")
    causes = check_required_label(name, f"{path}.name")
    if name in seen:
        causes.append(duplicate(f"{path}.name", name))
    seen.add(name)
    causes += [] if container.get("image") else [required(f"{path}.image")]
    return causes + check_container_amounts(container.get("resources") or {}, f"{path}.resources")


def _check_special_claim(status: Object, spec: Object) -> Causes:
    """Check the status entry that names the special claim for a pod's extended resources."""
    path = "status.extendedResourceClaimStatus"
    mappings = status.get("requestMappings") or ()
    causes: Causes = []
    if not mappings:
        causes.append(required(f"{path}.requestMappings", "at least one request mapping is required"))
    containers = {each["name"]: each for field in _CONTAINERS[:2] for each in spec.get(field) or ()}
    seen: set[tuple[str, ...]] = set()
    for index, mapping in enumerate(mappings):
        at = f"{path}.requestMappings[{index}]"
        key = tuple(mapping.get(field, "") for field in _MAPPING_FIELDS)
        causes += _check_mapping(containers.get(key[0]), key, at)
        causes += check_required_label(key[2], f"{path}.requestName")
        if key in seen:
            causes += [
                duplicate(f"{at}.{field}", value) for field, value in zip(_MAPPING_FIELDS, key, strict=True)
            ]
        seen.add(key)
    name = status.get("resourceClaimName", "")
    at = f"{path}.resourceClaimName"
    return causes + (
        [invalid(at, name, problem) for problem in check_subdomain(name)] if name else [required(at)]
    )


def _check_mapping(container: Object | None, key: tuple[str, ...], at: str) -> Causes:
    if container is None:
        detail = "must match the name of an entry in spec.initContainers.name or spec.containers.name"
        return [invalid(f"{at}.containerName", key[0], detail)]
    if key[1] in (dig(container, "resources", "requests") or {}):
        return []
    places = "spec.initContainers.resources.requests or spec.containers.resources.requests"
    detail = f"must match the extended resource name of an entry in {places}"
    return [invalid(f"{at}.resourceName", key[1], detail)]


def _immutable_part(spec: Object, old: Object) -> Object:
    """Return the part of a spec that may not change, for comparison with the same part of the old spec."""
    fixed = {
        key: value for key, value in spec.items() if key not in {"activeDeadlineSeconds", "schedulingGates"}
    }
    for field in _CONTAINERS[:2]:
        if field in fixed:
            fixed[field] = [{**container, "image": ""} for container in fixed[field]]
    before = old.get("tolerations") or []
    if all(each in (fixed.get("tolerations") or []) for each in before):
        fixed["tolerations"] = before
    if old.get("terminationGracePeriodSeconds", 0) < 0 and fixed.get("terminationGracePeriodSeconds") == 1:
        fixed["terminationGracePeriodSeconds"] = old["terminationGracePeriodSeconds"]
    if old.get("schedulingGates"):  # the node selection of a gated pod may still be narrowed
        fixed = {key: value for key, value in fixed.items() if key not in {"nodeSelector", "affinity"}}
    return fixed
