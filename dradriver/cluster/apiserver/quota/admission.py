"""Rejects objects that would exceed a quota of their namespace (the admission plugin `ResourceQuota`)."""

from collections.abc import Iterable, Mapping

from dradriver.cluster.apiserver.backend import ServerParts
from dradriver.cluster.apiserver.formats.quantity import amount, printed
from dradriver.cluster.apiserver.formats.values import Object, dig
from dradriver.cluster.apiserver.kinds.resources import CLAIMS, PODS, QUOTAS
from dradriver.cluster.apiserver.quota.containers import Amounts
from dradriver.cluster.apiserver.quota.namespace import counted_by, usage_of, used_in
from dradriver.cluster.apiserver.quota.usage import missing_of_pod
from dradriver.cluster.apiserver.requests.parse import ApiRequest
from dradriver.cluster.apiserver.status import forbidden

__all__ = ["admit"]


def admit(server: ServerParts, request: ApiRequest, obj: Object, before: Object | None = None) -> None:
    """Reject a new or changed pod or claim that would exceed a quota.

    The usage is computed now, and nothing else is written until the object is stored, so two creates can't both
    get the last device of a quota.

    Raises:
        StatusError: 403, in the words of the real server.
    """
    target = request.target
    storage, namespace = target.resource.storage, target.namespace
    if target.subresource or storage not in {PODS, CLAIMS} or (storage == PODS and before is not None):
        return
    quotas = [stored.object for stored in server.store.all(QUOTAS) if stored.key[0] == namespace]
    if not quotas:
        return
    usage = usage_of(server, storage, namespace)
    more = _more(usage(obj), usage(before) if before is not None else {})
    for quota in quotas:
        problem = _missing(server, storage, namespace, quota, obj) or _exceeded(server, namespace, quota, more)
        if problem:
            raise forbidden(target.resource.about(obj["metadata"]["name"]), problem)


def _more(new: Amounts, old: Amounts) -> Amounts:
    more = {name: quantity - old.get(name, 0) for name, quantity in new.items()}
    return {name: quantity for name, quantity in more.items() if quantity > 0}


def _hard(quota: Object) -> Mapping[str, str]:
    return dig(quota, "spec", "hard") or {}


def _missing(server: ServerParts, storage: str, namespace: str, quota: Object, obj: Object) -> str:
    if storage != PODS:
        return ""
    missing = missing_of_pod(obj, counted_by(server, storage, namespace, _hard(quota)))
    return f"failed quota: {quota['metadata']['name']}: must specify {missing}" if missing else ""


def _exceeded(server: ServerParts, namespace: str, quota: Object, more: Amounts) -> str:
    hard = _hard(quota)
    wanted = {name: more[name] for name in sorted(hard) if name in more}
    if not wanted:
        return ""
    used = used_in(server, namespace, hard)
    over = [name for name in wanted if used.get(name, 0) + wanted[name] > amount(hard[name])]
    if not over:
        return ""
    return (
        f"exceeded quota: {quota['metadata']['name']}, requested: {_listed(over, wanted, hard)}, "
        f"used: {_listed(over, used, hard)}, limited: {','.join(f'{name}={hard[name]}' for name in over)}"
    )


def _listed(names: Iterable[str], amounts: Amounts, like: Mapping[str, str]) -> str:
    return ",".join(f"{name}={printed(amounts.get(name, 0), like[name])}" for name in names)
