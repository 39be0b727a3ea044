"""Finds the objects of a namespace that quotas count, and computes their total usage."""

from collections.abc import Callable, Iterable, Mapping

from dradriver.cluster.apiserver.backend import ServerParts
from dradriver.cluster.apiserver.formats.values import Object, dig
from dradriver.cluster.apiserver.kinds.resources import CLAIMS, CLASSES, PODS
from dradriver.cluster.apiserver.quota.usage import (
    SPECIAL_CLAIM,
    Amounts,
    Namespace,
    compute_claim_usage,
    compute_pod_usage,
    is_used_by_claims,
    is_used_by_pods,
)

__all__ = ["Usage", "make_usage_function", "select_counted"]

Usage = Callable[[Object], Amounts]


def _read_namespace(server: ServerParts, namespace: str) -> Namespace:
    store = server.store

    def pod(name: str) -> Object | None:
        stored = store.get(PODS, namespace, name)
        return stored.object if stored is not None else None

    def special_claims(uid: str) -> Iterable[Object]:
        for claim in _list_objects(server, CLAIMS, namespace):
            owners = claim["metadata"].get("ownerReferences") or ()
            marked = (claim["metadata"].get("annotations") or {}).get(SPECIAL_CLAIM) == "true"
            if marked and any(each.get("controller") and each["uid"] == uid for each in owners):
                yield claim

    classes = (stored.object for stored in store.all(CLASSES))
    named = {each["metadata"]["name"]: dig(each, "spec", "extendedResourceName") or "" for each in classes}
    extended = server.gates.enabled("DRAExtendedResource")
    return Namespace(named, extended, pod, special_claims, server.now())


def _list_objects(server: ServerParts, storage: str, namespace: str) -> Iterable[Object]:
    return (stored.object for stored in server.store.all(storage) if stored.key[0] == namespace)


def make_usage_function(server: ServerParts, storage: str, namespace: str) -> Usage:
    """Return a function that computes the usage of one pod or one claim, depending on `storage`."""
    view = _read_namespace(server, namespace)
    if storage == PODS:
        return lambda pod: compute_pod_usage(pod, view.now)
    return lambda claim: compute_claim_usage(claim, view)


def select_counted(server: ServerParts, storage: str, namespace: str, names: Iterable[str]) -> list[str]:
    """Return those of a quota's resources (`names`) that pods or claims, depending on `storage`, can use."""
    if storage == PODS:
        return [name for name in names if is_used_by_pods(name)]
    view = _read_namespace(server, namespace)
    return [name for name in names if is_used_by_claims(name, view)]


def sum_usage(server: ServerParts, namespace: str, hard: Mapping[str, str]) -> Amounts:
    """Return the total usage of a namespace, for each resource of a quota (`hard`) that this server counts."""
    used: Amounts = {}
    for storage in (PODS, CLAIMS):
        names = select_counted(server, storage, namespace, hard)
        used = {**dict.fromkeys(names, 0), **used}
        if not names:
            continue
        usage = make_usage_function(server, storage, namespace)
        for each in _list_objects(server, storage, namespace):
            own = usage(each)
            for name in names:
                used[name] += own.get(name, 0)
    return used
