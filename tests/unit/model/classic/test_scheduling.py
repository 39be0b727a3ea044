"""The negotiation about a pod (KEP-3063, PodSchedulingContext)."""

from dradriver.model.classic.scheduling import ClaimSchedulingStatus, PodSchedulingContext, SchedulingStatus
from dradriver.model.core.meta import ObjectMeta, OwnerReference
from dradriver.model.encoding.codec import builtins, decode


def context(*answers: ClaimSchedulingStatus) -> PodSchedulingContext:
    owner = OwnerReference(api_version="v1", kind="Pod", name="pod-1", uid="uid-1")
    meta = ObjectMeta(name="pod-1", namespace="default", owner_references=[owner])
    return PodSchedulingContext(metadata=meta, status=SchedulingStatus(resource_claims=list(answers)))


def test_a_context_of_an_earlier_pod_of_the_same_name_is_not_for_the_pod() -> None:
    assert context().is_for("uid-1")
    assert not context().is_for("uid-2")


def test_an_answer_without_unsuitable_nodes_is_an_answer() -> None:
    answer = ClaimSchedulingStatus(name="gpu", controller_name="a.example.com")

    assert context().answer("gpu", "a.example.com") is None
    assert context(answer).answer("gpu", "a.example.com") == answer


def test_the_answer_of_another_controller_does_not_count() -> None:
    found = context(ClaimSchedulingStatus(name="gpu", controller_name="b.example.com"))

    assert found.answer("gpu", "a.example.com") is None


def test_an_empty_list_of_nodes_is_written() -> None:
    written = builtins(context(ClaimSchedulingStatus(name="gpu", controller_name="a.example.com")))

    assert written["status"]["resourceClaims"] == [
        {"name": "gpu", "controllerName": "a.example.com", "unsuitableNodes": []}
    ]
    assert decode(PodSchedulingContext, b'{"spec":{"selectedNode":"n"}}').spec.selected_node == "n"
