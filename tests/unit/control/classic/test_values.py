"""Classic claims, their classes, and reservations."""

import pytest
from msgspec.structs import replace

from dradriver.control.claims.pod_claims import consumer_of
from dradriver.control.classic.values import (
    ClassicClasses,
    ClassicObjects,
    explain_unreservable,
    find_answer,
    is_controlled,
    is_delayed,
    is_shareable,
    list_awaited,
)
from dradriver.errors import InvalidObjectError
from dradriver.model.classic.scheduling import ClaimSchedulingStatus, PodSchedulingContext, SchedulingStatus
from dradriver.model.core.meta import ObjectMeta, OwnerReference
from dradriver.model.core.workload import PodClaim
from dradriver.model.resource.claim import ResourceClaim
from dradriver.testing import builders
from tests.unit.control.classic.drivers import classic_world

A = "a.example.com"


def claim_of(controller: str = A, **options: object) -> ResourceClaim:
    return builders.claim(builders.device_request(controller), **options)  # type: ignore[arg-type]


def granted(*, shareable: bool = False, devices: int = 1) -> ResourceClaim:
    """Return a claim that the controller has allocated on node-1."""
    world, [driver] = classic_world(1, A)
    driver.shareable, driver.devices = shareable, devices
    claim = claim_of()
    world.add(claim)
    driver.grant(claim.ref, "node-1")
    return world.claims[claim.ref]


def test_a_claim_of_other_classes_is_not_classic() -> None:
    classes = ClassicClasses()
    classes.put(builders.device_class())
    assert not classes
    assert classes.resolve(builders.claim()) is None
    classes.put(builders.controller_class(A, controller=A))
    assert classes
    assert classes.resolve(builders.claim()) is None


def test_a_changed_class_changes_the_result() -> None:
    classes, claim = ClassicClasses(), claim_of()
    classes.put(builders.controller_class(A, controller=A))
    before = classes.resolve(claim)
    assert before is not None
    assert before.controller == A
    classes.put(builders.controller_class(A, controller="other.example.com"))
    after = classes.resolve(claim)
    assert after is not None
    assert after.controller == "other.example.com"
    classes.put(builders.device_class(A))
    assert classes.resolve(claim) is None


def test_the_result_has_the_current_version_of_the_claim() -> None:
    classes, claim = ClassicClasses(), claim_of()
    classes.put(builders.controller_class(A, controller=A))
    classes.resolve(claim)
    newer = replace(claim, metadata=replace(claim.metadata, resource_version="2"))
    found = classes.resolve(newer)
    assert found is not None
    assert found.claim is newer


def test_an_invalid_class_is_an_error_each_time_until_it_is_corrected() -> None:
    classes, claim = ClassicClasses(), claim_of()
    right = builders.controller_class(A, controller=A)
    classes.put(replace(right, spec=replace(right.spec, selectors=[])))
    for _ in range(2):
        with pytest.raises(InvalidObjectError, match=r"spec\.selectors"):
            classes.resolve(claim)
    classes.put(right)
    assert classes.resolve(claim) is not None


def test_an_allocated_claim_is_known_by_its_finalizer_when_its_class_is_gone() -> None:
    assert is_controlled(granted())
    assert not is_controlled(builders.allocated(builders.claim(), "device-0"))


def test_the_mode_of_a_claim_is_known_without_its_class() -> None:
    assert is_delayed(claim_of())
    assert not is_delayed(claim_of(configs=[builders.controller_claim("Immediate")]))


@pytest.mark.parametrize("shareable", [False, True])
def test_a_second_pod_reserves_only_a_claim_whose_handle_is_shareable(*, shareable: bool) -> None:
    first, second = builders.pod("claim-1", name="first"), builders.pod("claim-1", name="second")
    claim = granted(shareable=shareable)
    assert is_shareable(claim) is shareable
    used = replace(claim, status=replace(claim.status, reserved_for=[consumer_of(first)]))
    assert explain_unreservable(claim, second) is None
    assert explain_unreservable(used, first) is None
    expected = None if shareable else "resourceclaim in use (default/claim-1 is not shareable)"
    assert explain_unreservable(used, second) == expected


def test_a_claim_of_the_scheduler_has_no_such_limit() -> None:
    used = builders.allocated(builders.claim(), "device-0")
    used = replace(used, status=replace(used.status, reserved_for=[consumer_of(builders.pod(name="first"))]))
    assert explain_unreservable(used, builders.pod("claim-1", name="second")) is None


def test_a_claim_without_devices_is_not_shareable() -> None:
    claim = granted(devices=0)
    assert claim.allocation is not None
    empty = replace(claim.allocation, devices=replace(claim.allocation.devices, config=[]))
    assert not is_shareable(replace(claim, status=replace(claim.status, allocation=empty)))


def test_an_answer_counts_under_each_name_that_the_pod_gives_the_claim() -> None:
    world, _ = classic_world(1, A)
    claim = claim_of()
    pod = builders.pod("claim-1")
    twice = [*pod.spec.resource_claims, PodClaim(name="again", resource_claim_name="claim-1")]
    pod = replace(pod, spec=replace(pod.spec, resource_claims=twice))
    controlled = world.snapshot().cluster.classic_classes.resolve(claim)
    assert controlled is not None
    [awaited] = list_awaited(pod, [controlled])
    assert awaited.pod_claims == ("claim-0", "again")
    entry = ClaimSchedulingStatus(name="again", controller_name=A)
    context = PodSchedulingContext(status=SchedulingStatus(resource_claims=[entry]))
    assert find_answer(context, awaited) == entry
    foreign = replace(entry, controller_name="other.example.com")
    context = PodSchedulingContext(status=SchedulingStatus(resource_claims=[foreign]))
    assert find_answer(context, awaited) is None


def test_the_context_of_an_earlier_pod_of_the_same_name_does_not_count() -> None:
    pod = builders.pod()
    owner = OwnerReference(api_version="v1", kind="Pod", name="pod-1", uid="earlier")
    context = PodSchedulingContext(metadata=ObjectMeta(name="pod-1", owner_references=[owner]))
    assert ClassicObjects(context).context_of(pod) is None
