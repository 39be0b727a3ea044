"""The objects of a namespace as quotas see them, and their total usage."""

from collections.abc import Callable, Iterable, Mapping

from dradriver.cluster.apiserver.backend import ServerParts
from dradriver.cluster.apiserver.formats.values import Object, dig
from dradriver.cluster.apiserver.kinds.resources import CLAIMS, CLASSES, PODS
from dradriver.cluster.apiserver.quota.containers import Amounts
from dradriver.cluster.apiserver.quota.usage import (
    SPECIAL,
    Namespace,
    claim_usage,
    counts_claims,
    counts_pods,
    pod_usage,
)

__all__ = ["Usage", "counted_by", "usage_of"]

Usage = Callable[[Object], Amounts]


def _view(server: ServerParts, namespace: str) -> Namespace:
    store = server.store

    def pod(name: str) -> Object | None:
        stored = store.get(PODS, namespace, name)
        return stored.object if stored is not None else None

    def special_claims(uid: str) -> Iterable[Object]:
        for claim in _objects(server, CLAIMS, namespace):
            owners = claim["metadata"].get("ownerReferences") or ()
            marked = (claim["metadata"].get("annotations") or {}).get(SPECIAL) == "true"
            if marked and any(each.get("controller") and each["uid"] == uid for each in owners):
                yield claim

    classes = (stored.object for stored in store.all(CLASSES))
    named = {each["metadata"]["name"]: dig(each, "spec", "extendedResourceName") or "" for each in classes}
    extended = server.gates.enabled("DRAExtendedResource")
    return Namespace(named, extended, pod, special_claims, server.now())


def _objects(server: ServerParts, storage: str, namespace: str) -> Iterable[Object]:
    return (stored.object for stored in server.store.all(storage) if stored.key[0] == namespace)


def usage_of(server: ServerParts, storage: str, namespace: str) -> Usage:
    """Return a function that computes the usage of an object of a kind: pods and claims."""
    view = _view(server, namespace)
    if storage == PODS:
        return lambda pod: pod_usage(pod, view.now)
    return lambda claim: claim_usage(claim, view)


def counted_by(server: ServerParts, storage: str, namespace: str, names: Iterable[str]) -> list[str]:
    """Return the resources of a quota that objects of a kind use."""
    if storage == PODS:
        return [name for name in names if counts_pods(name)]
    view = _view(server, namespace)
    return [name for name in names if counts_claims(name, view)]


def used_in(server: ServerParts, namespace: str, hard: Mapping[str, str]) -> Amounts:
    """Return the total usage of a namespace, for the resources of a quota that are counted here."""
    used: Amounts = {}
    for storage in (PODS, CLAIMS):
        names = counted_by(server, storage, namespace, hard)
        used = {**dict.fromkeys(names, 0), **used}
        if not names:
            continue
        usage = usage_of(server, storage, namespace)
        for each in _objects(server, storage, namespace):
            own = usage(each)
            for name in names:
                used[name] += own.get(name, 0)
    return used
