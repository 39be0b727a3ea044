"""When a pod must be evicted because of the taints of its devices, as a pure function (KEP-5055).

The rules are those of `pkg/controller/devicetainteviction` of Kubernetes 1.37. A taint counts from the moment
when it was added. A toleration delays it for its seconds, or forever without any. Only tolerations that name
the effect NoExecute count. Of several taints, the earliest decides.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from dradriver.allocator.request.tolerations import tolerates
from dradriver.control.claims.pod_claims import made_for, reserved_for
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
        source: the object that contains it, for the log.
        rule: the UID of its DeviceTaintRule; none for a driver's own taint.
    """

    taint: Taint
    source: str
    rule: str = ""


@dataclass(frozen=True, slots=True)
class Eviction:
    """A pod must be evicted.

    Attributes:
        when: the time of the eviction.
        taints: all taints that require it.
    """

    when: datetime
    taints: tuple[EvictingTaint, ...]

    @property
    def rules(self) -> set[str]:
        """Return the UIDs of the rules among the causes."""
        return {each.rule for each in self.taints if each.rule}


TaintsOf: TypeAlias = Callable[[DeviceResult], Iterable[EvictingTaint]]
"""Returns the evicting taints of an allocated device, from its slice and from rules."""


def claim_eviction(claim: ResourceClaim, taints_of: TaintsOf) -> Eviction | None:
    """Return when the pods of an allocated claim must be evicted; None if they may stay."""
    causes = [
        (when, found)
        for result in claim.results
        for found in taints_of(result)
        if (when := _when(result, found.taint)) is not None
    ]
    if not causes:
        return None
    return Eviction(min(when for when, _ in causes), tuple(dict.fromkeys(found for _, found in causes)))


def _when(result: DeviceResult, taint: Taint) -> datetime | None:
    began = taint.time_added or _LONG_AGO
    seconds = [
        toleration.toleration_seconds
        for toleration in result.tolerations
        if toleration.effect == "NoExecute" and tolerates(toleration, taint)
    ]
    if None in seconds:
        return None
    return began + timedelta(seconds=max(0, min((each for each in seconds if each is not None), default=0)))


def pod_eviction(pod: Pod, claims: Mapping[str, ResourceClaim], taints_of: TaintsOf) -> Eviction | None:
    """Return when a pod must be evicted; None if it may stay, or has no node yet.

    Args:
        pod: the pod.
        claims: all claims by `namespace/name`.
        taints_of: see `TaintsOf`.
    """
    if not pod.spec.node_name:
        return None
    found: list[Eviction] = []
    for wanted in pod.spec.resource_claims:
        claim = claims.get(f"{pod.metadata.namespace}/{pod.claim_name(wanted)}")
        if claim is None or not reserved_for(claim, pod):
            continue
        mine = bool(wanted.resource_claim_name) or made_for(claim, pod)
        if mine and (eviction := claim_eviction(claim, taints_of)) is not None:
            found.append(eviction)
    if not found:
        return None
    causes = dict.fromkeys(taint for eviction in found for taint in eviction.taints)
    return Eviction(min(eviction.when for eviction in found), tuple(causes))
