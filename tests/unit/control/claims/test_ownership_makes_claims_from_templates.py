from msgspec.structs import replace

from dradriver.control.claims.ownership import generated_claim, pod_step
from dradriver.control.runtime.actions import CreateClaim, EmitEvent, NextAction, RecordClaims, Reserve
from dradriver.model.resource.claim import POD_CLAIM_ANNOTATION
from dradriver.testing import builders
from tests.unit.control.world import NOW, World, template


def world() -> World:
    made = World()
    made.add(template(), builders.pod(templates=["template"]))
    return made


def test_the_claim_belongs_to_the_pod_and_names_the_pods_claim() -> None:
    w = world()
    step = pod_step(w.pod(), w.objects())
    assert isinstance(step.action, CreateClaim)
    meta = step.action.claim.metadata
    assert meta.generate_name == "pod-1-template-0-"
    assert meta.name.startswith(meta.generate_name)
    assert meta.annotations == {POD_CLAIM_ANNOTATION: "template-0"}
    assert meta.labels == {"team": "red"}
    owner = meta.controller
    assert owner is not None
    assert (owner.kind, owner.name, owner.uid) == ("Pod", "pod-1", w.pod().metadata.uid)


def test_the_pod_status_names_the_claim_and_then_nothing_is_left_to_do() -> None:
    w = world()
    w.settle()
    (claim,) = w.claims_of("pod-1")
    assert w.pod().claim_name(w.pod().spec.resource_claims[0]) == claim.metadata.name
    assert [type(write) for write in w.writes[:2]] == [CreateClaim, RecordClaims]
    assert pod_step(w.pod(), w.objects()).next is NextAction.DONE


def test_a_claim_that_the_pod_status_does_not_name_after_a_crash_is_adopted() -> None:
    w = world()
    step = pod_step(w.pod(), w.objects())
    assert step.action is not None
    w.apply(step.action)
    again = pod_step(w.pod(), w.objects())
    assert isinstance(again.action, RecordClaims)


def test_a_second_create_has_the_name_of_the_first() -> None:
    """The API server then rejects it, also if the cache is stale."""
    w = world()
    first, second = (pod_step(w.pod(), w.objects()).action for _ in range(2))
    assert first == second


def test_a_name_of_another_claim_is_not_used() -> None:
    w = world()
    pod = w.pod()
    wanted = generated_claim(pod, pod.spec.resource_claims[0], template())
    w.add(builders.claim(name=wanted.metadata.name))
    w.settle()
    assert len(w.claims) == 2
    assert [c.metadata.name for c in w.claims_of("pod-1")] != [wanted.metadata.name]


def test_a_deleted_claim_is_created_again() -> None:
    w = world()
    w.settle()
    w.claims.clear()
    w.settle()
    assert len(w.claims_of("pod-1")) == 1


def test_two_pods_of_one_name_have_two_claims() -> None:
    """A recreated pod must not use the claim of the deleted pod."""
    one, other = builders.pod(templates=["template"]), builders.pod(templates=["template"])
    names = {generated_claim(p, p.spec.resource_claims[0], template()).metadata.name for p in (one, other)}
    assert len(names) == 2


def test_of_long_names_a_part_of_both_is_kept() -> None:
    pod = builders.pod(name="p" * 60, templates=["template"])
    name = generated_claim(pod, replace(pod.spec.resource_claims[0], name="c" * 60), template()).metadata.name
    assert len(name) <= 63
    assert "ppp-ccc" in name


def test_a_missing_template_is_reported_by_an_event_and_the_pod_waits() -> None:
    w = World()
    w.add(builders.pod(templates=["nowhere"]))
    step = pod_step(w.pod(), w.objects())
    assert step.next is NextAction.WAIT
    assert isinstance(step.action, EmitEvent)
    assert step.action.reason == "FailedResourceClaimCreation"
    assert 'resource claim template "nowhere" not found' in step.action.message


def test_no_claims_are_created_for_pods_that_will_not_run() -> None:
    made = builders.pod(templates=["template"])
    ended = replace(made, status=replace(made.status, phase="Succeeded"))
    deleted = replace(made, metadata=replace(made.metadata, deletion_timestamp=NOW))
    for pod in (ended, deleted):
        w = World()
        w.add(template(), pod)
        assert pod_step(pod, w.objects()).next is NextAction.DONE


def test_allocated_claims_are_reserved_for_a_pod_with_a_preset_node_name() -> None:
    w = World()
    w.add(builders.allocated(builders.claim(), "device-0"), builders.pod("claim-1", node_name="node-1"))
    step = pod_step(w.pod(), w.objects())
    assert isinstance(step.action, Reserve)
    w.apply(step.action)
    assert [c.uid for c in w.claims["default/claim-1"].status.reserved_for] == [w.pod().metadata.uid]
    assert pod_step(w.pod(), w.objects()).next is NextAction.DONE
