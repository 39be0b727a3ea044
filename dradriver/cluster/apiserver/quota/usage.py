"""The usage of a quota by a pod or a claim (`pkg/quota/v1/evaluator/core` of Kubernetes 1.37).

Devices of one class are counted under three names, so that it does not matter how they were requested
(KEP-5004, Resource Quota): the class's own name, its implicit extended resource, and the extended resource that
the class names. A claim that a scheduler created for a pod's extended resources does not count amounts that its
pod counts already.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from dradriver.cluster.apiserver.formats.quantity import NANO
from dradriver.cluster.apiserver.formats.values import Object, dig
from dradriver.cluster.apiserver.quota.containers import Amounts, pod_amounts
from dradriver.cluster.apiserver.validation.names import extended_resource_name

REQUESTS = "requests."
IMPLICIT = "deviceclass.resource.kubernetes.io/"
PER_CLASS = ".deviceclass.resource.k8s.io/devices"
CLAIM_COUNT = "count/resourceclaims.resource.k8s.io"
POD_COUNT = "count/pods"
SPECIAL = "resource.kubernetes.io/extended-resource-claim"

_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_MUST_BE_SET = ("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory")
_WORST = 32
"""The maximum number of devices of a claim: a request for all devices counts as this many."""


@dataclass(frozen=True)
class Namespace:
    """The parts of a namespace that usage depends on besides the object itself.

    Attributes:
        named: all classes, with the extended resource that each names, or "".
        extended: whether DRAExtendedResource is on.
        pod: finds a pod by name.
        special_claims: returns the claims that were created for the extended resources of a pod, by its UID.
        now: the time.
    """

    named: Mapping[str, str]
    extended: bool
    pod: Callable[[str], Object | None]
    special_claims: Callable[[str], Iterable[Object]]
    now: datetime


def pod_usage(pod: Object, now: datetime) -> Amounts:
    """Return the usage of a pod. Only the object counts if it has ended or its deletion is long overdue."""
    used = {POD_COUNT: NANO}
    if dig(pod, "status", "phase") in {"Succeeded", "Failed"} or _overdue(pod, now):
        return used
    return {**used, "pods": NANO, **_asked(pod["spec"])}


def _asked(spec: Object) -> Amounts:
    """Return the amounts of the containers, under the quota's names."""
    requests, limits = pod_amounts(spec, "requests"), pod_amounts(spec, "limits")
    used: Amounts = {}
    for name in _COMPUTE:
        if name in requests:
            used[name] = used[REQUESTS + name] = requests[name]
        if name in limits:
            used[f"limits.{name}"] = limits[name]
    for name, quantity in requests.items():
        if name.startswith("hugepages-"):
            used[name] = used[REQUESTS + name] = quantity
        elif name.startswith(IMPLICIT) or not extended_resource_name(name, ""):
            used[REQUESTS + name] = quantity
    return used


def _overdue(pod: Object, now: datetime) -> bool:
    meta = pod["metadata"]
    if not meta.get("deletionTimestamp") or meta.get("deletionGracePeriodSeconds") is None:
        return False
    asked = datetime.fromisoformat(meta["deletionTimestamp"])
    return now > asked + timedelta(seconds=meta["deletionGracePeriodSeconds"])


def missing_of_pod(pod: Object, wanted: Iterable[str]) -> str:
    """Return the limited compute resources that a container does not set: "cpu for: a,b", or ""."""
    found: dict[str, list[str]] = {}
    for container in [*pod["spec"].get("containers", ()), *(pod["spec"].get("initContainers") or ())]:
        own = _asked({"containers": [container]})
        for name in set(wanted) & set(_MUST_BE_SET) - set(own):
            found.setdefault(name, []).append(container["name"])
    return "; ".join(f"{name} for: {','.join(sorted(found[name]))}" for name in sorted(found))


def claim_usage(claim: Object, where: Namespace) -> Amounts:
    """Return the usage of a claim: itself, and devices by class, with the largest of the alternatives."""
    used = {CLAIM_COUNT: NANO}
    for request in dig(claim, "spec", "devices", "requests") or ():
        worst: Amounts = {}
        exactly = request.get("exactly")
        for each in request.get("firstAvailable") or ([exactly] if exactly else ()):
            name = each.get("deviceClassName", "") + PER_CLASS
            worst[name] = max(worst.get(name, 0), _devices(each) * NANO)
        for name, quantity in worst.items():
            used[name] = used.get(name, 0) + quantity
    return {**used, **_under_other_names(used, claim, where)} if where.extended else used


def _devices(request: Object) -> int:
    modes = {"ExactCount": request.get("count", 1), "All": _WORST}
    return int(modes.get(request.get("allocationMode", "ExactCount"), 0))


def _under_other_names(used: Amounts, claim: Object, where: Namespace) -> Amounts:
    found: Amounts = {}
    for name, quantity in used.items():
        class_name = name.removesuffix(PER_CLASS) if name.endswith(PER_CLASS) else ""
        if class_name:
            found[REQUESTS + IMPLICIT + class_name] = quantity
            if resource := where.named.get(class_name):
                found[REQUESTS + resource] = quantity
    counted = _counted_by_the_pod(claim, where)
    rest = {name: quantity - counted.get(name, 0) for name, quantity in found.items()}
    return {name: quantity for name, quantity in rest.items() if quantity > 0}


def _counted_by_the_pod(claim: Object, where: Namespace) -> Amounts:
    """Return the amounts that the pod of a special claim counts already.

    Empty if the pod does not confirm the claim.
    """
    if dig(claim["metadata"].get("annotations") or {}, SPECIAL) != "true":
        return {}
    owner = next(
        (each for each in claim["metadata"].get("ownerReferences") or () if each.get("controller")), None
    )
    if owner is None or (owner["apiVersion"], owner["kind"]) != ("v1", "Pod"):
        return {}
    pod = where.pod(owner["name"])
    if pod is None or pod["metadata"]["uid"] != owner["uid"] or not _is_the_pods(claim, pod, where):
        return {}
    return pod_usage(pod, where.now)


def _is_the_pods(claim: Object, pod: Object, where: Namespace) -> bool:
    named = dig(pod, "status", "extendedResourceClaimStatus", "resourceClaimName")
    if named is not None:
        return bool(named == claim["metadata"]["name"])
    # Before the pod names one, only the first that was created is exempt: any user can set annotations.
    first = min(where.special_claims(pod["metadata"]["uid"]), key=_made, default=claim)
    return _made(claim) <= _made(first)


def _made(claim: Object) -> tuple[str, str]:
    return claim["metadata"]["creationTimestamp"], claim["metadata"]["name"]


def counts_pods(name: str) -> bool:
    """Return whether pods use a resource of a quota."""
    compute = {f"{kind}{each}" for each in _COMPUTE for kind in ("", REQUESTS, "limits.")}
    if name in {POD_COUNT, "pods", *compute} or name.startswith(("hugepages-", REQUESTS + "hugepages-")):
        return True
    return _is_extended(name)


def counts_claims(name: str, where: Namespace) -> bool:
    """Return whether claims use a resource of a quota."""
    if name == CLAIM_COUNT or name.endswith(PER_CLASS):
        return True
    return where.extended and _is_extended(name) and _served(name.removeprefix(REQUESTS), where)


def _is_extended(name: str) -> bool:
    implicit = name.startswith(REQUESTS + IMPLICIT)
    return implicit or (name.startswith(REQUESTS) and "/" in name and "kubernetes.io/" not in name)


def _served(resource: str, where: Namespace) -> bool:
    if resource.startswith(IMPLICIT):
        return resource.removeprefix(IMPLICIT) in where.named
    return resource in where.named.values()
