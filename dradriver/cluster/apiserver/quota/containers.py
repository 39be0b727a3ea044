"""The sum of the resources of a pod's containers (`PodRequests`, `PodLimits` of component-helpers)."""

from collections.abc import Mapping

from dradriver.cluster.apiserver.formats.quantity import amount
from dradriver.cluster.apiserver.formats.values import Object, dig

Amounts = dict[str, int]
"""Resource name to units of 1e-9."""


def pod_amounts(spec: Object, kind: str) -> Amounts:
    """Return the total `requests` or `limits` of a pod.

    For each resource, it is the larger of two amounts: that of the containers that run together, and that of
    the start.

    Args:
        spec: of the pod.
        kind: `requests` or `limits`.
    """
    together: Amounts = {}
    for container in spec.get("containers") or ():
        together = _plus(together, _of(container, kind))
    sidecars: Amounts = {}
    at_start: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = _of(container, kind)
        if container.get("restartPolicy") == "Always":
            together, sidecars = _plus(together, own), _plus(sidecars, own)
            own = {}
        at_start = _most(at_start, _plus(sidecars, own))
    return _most(together, at_start)


def _of(container: Object, kind: str) -> Amounts:
    return {name: amount(text) for name, text in (dig(container, "resources", kind) or {}).items()}


def _plus(first: Mapping[str, int], second: Mapping[str, int]) -> Amounts:
    return {name: first.get(name, 0) + second.get(name, 0) for name in {**first, **second}}


def _most(first: Mapping[str, int], second: Mapping[str, int]) -> Amounts:
    return {name: max(first.get(name, 0), second.get(name, 0)) for name in {**first, **second}}
