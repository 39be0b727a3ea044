"""Compute when a pod must be evicted because of the taints of its devices, as a pure function (KEP-5055).

The rules are those of `pkg/controller/devicetainteviction` of Kubernetes 1.37. A taint requires the eviction of
a pod at the time when the taint was added. If the pod's request tolerates the taint, the eviction is delayed by
the toleration's `tolerationSeconds`. A toleration without `tolerationSeconds` prevents an eviction because of
this taint. Only tolerations that name the effect NoExecute count. If several taints require the eviction, the
earliest of their times counts.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from dradriver.allocator.request.tolerations import tolerates
from dradriver.control.claims.pod_claims import is_made_for, is_reserved_for
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import DeviceResult, ResourceClaim
from dradriver.model.resource.device import Taint

__all__ = ["EvictingTaint", "Eviction", "TaintsOf", "claim_eviction", "pod_eviction"]

_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class EvictingTaint:
    """A taint with the effect NoExecute on a device.

    Attributes:
        taint: the taint.
        source: the object that contains the taint, for the log.
        rule: the UID of the DeviceTaintRule of the taint. Empty for a driver's own taint.
    """

    taint: Taint
    source: str
    rule: str = ""


@dataclass(frozen=True, slots=True)
class Eviction:
    """The eviction of a pod.

    Attributes:
        when: the time of the eviction.
        taints: all taints that require the eviction.
    """

    when: datetime
    taints: tuple[EvictingTaint, ...]

    @property
    def rules(self) -> set[str]:
        """Return the UIDs of the DeviceTaintRules that require the eviction."""
        return {each.rule for each in self.taints if each.rule}


TaintsOf: TypeAlias = Callable[[DeviceResult], Iterable[EvictingTaint]]
"""Function that returns the evicting taints of an allocated device, from its slice and from rules."""


def claim_eviction(claim: ResourceClaim, taints_of: TaintsOf) -> Eviction | None:
    """Return when the pods of an allocated claim must be evicted, and why; None if they may stay."""
    causes = [
        (when, taint)
        for result in claim.results
        for taint in taints_of(result)
        if (when := _eviction_time(result, taint.taint)) is not None
    ]
    if not causes:
        return None
    return Eviction(min(when for when, _ in causes), tuple(dict.fromkeys(taint for _, taint in causes)))


def _eviction_time(result: DeviceResult, taint: Taint) -> datetime | None:
    start = taint.time_added or _LONG_AGO
    seconds = [
        toleration.toleration_seconds
        for toleration in result.tolerations
        if toleration.effect == "NoExecute" and tolerates(toleration, taint)
    ]
    if None in seconds:
        return None
    return start + timedelta(seconds=max(0, min((each for each in seconds if each is not None), default=0)))


def pod_eviction(pod: Pod, claims: Mapping[str, ResourceClaim], taints_of: TaintsOf) -> Eviction | None:
    """Return when a pod must be evicted, and why; None if it may stay, or has no node yet.

    Args:
        pod: the pod.
        claims: all claims by `namespace/name`.
        taints_of: returns the evicting taints of an allocated device.
    """
    if not pod.spec.node_name:
        return None
    evictions: list[Eviction] = []
    for wanted in pod.spec.resource_claims:
        claim = claims.get(f"{pod.metadata.namespace}/{pod.claim_name(wanted)}")
        if claim is None or not is_reserved_for(claim, pod):
            continue
        is_used = bool(wanted.resource_claim_name) or is_made_for(claim, pod)
        if is_used and (eviction := claim_eviction(claim, taints_of)) is not None:
            evictions.append(eviction)
    if not evictions:
        return None
    causes = dict.fromkeys(taint for eviction in evictions for taint in eviction.taints)
    return Eviction(min(eviction.when for eviction in evictions), tuple(causes))
