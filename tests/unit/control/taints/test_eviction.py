"""When a pod must be evicted, by the rules of Kubernetes' device taint eviction controller."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from dradriver.control.claims.pod_claims import consumer_of
from dradriver.control.taints.eviction import EvictingTaint, pod_eviction
from dradriver.model.core.workload import Pod, PodClaimStatus
from dradriver.model.resource.claim import DeviceResult, DeviceToleration, ResourceClaim
from dradriver.model.resource.device import Taint
from dradriver.testing import builders

ADDED = datetime(2026, 1, 1, tzinfo=UTC)
BROKEN = EvictingTaint(Taint(key="example.com/broken", effect="NoExecute", time_added=ADDED), "a slice")


def using(*tolerations: DeviceToleration, name: str = "claim-1") -> tuple[Pod, ResourceClaim]:
    """Return a pod on its node and the claim that is reserved for it."""
    pod = builders.pod(name, node_name="node-1")
    result = DeviceResult(
        request="device",
        driver=builders.DRIVER,
        pool="node-1",
        device="device-0",
        tolerations=list(tolerations),
    )
    claim = builders.allocated(builders.claim(name=name), result)
    return pod, reserved(claim, pod)


def reserved(claim: ResourceClaim, *pods: Pod) -> ResourceClaim:
    return replace(claim, status=replace(claim.status, reserved_for=[consumer_of(pod) for pod in pods]))


def when(pod: Pod, *claims: ResourceClaim, taints: tuple[EvictingTaint, ...] = (BROKEN,)) -> datetime | None:
    eviction = pod_eviction(pod, {claim.ref: claim for claim in claims}, lambda _: taints)
    return eviction.when if eviction else None


def test_a_taint_counts_from_when_it_was_added() -> None:
    assert when(*using()) == ADDED


def test_without_a_taint_the_pod_is_not_evicted() -> None:
    assert when(*using(), taints=()) is None


@pytest.mark.parametrize(
    ("toleration", "seconds"),
    [
        (DeviceToleration(operator="Exists", effect="NoExecute"), None),
        (DeviceToleration(key="example.com/broken", effect="NoExecute"), None),
        (DeviceToleration(key="example.com/broken", effect="NoExecute", toleration_seconds=60), 60),
        (DeviceToleration(operator="Exists", effect="NoExecute", toleration_seconds=-5), 0),
        (DeviceToleration(key="example.com/other", operator="Exists", effect="NoExecute"), 0),
        (DeviceToleration(key="example.com/broken", value="other", effect="NoExecute"), 0),
        (DeviceToleration(operator="Exists", effect="NoSchedule"), 0),
        (DeviceToleration(operator="Exists"), 0),
    ],
    ids=["all", "its-key", "its-seconds", "no-less-than-none", "other-key", "other-value", "NoSchedule", "any"],
)
def test_a_toleration_of_the_effect_delays_eviction(toleration: DeviceToleration, seconds: int | None) -> None:
    assert when(*using(toleration)) == (None if seconds is None else ADDED + timedelta(seconds=seconds))


def test_of_several_tolerations_the_shortest_counts() -> None:
    pod, claim = using(
        DeviceToleration(operator="Exists", effect="NoExecute", toleration_seconds=60),
        DeviceToleration(key="example.com/broken", effect="NoExecute", toleration_seconds=20),
    )
    assert when(pod, claim) == ADDED + timedelta(seconds=20)


def test_of_several_taints_the_earliest_decides_and_all_are_named() -> None:
    later = EvictingTaint(replace(BROKEN.taint, time_added=ADDED + timedelta(hours=1)), "a rule", "uid-1")
    pod, claim = using()
    eviction = pod_eviction(pod, {claim.ref: claim}, lambda _: (later, BROKEN))
    assert eviction is not None
    assert (eviction.when, eviction.rules) == (ADDED, {"uid-1"})


def test_of_several_claims_the_earliest_decides() -> None:
    _, other = using(
        DeviceToleration(operator="Exists", effect="NoExecute", toleration_seconds=60), name="other"
    )
    pod, claim = using()
    pod = replace(
        pod,
        spec=replace(
            pod.spec, resource_claims=[*builders.pod("other").spec.resource_claims, *pod.spec.resource_claims]
        ),
    )
    assert when(pod, reserved(other, pod), reserved(claim, pod)) == ADDED


def test_a_pod_without_a_node_or_a_reservation_is_not_evicted() -> None:
    pod, claim = using()
    assert when(replace(pod, spec=replace(pod.spec, node_name="")), claim) is None
    assert when(pod, reserved(claim)) is None
    assert when(pod) is None


def test_a_generated_claim_of_another_pod_does_not_count() -> None:
    _, claim = using()
    pod = builders.pod(templates=["template"], node_name="node-1")
    named = PodClaimStatus(name=pod.spec.resource_claims[0].name, resource_claim_name="claim-1")
    pod = replace(pod, status=replace(pod.status, resource_claim_statuses=[named]))
    assert when(pod, reserved(claim, pod)) is None
