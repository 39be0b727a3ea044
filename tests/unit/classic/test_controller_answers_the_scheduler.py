"""KEP-3063, PodSchedulingContext: the duties of drivers."""

import asyncio
from collections.abc import Collection, Mapping, Sequence

import pytest

import dradriver as dra
from dradriver.classic import answering
from dradriver.cluster.apiserver import Fault
from dradriver.kube import CLASSES, PODS, SCHEDULING_CONTEXTS, PatchKind
from dradriver.model.classic.scheduling import ClaimSchedulingStatus
from tests.unit.classic.shelf import CLASS, CONTROLLER, Shelf, ShelfDriver, ShelfLab, class_of


class Quick(ShelfDriver):
    check_nodes_seconds = 0.05


async def test_an_answer_has_an_entry_for_each_claim_even_if_no_node_is_unsuitable(
    lab: ShelfLab, shelf: Shelf
) -> None:
    for name in ("claim-1", "claim-2"):
        await lab.create_claim(name)
    pod = await lab.create_pod("claim-1", "claim-2")
    async with lab.driver(ShelfDriver(shelf)):
        await lab.negotiate(pod)
        assert await lab.answer() == [[], []]
    (context,) = lab.contexts.items.values()
    entries = context.status.resource_claims
    assert [(each.name, each.controller_name) for each in entries] == [
        ("claim-0", CONTROLLER),
        ("claim-1", CONTROLLER),
    ]


async def test_nodes_are_checked_again_when_the_potential_nodes_change(lab: ShelfLab, shelf: Shelf) -> None:
    shelf.free |= {"node-1": 0, "node-2": 0}
    await lab.create_claim()
    pod = await lab.create_pod("claim-1")
    async with lab.driver(ShelfDriver(shelf)):
        await lab.negotiate(pod, potential=["node-1"])
        assert await lab.answer() == [["node-1"]]
        await lab.negotiate(pod, potential=["node-2"])
        await lab.until(lambda: unsuitable(lab) == [["node-2", "node-1"]])


async def test_prior_unsuitable_nodes_are_checked_again(lab: ShelfLab, shelf: Shelf) -> None:
    shelf.free |= {"node-1": 0, "node-2": 0}
    await lab.create_claim()
    pod = await lab.create_pod("claim-1")
    async with lab.driver(ShelfDriver(shelf)):
        await lab.negotiate(pod, potential=["node-1"])
        await lab.answer()
        shelf.free["node-1"] = 1
        await lab.negotiate(pod, potential=["node-2"])
        await lab.until(lambda: unsuitable(lab) == [["node-2"]])


async def test_prior_unsuitable_nodes_are_checked_again_while_the_scheduler_lists_none(
    lab: ShelfLab, shelf: Shelf
) -> None:
    shelf.free["node-1"] = 0
    await lab.create_claim()
    pod = await lab.create_pod("claim-1")
    async with lab.driver(Quick(shelf)):
        await lab.negotiate(pod, potential=["node-1"])
        assert await lab.answer() == [["node-1"]]
        await lab.negotiate(pod, potential=[])
        shelf.free["node-1"] = 1
        await lab.until(lambda: unsuitable(lab) == [[]])


async def test_nodes_are_checked_periodically_until_a_node_is_selected(lab: ShelfLab, shelf: Shelf) -> None:
    shelf.free["node-1"] = 0
    await lab.create_claim()
    pod = await lab.create_pod("claim-1")
    async with lab.driver(Quick(shelf)):
        await lab.negotiate(pod)
        assert await lab.answer() == [["node-1"]]
        shelf.free["node-1"] = 1
        await lab.until(lambda: unsuitable(lab) == [[]])


async def test_unsuitable_nodes_are_checked_while_the_scheduler_lists_no_potential_node(
    lab: ShelfLab, shelf: Shelf
) -> None:
    """If all nodes are unsuitable, the scheduler lists none. Only a change of an answer ends this."""
    shelf.free["node-1"] = 0
    await lab.create_claim()
    pod = await lab.create_pod("claim-1")
    async with lab.driver(Quick(shelf)):
        await lab.negotiate(pod)
        assert await lab.answer() == [["node-1"]]
        await lab.negotiate(pod, potential=[])
        shelf.free["node-1"] = 1
        await lab.until(lambda: unsuitable(lab) == [[]])


async def test_nodes_are_checked_again_after_other_allocations_of_the_controller(
    lab: ShelfLab, shelf: Shelf
) -> None:
    shelf.free["node-1"] = 1
    for name in ("claim-1", "claim-2"):
        await lab.create_claim(name)
    waiting = await lab.create_pod("claim-1")
    other = await lab.create_pod("claim-2", name="pod-2")
    async with lab.driver(ShelfDriver(shelf)):
        await lab.negotiate(waiting)
        assert await lab.answer() == [[]]
        await lab.negotiate(other, "node-1")
        await lab.until(lambda: unsuitable(lab) == [["node-1"]])


async def test_a_failed_allocation_is_answered_with_the_unsuitable_nodes(lab: ShelfLab, shelf: Shelf) -> None:
    shelf.free["node-1"] = 0
    await lab.create_claim()
    pod = await lab.create_pod("claim-1")
    async with lab.driver(ShelfDriver(shelf)):
        await lab.negotiate(pod, "node-1")
        assert await lab.answer() == [["node-1"]]
        assert "node node-1 has not 1 free slots" in await lab.event("AllocationFailed")
        await lab.negotiate(pod, "node-2", potential=["node-2"])
        claim = await lab.allocated()
    assert shelf.held[claim.metadata.uid] == ("node-2", 1)


async def test_a_selected_node_that_was_answered_as_unsuitable_is_not_tried(
    lab: ShelfLab, shelf: Shelf
) -> None:
    shelf.free["node-1"] = 0
    await lab.create_claim()
    pod = await lab.create_pod("claim-1")
    async with lab.driver(Quick(shelf)):
        await lab.negotiate(pod)
        await lab.answer()
        await lab.negotiate(pod, "node-1")
        for _ in range(20):
            await asyncio.sleep(0)
        assert shelf.log == []
        shelf.free["node-1"] = 1  # the next check finds it
        await lab.allocated()


async def test_an_allocated_claim_stays_when_another_node_is_selected(lab: ShelfLab, shelf: Shelf) -> None:
    await lab.create_claim()
    pod = await lab.create_pod("claim-1")
    async with lab.driver(ShelfDriver(shelf)):
        await lab.negotiate(pod, "node-1")
        before = await lab.allocated()
        await lab.negotiate(pod, "node-2")
        other = await lab.create_pod("claim-2", name="pod-2")
        await lab.create_claim("claim-2")
        await lab.negotiate(other, "node-2")
        await lab.allocated("claim-2")
    assert lab.claim() == before


async def test_a_bound_pod_gets_its_claim_without_a_check_of_nodes(lab: ShelfLab, shelf: Shelf) -> None:
    """KEP-3063, scheduled pods with unallocated claims: all that drivers can do is to retry."""
    shelf.free["node-1"] = 0
    await lab.create_claim()
    pod = await lab.create_pod("claim-1", node="node-1")
    async with lab.driver(ShelfDriver(shelf)):
        await lab.negotiate(pod, "node-1", potential=[])
        await lab.event("AllocationFailed")
        shelf.free["node-1"] = 1
        await lab.allocated()
    (context,) = lab.contexts.items.values()
    assert context.status.resource_claims == []


@pytest.mark.parametrize("case", ["deleted", "replaced"])
async def test_the_context_of_a_deleted_or_replaced_pod_is_ignored(
    lab: ShelfLab, shelf: Shelf, case: str
) -> None:
    await lab.create_claim()
    pod = await lab.create_pod("claim-1")
    await lab.negotiate(pod, "node-1")
    if case == "deleted":
        body = {"metadata": {"finalizers": ["example.com/hold"]}}
        await lab.client.patch(PODS, "pod-1", "default", body, PatchKind.MERGE, into=dict)
        await lab.client.delete(PODS, "pod-1", "default", grace_seconds=0)
    else:
        owners = {"metadata": {"ownerReferences": [owner_with_other_uid(pod.metadata.name)]}}
        await lab.client.patch(SCHEDULING_CONTEXTS, "pod-1", "default", owners, PatchKind.MERGE, into=dict)
    await lab.create_claim("later")
    later = await lab.create_pod("later", name="pod-2")
    async with lab.driver(ShelfDriver(shelf)):
        await lab.negotiate(later, "node-1")
        await lab.allocated("later")
    claim = lab.claim()
    assert claim is not None
    assert claim.allocation is None


async def test_two_controllers_answer_in_one_context(lab: ShelfLab, shelf: Shelf) -> None:
    class Other(ShelfDriver):
        name = "other.example.com"

    await lab.client.create(CLASSES, class_of("others", Other.name), into=dict)
    await lab.create_claim("claim-1")
    await lab.create_claim("claim-2", device_class="others")
    pod = await lab.create_pod("claim-1", "claim-2")
    shelf.free["node-1"] = 0
    async with lab.driver(ShelfDriver(shelf)), lab.driver(Other(Shelf())):
        await lab.negotiate(pod)
        await lab.until(lambda: len(answers(lab)) == 2)
    found = {each.controller_name: each.unsuitable_nodes for each in answers(lab)}
    assert found == {CONTROLLER: ["node-1"], Other.name: []}


async def test_an_error_of_unsuitable_nodes_is_an_event_of_the_claim(lab: ShelfLab, shelf: Shelf) -> None:
    shelf.broken["unsuitable_nodes"] = dra.AllocationError("the manager does not answer")
    await lab.create_claim()
    pod = await lab.create_pod("claim-1")
    async with lab.driver(ShelfDriver(shelf)):
        await lab.negotiate(pod)
        assert await lab.event("AllocationFailed") == "the manager does not answer"
        shelf.broken.clear()
        assert await lab.answer() == [[]]


async def test_the_answer_about_a_claim_that_is_allocated_by_now_excludes_no_node(
    lab: ShelfLab, shelf: Shelf
) -> None:
    """Another pod may get a common claim on a node that was unsuitable before."""

    class Picky(Quick):
        def unsuitable_nodes(
            self, pod: dra.PendingPod, claims: Sequence[dra.PendingClaim], nodes: Sequence[str]
        ) -> Mapping[str, Collection[str]]:
            return {claim.uid: ["node-2"] for claim in claims if claim.name == "claim-1"}

    for name in ("claim-1", "claim-2"):
        await lab.create_claim(name)
    pod = await lab.create_pod("claim-1", "claim-2")
    bound = await lab.create_pod("claim-1", name="pod-2", node="node-2")
    async with lab.driver(Picky(shelf)):
        await lab.negotiate(pod)
        assert await lab.answer() == [["node-2"], []]
        await lab.negotiate(bound, "node-2", potential=[])
        await lab.allocated("claim-1")
        await lab.negotiate(pod, "node-2", potential=["node-2"])
        await lab.allocated("claim-2")
    assert unsuitable(lab) == [[]]


async def test_a_controller_withdraws_its_answer_when_the_class_gets_another_controller(
    lab: ShelfLab, shelf: Shelf
) -> None:
    """Otherwise the answer keeps the other controller from writing one about this claim."""
    await lab.create_claim()
    pod = await lab.create_pod("claim-1")
    async with lab.driver(ShelfDriver(shelf)):
        await lab.negotiate(pod)
        assert await lab.answer() == [[]]
        config = class_of(controller="other.example.com")["spec"]["config"]
        await lab.client.patch(CLASSES, CLASS, "", {"spec": {"config": config}}, PatchKind.MERGE, into=dict)
        await lab.until(lambda: not answers(lab))
        config = class_of()["spec"]["config"]
        await lab.client.patch(CLASSES, CLASS, "", {"spec": {"config": config}}, PatchKind.MERGE, into=dict)
        assert await lab.answer() == [[]]


async def test_the_answers_about_allocated_claims_are_not_written_again(lab: ShelfLab, shelf: Shelf) -> None:
    await lab.create_claim()
    pod = await lab.create_pod("claim-1")
    async with lab.driver(ShelfDriver(shelf)):
        await lab.negotiate(pod)
        await lab.answer()
        await lab.negotiate(pod, "node-1")
        await lab.allocated()
        await lab.create_claim("later")
        await lab.negotiate(await lab.create_pod("later", name="pod-2"), "node-1")
        await lab.allocated("later")
    assert unsuitable(lab) == [[]]


async def test_an_answer_that_cannot_be_written_is_an_event_of_the_claim(lab: ShelfLab, shelf: Shelf) -> None:
    lab.server.faults.add(Fault("patch", "podschedulingcontexts/status", code=403))
    await lab.create_claim()
    pod = await lab.create_pod("claim-1")
    async with lab.driver(ShelfDriver(shelf)):
        await lab.negotiate(pod)
        assert "fault injected" in await lab.event("AllocationFailed")
        assert await lab.answer() == [[]]


async def test_other_allocations_repeat_no_check_at_once(
    lab: ShelfLab, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise each of many allocations causes a check of each pod that waits."""
    monkeypatch.setattr(answering, "_CHANGE_SECONDS", 3600.0)
    asked: list[str] = []

    class Counting(ShelfDriver):
        check_nodes_seconds = 7200.0

        def unsuitable_nodes(
            self, pod: dra.PendingPod, claims: Sequence[dra.PendingClaim], nodes: Sequence[str]
        ) -> Mapping[str, Collection[str]]:
            asked.append(pod.name)
            return super().unsuitable_nodes(pod, claims, nodes)

    for name in ("claim-1", "claim-2"):
        await lab.create_claim(name)
    waiting = await lab.create_pod("claim-1")
    other = await lab.create_pod("claim-2", name="pod-2")
    async with lab.driver(Counting(shelf)):
        await lab.negotiate(waiting)
        await lab.answer()
        await lab.negotiate(other, "node-1")
        await lab.allocated("claim-2")
        labels = {"metadata": {"labels": {"changed": "yes"}}}
        await lab.client.patch(PODS, "pod-1", "default", labels, PatchKind.MERGE, into=dict)
        await lab.negotiate(waiting, "node-2")  # this wakes the pod, too
        await lab.allocated("claim-1")
    assert asked == ["pod-1"]


def answers(lab: ShelfLab) -> list[ClaimSchedulingStatus]:
    context = lab.contexts.items.get("default/pod-1")
    return context.status.resource_claims if context is not None else []


def unsuitable(lab: ShelfLab) -> list[list[str]]:
    return [each.unsuitable_nodes for each in answers(lab)]


def owner_with_other_uid(name: str) -> dict[str, str]:
    uid = "00000000-0000-4000-8000-000000000000"
    return {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}
