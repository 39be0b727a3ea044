"""Rejects objects that would exceed a quota of their namespace (the admission plugin `ResourceQuota`)."""

from collections.abc import Iterable, Mapping

from dradriver.cluster.apiserver.backend import ServerParts
from dradriver.cluster.apiserver.formats.quantity import format_amount, parse_amount
from dradriver.cluster.apiserver.formats.values import Object, dig
from dradriver.cluster.apiserver.kinds.resources import CLAIMS, PODS, QUOTAS
from dradriver.cluster.apiserver.quota.namespace import make_usage_function, select_counted, sum_usage
from dradriver.cluster.apiserver.quota.usage import Amounts, describe_missing
from dradriver.cluster.apiserver.requests.parse import ApiRequest
from dradriver.cluster.apiserver.status import forbidden

__all__ = ["admit"]


def admit(server: ServerParts, request: ApiRequest, obj: Object, before: Object | None = None) -> None:
    """Reject a new or changed pod or claim that would exceed a quota.

    The usage is computed in this call, and nothing else is written until the object is stored. Two concurrent
    creates can therefore not both get the last device of a quota.

    Raises:
        StatusError: 403: a quota would be exceeded. The message is the real server's message.
    """
    target = request.target
    storage, namespace = target.resource.storage, target.namespace
    if target.subresource or storage not in {PODS, CLAIMS} or (storage == PODS and before is not None):
        return
    quotas = [stored.object for stored in server.store.all(QUOTAS) if stored.key[0] == namespace]
    if not quotas:
        return
    usage = make_usage_function(server, storage, namespace)
    more = _subtract_usage(usage(obj), usage(before) if before is not None else {})
    for quota in quotas:
        problem = _describe_missing(server, storage, namespace, quota, obj) or _describe_exceeded(
            server, namespace, quota, more
        )
        if problem:
            raise forbidden(target.resource.subject(obj["metadata"]["name"]), problem)


def _subtract_usage(new: Amounts, old: Amounts) -> Amounts:
    more = {name: quantity - old.get(name, 0) for name, quantity in new.items()}
    return {name: quantity for name, quantity in more.items() if quantity > 0}


def _get_limits(quota: Object) -> Mapping[str, str]:
    return dig(quota, "spec", "hard") or {}


def _describe_missing(server: ServerParts, storage: str, namespace: str, quota: Object, obj: Object) -> str:
    if storage != PODS:
        return ""
    missing = describe_missing(obj, select_counted(server, storage, namespace, _get_limits(quota)))
    return f"failed quota: {quota['metadata']['name']}: must specify {missing}" if missing else ""


def _describe_exceeded(server: ServerParts, namespace: str, quota: Object, more: Amounts) -> str:
    hard = _get_limits(quota)
    wanted = {name: more[name] for name in sorted(hard) if name in more}
    if not wanted:
        return ""
    used = sum_usage(server, namespace, hard)
    over = [name for name in wanted if used.get(name, 0) + wanted[name] > parse_amount(hard[name])]
    if not over:
        return ""
    limits = ",".join(f"{name}={hard[name]}" for name in over)
    return (
        f"exceeded quota: {quota['metadata']['name']}, requested: {_format_amounts(over, wanted, hard)}, "
        f"used: {_format_amounts(over, used, hard)}, limited: {limits}"
    )


def _format_amounts(names: Iterable[str], amounts: Amounts, like: Mapping[str, str]) -> str:
    return ",".join(f"{name}={format_amount(amounts.get(name, 0), like[name])}" for name in names)
