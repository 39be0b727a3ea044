"""The usage of a quota by a pod or a claim (`pkg/quota/v1/evaluator/core` of Kubernetes 1.37).

Devices of one class are counted under three names: the class's own name, its implicit extended resource, and
the extended resource that the class names. The count therefore does not depend on how the devices were
requested (KEP-5004, Resource Quota). If a scheduler created a claim for a pod's extended resources, the claim
does not count amounts that the pod already counts.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from dradriver.cluster.apiserver.formats.quantity import NANO, parse_amount
from dradriver.cluster.apiserver.formats.values import Object, dig
from dradriver.cluster.apiserver.validation.names import check_extended_resource_name

Amounts = dict[str, int]
"""Amounts by resource name, in units of 1e-9."""

REQUESTS = "requests."
IMPLICIT = "deviceclass.resource.kubernetes.io/"
PER_CLASS = ".deviceclass.resource.k8s.io/devices"
CLAIM_COUNT = "count/resourceclaims.resource.k8s.io"
POD_COUNT = "count/pods"
SPECIAL_CLAIM = "resource.kubernetes.io/extended-resource-claim"

_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_MUST_BE_SET = ("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory")
_MAX_DEVICES = 32
"""The maximum number of devices of a claim. A request for all devices counts as this number of devices."""


@dataclass(frozen=True)
class Namespace:
    """Values of a namespace on which the usage of an object depends, besides the object itself.

    Attributes:
        classes: for each class, the extended resource that it names, or "".
        has_extended_resources: whether DRAExtendedResource is on.
        pod: finds a pod by name.
        special_claims: returns the claims that were created for the extended resources of the pod with a given
            UID.
        now: the current time.
    """

    classes: Mapping[str, str]
    has_extended_resources: bool
    pod: Callable[[str], Object | None]
    special_claims: Callable[[str], Iterable[Object]]
    now: datetime


def sum_containers(spec: Object, kind: str) -> Amounts:
    """Return the total `requests` or `limits` of a pod.

    For each resource, the total is the larger of two amounts: the sum over the containers and sidecars, which
    run at the same time, and the amount that the init containers need while the pod starts.

    Args:
        spec: spec of the pod.
        kind: `requests` or `limits`.
    """
    together: Amounts = {}
    for container in spec.get("containers") or ():
        together = _add(together, _read_amounts(container, kind))
    sidecars: Amounts = {}
    at_start: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = _read_amounts(container, kind)
        if container.get("restartPolicy") == "Always":
            together, sidecars = _add(together, own), _add(sidecars, own)
            own = {}
        at_start = _max(at_start, _add(sidecars, own))
    return _max(together, at_start)


def _read_amounts(container: Object, kind: str) -> Amounts:
    return {name: parse_amount(text) for name, text in (dig(container, "resources", kind) or {}).items()}


def _add(first: Mapping[str, int], second: Mapping[str, int]) -> Amounts:
    return {name: first.get(name, 0) + second.get(name, 0) for name in {**first, **second}}


def _max(first: Mapping[str, int], second: Mapping[str, int]) -> Amounts:
    return {name: max(first.get(name, 0), second.get(name, 0)) for name in {**first, **second}}


def compute_pod_usage(pod: Object, now: datetime) -> Amounts:
    """Return the usage of a pod.

    If the pod has ended or its deletion is long overdue, only the object itself (`count/pods`) counts.
    """
    used = {POD_COUNT: NANO}
    if dig(pod, "status", "phase") in {"Succeeded", "Failed"} or _is_deletion_overdue(pod, now):
        return used
    return {**used, "pods": NANO, **_sum_container_resources(pod["spec"])}


def _sum_container_resources(spec: Object) -> Amounts:
    """Return the amounts of the containers, under the names that quotas use for them."""
    requests, limits = sum_containers(spec, "requests"), sum_containers(spec, "limits")
    used: Amounts = {}
    for name in _COMPUTE:
        if name in requests:
            used[name] = used[REQUESTS + name] = requests[name]
        if name in limits:
            used[f"limits.{name}"] = limits[name]
    for name, quantity in requests.items():
        if name.startswith("hugepages-"):
            used[name] = used[REQUESTS + name] = quantity
        elif name.startswith(IMPLICIT) or not check_extended_resource_name(name, ""):
            used[REQUESTS + name] = quantity
    return used


def _is_deletion_overdue(pod: Object, now: datetime) -> bool:
    meta = pod["metadata"]
    if not meta.get("deletionTimestamp") or meta.get("deletionGracePeriodSeconds") is None:
        return False
    requested_at = datetime.fromisoformat(meta["deletionTimestamp"])
    return now > requested_at + timedelta(seconds=meta["deletionGracePeriodSeconds"])


def describe_missing(pod: Object, wanted: Iterable[str]) -> str:
    """Return the limited compute resources that a container does not set: "cpu for: a,b", or ""."""
    found: dict[str, list[str]] = {}
    for container in [*pod["spec"].get("containers", ()), *(pod["spec"].get("initContainers") or ())]:
        own = _sum_container_resources({"containers": [container]})
        for name in set(wanted) & set(_MUST_BE_SET) - set(own):
            found.setdefault(name, []).append(container["name"])
    return "; ".join(f"{name} for: {','.join(sorted(found[name]))}" for name in sorted(found))


def compute_claim_usage(claim: Object, namespace: Namespace) -> Amounts:
    """Return the usage of a claim: the claim itself, and its devices by class.

    If a request has alternatives, the largest number of devices of each class counts.
    """
    used = {CLAIM_COUNT: NANO}
    for request in dig(claim, "spec", "devices", "requests") or ():
        largest: Amounts = {}
        exactly = request.get("exactly")
        for each in request.get("firstAvailable") or ([exactly] if exactly else ()):
            name = each.get("deviceClassName", "") + PER_CLASS
            largest[name] = max(largest.get(name, 0), _count_devices(each) * NANO)
        for name, quantity in largest.items():
            used[name] = used.get(name, 0) + quantity
    if namespace.has_extended_resources:
        used |= _count_as_extended_resources(used, claim, namespace)
    return used


def _count_devices(request: Object) -> int:
    modes = {"ExactCount": request.get("count", 1), "All": _MAX_DEVICES}
    return int(modes.get(request.get("allocationMode", "ExactCount"), 0))


def _count_as_extended_resources(used: Amounts, claim: Object, namespace: Namespace) -> Amounts:
    found: Amounts = {}
    for name, quantity in used.items():
        class_name = name.removesuffix(PER_CLASS) if name.endswith(PER_CLASS) else ""
        if class_name:
            found[REQUESTS + IMPLICIT + class_name] = quantity
            if resource := namespace.classes.get(class_name):
                found[REQUESTS + resource] = quantity
    counted = _get_pod_share(claim, namespace)
    rest = {name: quantity - counted.get(name, 0) for name, quantity in found.items()}
    return {name: quantity for name, quantity in rest.items() if quantity > 0}


def _get_pod_share(claim: Object, namespace: Namespace) -> Amounts:
    """Return the amounts that the pod of a special claim already counts.

    The result is empty if the claim is not the special claim of the pod that owns it.
    """
    if dig(claim["metadata"].get("annotations") or {}, SPECIAL_CLAIM) != "true":
        return {}
    owner = next(
        (each for each in claim["metadata"].get("ownerReferences") or () if each.get("controller")), None
    )
    if owner is None or (owner["apiVersion"], owner["kind"]) != ("v1", "Pod"):
        return {}
    pod = namespace.pod(owner["name"])
    if pod is None or pod["metadata"]["uid"] != owner["uid"] or not _is_claim_of_pod(claim, pod, namespace):
        return {}
    return compute_pod_usage(pod, namespace.now)


def _is_claim_of_pod(claim: Object, pod: Object, namespace: Namespace) -> bool:
    claim_name = dig(pod, "status", "extendedResourceClaimStatus", "resourceClaimName")
    if claim_name is not None:
        return bool(claim_name == claim["metadata"]["name"])
    # Until the pod names its special claim, only the oldest claim is exempt, because any user can set
    # annotations.
    first = min(namespace.special_claims(pod["metadata"]["uid"]), key=_creation_order, default=claim)
    return _creation_order(claim) <= _creation_order(first)


def _creation_order(claim: Object) -> tuple[str, str]:
    return claim["metadata"]["creationTimestamp"], claim["metadata"]["name"]


def is_used_by_pods(name: str) -> bool:
    """Return whether pods use the given resource of a quota."""
    compute = {f"{kind}{each}" for each in _COMPUTE for kind in ("", REQUESTS, "limits.")}
    if name in {POD_COUNT, "pods", *compute} or name.startswith(("hugepages-", REQUESTS + "hugepages-")):
        return True
    return _is_extended(name)


def is_used_by_claims(name: str, namespace: Namespace) -> bool:
    """Return whether claims use the given resource of a quota."""
    if name == CLAIM_COUNT or name.endswith(PER_CLASS):
        return True
    if not namespace.has_extended_resources:
        return False
    return _is_extended(name) and _has_class(name.removeprefix(REQUESTS), namespace)


def _is_extended(name: str) -> bool:
    implicit = name.startswith(REQUESTS + IMPLICIT)
    return implicit or (name.startswith(REQUESTS) and "/" in name and "kubernetes.io/" not in name)


def _has_class(resource: str, namespace: Namespace) -> bool:
    if resource.startswith(IMPLICIT):
        return resource.removeprefix(IMPLICIT) in namespace.classes
    return resource in namespace.classes.values()
