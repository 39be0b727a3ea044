"""KEP-3063: the scheduler and a controller of this SDK allocate claims together, through the API server."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from pathlib import Path

import pytest

import dradriver as dra
from dradriver.kube import CLAIMS, CLASSES, NODES, PODS, SCHEDULING_CONTEXTS, SLICES, Client, Resource
from dradriver.kube.http.request import Request
from dradriver.model.classic.handles import join_handle
from dradriver.model.core.node_selector import NodeSelector
from dradriver.model.resource.claim import ResourceClaim
from dradriver.testing import builders
from tests.keps.classic_plane import OTHER_CLASS, ClassicPlane, OtherDriver, classic_plane
from tests.unit.classic.shelf import CLASS, FINALIZER, PLUGIN, ShelfDriver

PROTECTION = "resource.kubernetes.io/delete-protection"


@pytest.fixture
async def plane(tmp_path: Path) -> AsyncIterator[ClassicPlane]:
    async with classic_plane(tmp_path) as made:
        yield made


async def test_scheduler_and_driver_communicate_until_the_claim_is_allocated_and_the_pod_is_scheduled(
    plane: ClassicPlane,
) -> None:
    plane.shelf.free["node-1"] = 0
    await plane.start_driver()
    await plane.claim()
    pod = await plane.pod("claim-1")
    assert await plane.bound() == "node-2"
    claim = plane.lab.claim()
    assert claim is not None
    assert plane.shelf.held == {claim.metadata.uid: ("node-2", 1)}
    assert [user.uid for user in claim.status.reserved_for] == [pod.metadata.uid]
    await plane.lab.until(lambda: not plane.lab.contexts.items)


async def test_the_pod_is_reserved_in_the_write_that_allocates_the_claim(plane: ClassicPlane) -> None:
    seen: list[ResourceClaim] = []
    plane.lab.claims.subscribe(lambda *_: seen.extend(plane.lab.claims.items.values()))
    await plane.start_driver()
    await plane.claim()
    await plane.pod("claim-1")
    await plane.bound()
    allocated = [each for each in seen if each.allocation is not None]
    assert allocated
    assert all(each.status.reserved_for for each in allocated)


async def test_the_finalizer_is_added_before_the_allocation_starts(plane: ClassicPlane) -> None:
    plane.shelf.open.clear()
    await plane.start_driver()
    await plane.claim()
    await plane.pod("claim-1")
    claim = await plane.lab.until(lambda: c if (c := plane.lab.claim()) and c.metadata.finalizers else None)
    assert claim.metadata.finalizers == [FINALIZER]
    assert plane.shelf.held == {}
    plane.shelf.open.set()
    await plane.bound()


async def test_a_failed_allocation_is_retried_until_it_succeeds(plane: ClassicPlane) -> None:
    plane.shelf.broken["allocate"] = dra.AllocationError("the shelf is stuck")
    await plane.start_driver()
    await plane.claim()
    await plane.pod("claim-1")
    assert "the shelf is stuck" in await plane.lab.event("AllocationFailed")
    del plane.shelf.broken["allocate"]
    await plane.bound()


@pytest.mark.parametrize("is_template", [False, True], ids=["regular", "template"])
@pytest.mark.parametrize("immediate", [False, True], ids=["delayed", "immediate"])
async def test_lifecycles_and_allocation_modes_can_be_combined(
    plane: ClassicPlane, immediate: bool, is_template: bool
) -> None:
    await plane.start_driver()
    if is_template:
        await plane.template(immediate=immediate)
        await plane.pod(templates=["template"])
    else:
        await plane.claim(immediate=immediate)
        if immediate:
            await plane.lab.allocated()  # before any pod exists
        await plane.pod("claim-1")
    await plane.bound()
    (claim,) = plane.lab.claims.items.values()
    await plane.end()
    if immediate and not is_template:
        await plane.lab.until(lambda: (c := plane.lab.claim()) and not c.status.reserved_for)
        await plane.pod("claim-1", name="pod-2")
        await plane.bound("pod-2")
        assert plane.shelf.calls("deallocate") == []
        await plane.end("pod-2")
        await plane.delete_claim()
    await plane.until_released(claim)
    assert (plane.lab.claim() is None) == (immediate or is_template)


async def test_a_regular_claim_is_allocated_again_for_another_pod_on_another_node(plane: ClassicPlane) -> None:
    await plane.start_driver()
    claim = await plane.claim()
    await plane.pod("claim-1", only_on="node-1")
    await plane.bound()
    await plane.end()
    await plane.until_released(claim)
    await plane.pod("claim-1", name="pod-2", only_on="node-2")
    assert await plane.bound("pod-2") == "node-2"


async def test_a_claim_from_a_template_has_the_pod_as_owner(plane: ClassicPlane) -> None:
    await plane.template()
    pod = await plane.pod(templates=["template"])
    claim = await plane.lab.until(lambda: next(iter(plane.lab.claims.items.values()), None))
    assert [owner.uid for owner in claim.metadata.owner_references] == [pod.metadata.uid]


async def test_an_immediate_claim_is_allocated_without_considering_pods_and_determines_the_node(
    plane: ClassicPlane,
) -> None:
    plane.shelf.free["node-1"] = 1
    await plane.start_driver()
    await plane.claim(immediate=True)
    await plane.lab.allocated()
    assert [node for node, _ in plane.shelf.held.values()] == ["node-2"]
    await plane.pod("claim-1", name="cannot-run-there", only_on="node-1")
    await plane.refused("0/2 nodes are available", "cannot-run-there")
    await plane.pod("claim-1", name="can-run-there")
    assert await plane.bound("can-run-there") == "node-2"
    assert plane.lab.contexts.items == {}
    assert plane.shelf.calls("deallocate") == []


async def test_a_pod_is_added_to_the_reservations_of_an_immediate_claim_by_the_scheduler(
    plane: ClassicPlane,
) -> None:
    await plane.start_driver()
    await plane.claim(immediate=True)
    assert (await plane.lab.allocated()).status.reserved_for == []
    pod = await plane.pod("claim-1")
    await plane.bound()
    claim = await plane.lab.until(lambda: c if (c := plane.lab.claim()) and c.status.reserved_for else None)
    assert [user.uid for user in claim.status.reserved_for] == [pod.metadata.uid]


async def test_the_context_has_the_name_of_the_pod_and_the_pod_as_owner(plane: ClassicPlane) -> None:
    await plane.claim()
    pod = await plane.pod("claim-1")
    context = await plane.context()
    (owner,) = context.metadata.owner_references
    assert (owner.api_version, owner.kind, owner.name, owner.uid) == ("v1", "Pod", "pod-1", pod.metadata.uid)


async def test_the_context_is_deleted_with_a_pod_that_is_never_scheduled(plane: ClassicPlane) -> None:
    await plane.claim()
    await plane.pod("claim-1")
    await plane.context()
    await plane.end()
    await plane.lab.until(lambda: not plane.lab.contexts.items)


async def test_a_pod_without_unallocated_delayed_claims_has_no_context(plane: ClassicPlane) -> None:
    await plane.start_driver()
    await plane.claim(immediate=True)
    await plane.pod("claim-1")
    await plane.pod(name="without-claims")
    await asyncio.gather(plane.bound(), plane.bound("without-claims"))
    assert plane.lab.contexts.items == {}


async def test_the_potential_nodes_are_those_left_after_all_other_constraints(plane: ClassicPlane) -> None:
    await plane.claim()
    await plane.pod("claim-1", only_on="node-2")
    context = await plane.context(lambda each: each.spec.potential_nodes)
    assert context.spec.potential_nodes == ["node-2"]


async def test_an_allocated_claim_is_a_hard_constraint_for_the_potential_nodes(plane: ClassicPlane) -> None:
    plane.shelf.free["node-1"] = 0
    await plane.start_driver()
    await plane.claim("allocated", immediate=True)
    await plane.lab.allocated("allocated")
    await plane.claim("pending", device_class=OTHER_CLASS)
    await plane.pod("allocated", "pending")
    context = await plane.context(lambda each: each.spec.potential_nodes)
    assert context.spec.potential_nodes == ["node-2"]


async def test_the_list_of_potential_nodes_is_updated_until_the_claim_is_allocated(plane: ClassicPlane) -> None:
    await plane.claim()
    await plane.claim("claim-2", device_class=OTHER_CLASS)
    await plane.pod("claim-1", "claim-2")
    await plane.context(lambda each: len(each.spec.potential_nodes) == 2)
    await plane.lab.client.create(NODES, builders.node("node-3"), into=dict)
    await plane.context(lambda each: "node-3" in each.spec.potential_nodes)


async def test_drivers_answer_about_their_own_pending_claims_only(plane: ClassicPlane) -> None:
    """An allocated claim needs no information, and the entries have the names of the claims in the pod."""
    await plane.start_driver()
    await plane.claim("allocated", immediate=True)
    await plane.lab.allocated("allocated")
    await plane.claim("mine")
    await plane.claim("also-mine")
    await plane.claim("foreign", device_class=OTHER_CLASS)
    await plane.pod("allocated", "mine", "also-mine", "foreign")
    context = await plane.context(lambda each: each.status.resource_claims)
    assert [each.name for each in context.status.resource_claims] == ["claim-1", "claim-2"]
    await plane.start_driver(OtherDriver(plane.other_shelf))
    await plane.bound()


async def test_the_information_is_optional_so_a_deleted_context_is_written_again(plane: ClassicPlane) -> None:
    plane.shelf.free["node-1"] = 0
    await plane.start_driver()
    await plane.claim()
    await plane.claim("claim-2", device_class=OTHER_CLASS)
    await plane.pod("claim-1", "claim-2")
    first = await plane.context(lambda each: each.status.resource_claims)
    await plane.lab.client.delete(SCHEDULING_CONTEXTS, "pod-1", "default")
    await plane.context(lambda each: each.metadata.uid != first.metadata.uid)
    await plane.start_driver(OtherDriver(plane.other_shelf))
    assert await plane.bound() == "node-2"


async def test_resources_that_are_only_usable_on_one_node_are_released_and_allocated_elsewhere(
    plane: ClassicPlane,
) -> None:
    """One driver allocates; for the other the node has run out of resources since it was asked."""
    plane.other_shelf.free["node-1"] = 0
    await plane.start_driver()
    await plane.start_driver(OtherDriver(plane.other_shelf, is_optimistic=True))
    await plane.claim()
    await plane.claim("claim-2", device_class=OTHER_CLASS)
    await plane.pod("claim-1", "claim-2")
    assert await plane.bound() == "node-2"
    held = [*plane.shelf.held.values(), *plane.other_shelf.held.values()]
    assert held == [("node-2", 1), ("node-2", 1)]


async def test_a_handle_is_available_when_the_class_is_deleted(plane: ClassicPlane) -> None:
    await plane.start_driver()
    claim = await plane.claim()
    await plane.pod("claim-1")
    node = await plane.bound()
    await plane.delete_class(CLASS)
    stored = await plane.lab.client.get(CLAIMS, "claim-1", "default", into=ResourceClaim)
    assert stored.allocation is not None
    handle = join_handle(stored.allocation.devices.config, PLUGIN, claim.metadata.uid)
    assert handle is not None
    assert handle.data == node.encode()
    await plane.end()
    await plane.until_released(claim)


async def test_a_structured_claim_of_the_same_pod_names_no_controller(plane: ClassicPlane) -> None:
    await plane.lab.client.create(SLICES, builders.slice_(builders.device("gpu-0")), into=dict)
    structured = builders.device_class()
    await plane.lab.client.create(CLASSES, structured, into=dict)
    await plane.lab.client.create(CLAIMS, builders.claim(name="structured"), "default", into=dict)
    await plane.start_driver()
    await plane.claim()
    await plane.pod("claim-1", "structured")
    assert await plane.bound() == "node-1"
    finalizers = {
        name: plane.lab.claims.items[f"default/{name}"].metadata.finalizers
        for name in ("claim-1", "structured")
    }
    assert finalizers == {"claim-1": [FINALIZER], "structured": [PROTECTION]}


class SharingDriver(ShelfDriver):
    """Allocates claims that several pods may use."""

    def result(self, claim: dra.PendingClaim, node: str) -> dra.ControllerAllocationResult:
        devices = super().result(claim, node).devices
        selector = NodeSelector.for_node(node)
        return dra.ControllerAllocationResult(
            devices, {PLUGIN: b"shared"}, node_selector=selector, shareable=True
        )


async def test_a_regular_claim_can_be_used_by_several_pods_if_the_driver_supports_it(
    plane: ClassicPlane,
) -> None:
    await plane.start_driver(SharingDriver(plane.shelf))
    await plane.claim()
    for name in ("pod-1", "pod-2"):
        await plane.pod("claim-1", name=name)
    first, second = await asyncio.gather(plane.bound("pod-1"), plane.bound("pod-2"))
    assert first == second
    await plane.lab.until(lambda: (c := plane.lab.claim()) and len(c.status.reserved_for) == 2)


async def test_a_claim_that_is_not_shareable_is_used_by_one_pod_after_the_other(plane: ClassicPlane) -> None:
    await plane.start_driver()
    await plane.claim(immediate=True)
    await plane.pod("claim-1")
    await plane.bound()
    await plane.pod("claim-1", name="pod-2")
    await plane.refused("0/2 nodes are available", "pod-2")
    await plane.end()
    await plane.bound("pod-2")


async def test_a_waiting_allocation_blocks_no_other_pod(plane: ClassicPlane) -> None:
    plane.shelf.open.clear()
    await plane.start_driver()
    await plane.start_driver(OtherDriver(plane.other_shelf))
    await plane.claim()
    await plane.pod("claim-1")
    await plane.context(lambda each: each.spec.selected_node)
    await plane.claim("claim-2", device_class=OTHER_CLASS)
    await plane.pod("claim-2", name="other")
    await plane.pod(name="without-claims")
    await asyncio.gather(plane.bound("other"), plane.bound("without-claims"))
    plane.shelf.open.set()
    await plane.bound()


async def test_the_driver_retries_for_a_scheduled_pod_until_its_claim_is_allocated(plane: ClassicPlane) -> None:
    """The node is permanent, so the driver is not asked for unsuitable nodes."""
    plane.shelf.free["node-1"] = 0
    checked: list[str] = []

    class Checked(ShelfDriver):
        def unsuitable_nodes(
            self, pod: dra.PendingPod, claims: Sequence[dra.PendingClaim], nodes: Sequence[str]
        ) -> Mapping[str, Collection[str]]:
            checked.extend(nodes)
            return super().unsuitable_nodes(pod, claims, nodes)

    await plane.start_driver(Checked(plane.shelf))
    await plane.claim()
    pod = await plane.pod("claim-1", node="node-1")
    assert "node node-1 has not 1 free slots" in await plane.lab.event("AllocationFailed")
    plane.shelf.free["node-1"] = 1
    claim = await plane.lab.allocated()
    assert [user.uid for user in claim.status.reserved_for] == [pod.metadata.uid]
    assert plane.shelf.held == {claim.metadata.uid: ("node-1", 1)}
    assert checked == []


async def test_an_allocated_claim_is_reserved_for_a_scheduled_pod(plane: ClassicPlane) -> None:
    await plane.start_driver()
    await plane.claim(immediate=True)
    claim = await plane.lab.allocated()
    node = plane.shelf.held[claim.metadata.uid][0]
    pod = await plane.pod("claim-1", node=node)
    claim = await plane.lab.until(lambda: c if (c := plane.lab.claim()) and c.status.reserved_for else None)
    assert [user.uid for user in claim.status.reserved_for] == [pod.metadata.uid]


async def test_a_network_attached_resource_is_reused_after_an_unexpected_node_shutdown(
    plane: ClassicPlane,
) -> None:
    """The node never unprepares: its pods are removed by force."""
    plane.shelf.free = {"node-1": 1, "node-2": 0}
    await plane.start_driver()
    await plane.claim()
    await plane.pod("claim-1")
    assert await plane.bound() == "node-1"
    await plane.lab.client.delete(NODES, "node-1")
    plane.shelf.free = {"node-1": 0, "node-2": 1}
    await plane.end()
    await plane.pod("claim-1", name="pod-2")
    assert await plane.bound("pod-2") == "node-2"
    assert [node for node, _ in plane.shelf.held.values()] == ["node-2"]


@pytest.mark.parametrize("lists", [True, False], ids=["hardware that lists", "hardware that cannot list"])
async def test_there_are_no_periodic_api_calls_once_the_claim_is_allocated_and_the_pod_runs(
    plane: ClassicPlane, lists: bool
) -> None:
    """One exception: while `allocations()` returns claims, they are compared with a list of all claims."""
    requests: list[str] = []
    compared = asyncio.Event()

    class Recording(Client):
        async def _send(self, resource: Resource, request: Request) -> bytes:
            requests.append(f"{request.method} {request.path}")
            return await super()._send(resource, request)

    class Quick(ShelfDriver):
        check_nodes_seconds = 0.01
        check_allocations_seconds = 0.01

        async def allocations(self) -> Collection[str]:
            compared.set()
            return await super().allocations() if lists else []

    async with plane.lab.driver(Quick(plane.shelf), client=Recording) as process:
        await plane.claim()
        await plane.pod("claim-1")
        await plane.bound()
        await plane.lab.until(lambda: not plane.lab.contexts.items)
        registry, labels = process.metrics.registry, {"driver": Quick.name, "kind": "pods"}
        await plane.lab.until(lambda: registry.get_sample_value("dradriver_classic_pending", labels) == 0)
        requests.clear()
        await plane.pod(name="later")  # a later change that the controller sees and does not react to
        await plane.bound("later")
        for _ in range(3):  # a list that begins after the second answer has ended before the third
            compared.clear()
            await compared.wait()
        periodic = {f"GET {CLAIMS.path()}"} if lists else set[str]()
        assert set(requests) == periodic


async def test_a_deleted_claim_is_deallocated_and_removed_when_its_pod_has_ended(plane: ClassicPlane) -> None:
    await plane.start_driver()
    await plane.claim()
    await plane.pod("claim-1")
    await plane.bound()
    await plane.delete_claim()
    await plane.lab.until(lambda: (c := plane.lab.claim()) and c.metadata.deletion_timestamp)
    assert plane.shelf.calls("deallocate") == []
    await plane.lab.client.delete(PODS, "pod-1", "default", grace_seconds=0)
    await plane.lab.gone()
    assert plane.shelf.held == {}
