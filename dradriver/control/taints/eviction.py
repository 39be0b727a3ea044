"""When a pod has to go because of the taints of its devices, as a pure function (KEP-5055).

The rules are those of `pkg/controller/devicetainteviction` of Kubernetes 1.37: a taint counts from the moment
it was added; a toleration holds it off for its seconds, or for good without any; only tolerations that name
the effect NoExecute count; of several taints the earliest decides.
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
        source: where it stands, for the log.
        rule: the UID of the DeviceTaintRule that it comes from; none for a driver's own.
    """

    taint: Taint
    source: str
    rule: str = ""


@dataclass(frozen=True, slots=True)
class Eviction:
    """A pod has to go.

    Attributes:
        when: at what time.
        taints: all that call for it.
    """

    when: datetime
    taints: tuple[EvictingTaint, ...]

    @property
    def rules(self) -> set[str]:
        """The UIDs of the rules among the causes."""
        return {each.rule for each in self.taints if each.rule}


TaintsOf: TypeAlias = Callable[[DeviceResult], Iterable[EvictingTaint]]
"""The evicting taints of an allocated device, from its slice and from rules."""


def claim_eviction(claim: ResourceClaim, taints_of: TaintsOf) -> Eviction | None:
    """When the pods of an allocated claim have to go; None if they may stay."""
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
    """When a pod has to go; None if it may stay, or has no node yet.

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
