"""Pods with classic claims: a real kube-scheduler with the extender, and controllers (KEP-3063).

The extender and the controllers have the accounts, the roles and the policies of the chart, and nothing else.
Nodes have no kubelet, so pods are bound and never start.
"""

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest

from dradriver.kube import (
    CLAIMS,
    CLASSES,
    CONTROLLER_ALLOCATIONS,
    EVENTS,
    NODES,
    PODS,
    SCHEDULING_CONTEXTS,
    SLICES,
    Cache,
    ChangeKind,
    Client,
)
from dradriver.model.classic.allocation_records import ControllerAllocation
from dradriver.model.classic.names import finalizer
from dradriver.model.classic.parameters import AllocationTime
from dradriver.model.classic.scheduling import PodSchedulingContext, SchedulingSpec
from dradriver.model.core.workload import Pod
from dradriver.model.encoding.codec import builtins
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.device import Device
from dradriver.testing import builders
from tests.e2e.bed import control_plane
from tests.e2e.bed.api_server_bed import ApiServerBed, api_server_bed
from tests.e2e.bed.kube_scheduler import start_extender, start_kube_scheduler, write_config
from tests.e2e.bed.programs import program
from tests.e2e.chart.chart_accounts import chart_accounts, write_account_kubeconfig
from tests.e2e.classic.link_fabric import LinkFabric
from tests.e2e.scheduling.scheduled_cluster import ScheduledCluster, connect
from tests.ports import reserve_port

T = TypeVar("T")
PROFILE: Final = "dradriver"
NAMESPACE: Final = "default"
NAME: Final = "classic"
SECONDS: Final = 60
PLUGINS: Final = {
    "left": ["fpga.example.com"], "right": ["nic.example.com"], "removed": ["card.example.com"], "bare": [],
}  # fmt: skip
"""The kubelet plugins of each controller. The allocations of the last one have no devices."""
GUIDE: Final = Path(__file__).parents[3] / "docs" / "classic.md"
VALUES: Final = {
    "classic.enabled": True,
    "scheduler.enabled": True,
    "scheduler.kubeScheduler.image.repository": "registry.example.com/kube-scheduler",
    **{
        f"drivers.{label}": {
            "enabled": True, "kind": "controller", "driverName": f"{label}.example.com",
            "kubeletPlugins": plugins,
        }
        for label, plugins in PLUGINS.items()
    },
}  # fmt: skip
READY: Final = f"{builders.DRIVER}/attached"
FAILED: Final = f"{builders.DRIVER}/attach-failed"


class ClassicPlane(ScheduledCluster):
    """A cluster with controllers.

    Args:
        client: the administrator.
        fabrics: the fabric of each controller, by its label.

    Attributes:
        seen: each version of each PodSchedulingContext, in the order of the writes.
    """

    def __init__(self, client: Client, fabrics: dict[str, LinkFabric]) -> None:
        super().__init__(client)
        self._fabrics = fabrics
        self.seen: list[PodSchedulingContext] = []

    def fabric(self, label: str, node_1: int = 0, node_2: int = 0) -> LinkFabric:
        """Set the number of free links of a controller on each node, and return its fabric."""
        fabric = self._fabrics[label]
        fabric.set_free(node__1=node_1, node__2=node_2)
        return fabric

    def note(self, _: ChangeKind, _old: PodSchedulingContext | None, new: PodSchedulingContext | None) -> None:
        """Keep a version of a context."""
        if new is not None:
            self.seen.append(new)

    async def classic_claim(self, label: str, mode: AllocationTime = "WaitForFirstConsumer") -> str:
        """Create a claim with the name of its controller, and return its UID."""
        claim = builders.claim(
            builders.device_request(label), name=label, configs=[builders.controller_claim(mode)]
        )
        body = builtins(claim)
        body["metadata"].pop("uid")
        made = await self.client.create(CLAIMS, body, "default", into=ResourceClaim)
        return made.metadata.uid

    async def create_pod(self, name: str, *claims: str, **spec: Any) -> str:
        """Create a pod of the profile that uses claims, and return its UID."""
        body: dict[str, Any] = {
            "metadata": {"name": name},
            "spec": {
                "schedulerName": PROFILE,
                "containers": [
                    {
                        "name": "main",
                        "image": "busybox",
                        "resources": {"claims": [{"name": each} for each in claims]},
                    }
                ],
                "resourceClaims": [{"name": each, "resourceClaimName": each} for each in claims],
                **spec,
            },
        }
        return (await self.client.create(PODS, body, "default", into=Pod)).metadata.uid

    async def until_nodes_are_received(self, last: str) -> None:
        """Wait until kube-scheduler binds a pod to the label of the last node: it has received all nodes."""
        selector = await self.label_change(last, uuid.uuid4().hex)
        await self.create_pod("probe", nodeSelector=selector)
        await self.bound("probe", seconds=SECONDS)
        await self.client.delete(PODS, "probe", "default", grace_seconds=0)

    async def until_claims_are_received(self) -> None:
        """Wait until the extender has received all claims as they are now.

        It then binds a pod with a newer claim. A watch keeps the order of all writes of a kind of objects.
        """
        await self.client.create(SLICES, builders.slice_(builders.device()), into=dict)
        await self.client.create(CLAIMS, builders.claim(name="newer"), "default", into=dict)
        await self.create_pod("newer", "newer")
        await self.bound("newer", seconds=SECONDS)

    async def until(self, check: Callable[[], Awaitable[T]]) -> T:
        """Wait for the first true result of a check, and return it."""
        async with asyncio.timeout(SECONDS):
            while not (result := await check()):
                await asyncio.sleep(0.05)
        return result

    async def until_allocated(self, name: str) -> ResourceClaim:
        """Wait until a claim is allocated, and return it."""

        async def allocated() -> ResourceClaim | None:
            claim = await self.claim(name)
            return claim if claim.allocation is not None else None

        found = await self.until(allocated)
        assert found is not None
        return found

    async def until_seen(self, check: Callable[[PodSchedulingContext], object]) -> None:
        """Wait until a context has had such a version."""

        async def is_seen() -> bool:
            return any(map(check, self.seen))

        await self.until(is_seen)

    async def until_no_contexts(self) -> None:
        """Wait until no context is left."""

        async def none_left() -> bool:
            return not (await self.client.list(SCHEDULING_CONTEXTS, into=dict)).items

        await self.until(none_left)

    async def check_uses(self, pod: str, claim: str, node: str) -> None:
        """Check that a claim is allocated for a node, and that only this pod has reserved it."""
        stored = await self.claim(claim)
        assert stored.allocation is not None
        assert stored.allocation.node_selector is not None
        assert stored.allocation.node_selector.only_node == node
        assert [each.uid for each in stored.status.reserved_for] == [pod]

    async def clean(self) -> None:
        """Delete all pods and claims; the controllers must leave nothing behind."""
        for pod in (await self.client.list(PODS, "default", into=Pod)).items:
            await self.client.delete(PODS, pod.metadata.name, "default", grace_seconds=0)
        for claim in (await self.client.list(CLAIMS, "default", into=ResourceClaim)).items:
            await self.client.delete(CLAIMS, claim.metadata.name, "default")

        async def nothing() -> bool:
            left = [
                (await self.client.list(resource, into=dict)).items
                for resource in (CLAIMS, CONTROLLER_ALLOCATIONS, SCHEDULING_CONTEXTS)
            ]
            return not any(left) and not any(each.allocated for each in self._fabrics.values())

        await self.until(nothing)
        for resource in (SLICES, CLASSES, NODES):
            for item in (await self.client.list(resource, into=dict)).items:
                await self.client.delete(resource, item["metadata"]["name"])
        for fabric in self._fabrics.values():
            for name in ("calls", "immediate", "rival"):
                (fabric.folder / name).unlink(missing_ok=True)


@pytest.fixture(scope="module")
def fabrics(tmp_path_factory: pytest.TempPathFactory) -> dict[str, LinkFabric]:
    hardware: Path = tmp_path_factory.mktemp("hardware")
    return {label: LinkFabric(hardware, f"{label}.example.com", plugins) for label, plugins in PLUGINS.items()}


@pytest.fixture(scope="module")
def bed(fabrics: dict[str, LinkFabric]) -> Iterator[ApiServerBed]:
    """A control plane whose only kube-scheduler has the extender, and the controllers."""
    with api_server_bed() as made:
        made.serve(None, {})
        control_plane.start_controller_manager(made, ())
        with chart_accounts(made, NAMESPACE, NAME, VALUES):
            account = write_account_kubeconfig(made, NAMESPACE, f"{NAME}-scheduler")
            url = start_extender(made, "--no-leader-elect", "--binding-timeout=60", kubeconfig=account)
            start_kube_scheduler(made, write_config(made, url, "--binding-timeout=60"), "extended-scheduler")
            for label, fabric in fabrics.items():
                start_controller(made, label, fabric)
            yield made


def start_controller(bed: ApiServerBed, label: str, fabric: LinkFabric) -> None:
    """Start a controller with its account, and wait until it is the leader."""
    port = reserve_port()
    kubeconfig = write_account_kubeconfig(bed, NAMESPACE, f"{NAME}-{label}")
    bed.spawn(label, *fabric.command(kubeconfig, NAMESPACE, port), environment=fabric.environment)
    bed.wait(label, partial(control_plane.answers, f"http://127.0.0.1:{port}/readyz"))


@pytest.fixture
async def plane(bed: ApiServerBed, fabrics: dict[str, LinkFabric]) -> AsyncIterator[ClassicPlane]:
    """Two nodes, and a class of each controller."""
    async with connect(bed) as connected:
        made = ClassicPlane(connected.client, fabrics)
        for name in ("node-1", "node-2"):
            await made.node(name)
        await made.until_nodes_are_received("node-2")
        await made.client.create(CLASSES, builders.device_class(), into=dict)
        for label in PLUGINS:
            body = builders.controller_class(label, controller=f"{label}.example.com")
            await made.client.create(CLASSES, body, into=dict)
        contexts = Cache(made.client, SCHEDULING_CONTEXTS, PodSchedulingContext)
        contexts.subscribe(made.note)
        async with contexts:
            await contexts.wait_synced()
            yield made
            await made.clean()


def prefer(node: str) -> dict[str, Any]:
    """Return an affinity with which kube-scheduler chooses a node, if the node is possible."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    preferred = [{"weight": 100, "preference": {"matchFields": fields}}]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


def chosen_nodes(contexts: Sequence[PodSchedulingContext]) -> list[str]:
    """Return the nodes that were selected one after the other."""
    selected = [each.spec.selected_node for each in contexts if each.spec.selected_node]
    return [node for number, node in enumerate(selected) if selected[number - 1 : number] != [node]]


async def test_an_unallocated_claim_of_a_pod_with_a_node_is_allocated_for_that_node(
    plane: ClassicPlane,
) -> None:
    """The choice is permanent: the drivers check no nodes, and try until the allocation works."""
    fabric = plane.fabric("left", node_1=1)
    await plane.classic_claim("left")
    pod = await plane.create_pod("pod", "left", nodeName="node-2")
    await plane.until_seen(lambda context: context.spec.selected_node)
    assert all(each.spec == SchedulingSpec(selected_node="node-2") for each in plane.seen)

    async def has_failed() -> bool:
        events = (await plane.client.list(EVENTS, "default", into=dict[str, Any])).items
        return any("node node-2 has no free link" in each["message"] for each in events)

    await plane.until(has_failed)
    plane.fabric("left", node_1=1, node_2=1)
    await plane.until_allocated("left")
    await plane.check_uses(pod, "left", "node-2")
    await plane.until_no_contexts()
    assert fabric.calls == fabric.changes, "no node was checked"


async def test_a_pod_whose_claims_are_all_allocated_is_bound_without_a_negotiation(plane: ClassicPlane) -> None:
    fabric = plane.fabric("left")
    (fabric.folder / "immediate").write_text("node-2")
    await plane.classic_claim("left", "Immediate")
    await plane.until_allocated("left")
    await plane.until_claims_are_received()
    pod = await plane.create_pod("pod", "left", affinity=prefer("node-1"))
    (bound,) = await plane.bound("pod", seconds=SECONDS)
    assert bound.spec.node_name == "node-2"
    await plane.check_uses(pod, "left", "node-2")
    assert plane.seen == []


async def test_the_next_node_is_selected_when_the_first_one_is_unsuitable(plane: ClassicPlane) -> None:
    """With one pending claim, the scheduler guesses a node before the driver has checked any."""
    fabric = plane.fabric("left", node_2=1)
    uid = await plane.classic_claim("left")
    pod = await plane.create_pod("pod", "left", affinity=prefer("node-1"))
    (bound,) = await plane.bound("pod", seconds=SECONDS)
    assert bound.spec.node_name == "node-2"
    assert chosen_nodes(plane.seen) == ["node-1", "node-2"]
    await plane.check_uses(pod, "left", "node-2")
    assert fabric.allocated == {uid: "node-2"}
    await plane.until_no_contexts()


async def test_a_structured_and_a_classic_claim_of_one_pod_are_allocated_for_one_node(
    plane: ClassicPlane,
) -> None:
    plane.fabric("left", node_1=1, node_2=1)
    await plane.client.create(SLICES, builders.slice_(builders.device(), node_name="node-2"), into=dict)
    await plane.client.create(CLAIMS, builders.claim(name="structured"), "default", into=dict)
    await plane.classic_claim("left")
    pod = await plane.create_pod("pod", "structured", "left", affinity=prefer("node-1"))
    (bound,) = await plane.bound("pod", seconds=SECONDS)
    assert bound.spec.node_name == "node-2"
    await plane.check_uses(pod, "left", "node-2")
    structured = await plane.claim("structured")
    assert [each.pool for each in structured.results] == ["node-2"]
    assert [each.uid for each in structured.status.reserved_for] == [pod]
    assert finalizer("left.example.com") not in structured.metadata.finalizers


async def test_a_pod_with_a_classic_claim_waits_for_the_binding_conditions_of_another_claim(
    plane: ClassicPlane,
) -> None:
    plane.fabric("left", node_1=1, node_2=1)
    device = Device("device-0", binding_conditions=[READY], binding_failure_conditions=[FAILED])
    await plane.client.create(SLICES, builders.slice_(device, node_name="node-2"), into=dict)
    await plane.client.create(CLAIMS, builders.claim(name="structured"), "default", into=dict)
    await plane.classic_claim("left")
    pod = await plane.create_pod("pod", "structured", "left")
    structured = await plane.until_allocated("structured")
    await plane.check_uses(pod, "left", "node-2")
    assert not (await plane.client.get(PODS, "pod", "default", into=Pod)).spec.node_name
    await plane.set_condition(structured, READY)
    (bound,) = await plane.bound("pod", seconds=SECONDS)
    assert bound.spec.node_name == "node-2"
    await plane.check_uses(pod, "left", "node-2")


async def test_the_context_of_a_deleted_pod_is_not_the_context_of_the_next_pod_with_its_name(
    plane: ClassicPlane,
) -> None:
    fabric = plane.fabric("left")
    await plane.classic_claim("left")
    first = await plane.create_pod("pod", "left")
    await plane.until_seen(lambda context: context.status.resource_claims)
    await plane.client.delete(PODS, "pod", "default", grace_seconds=0)
    second = await plane.create_pod("pod", "left")
    await plane.until_seen(lambda context: context.is_for(second))
    assert fabric.allocated == {}
    plane.fabric("left", node_1=1)
    await plane.bound("pod", seconds=SECONDS)
    await plane.check_uses(second, "left", "node-1")
    owners = [each.metadata.owner_references[0].uid for each in plane.seen]
    assert list(dict.fromkeys(owners)) == [first, second]
    await plane.until_no_contexts()


async def test_an_allocation_without_devices_is_deallocated_on_request(plane: ClassicPlane) -> None:
    """No device can have the condition, so the request is in the record of the controller."""
    bare = plane.fabric("bare", node_1=1, node_2=1)
    right = plane.fabric("right", node_1=1, node_2=1)
    (right.folder / "rival").write_text(bare.name)
    requests = []

    def note(_: ChangeKind, _old: ControllerAllocation | None, new: ControllerAllocation | None) -> None:
        if new is not None and new.status.deallocation_requested:
            requests.append(new.spec.claim_name)

    records = Cache(plane.client, CONTROLLER_ALLOCATIONS, ControllerAllocation)
    records.subscribe(note)
    async with records:
        for label in ("bare", "right"):
            await plane.classic_claim(label)
        pod = await plane.create_pod("pod", "bare", "right", affinity=prefer("node-1"))
        (bound,) = await plane.bound("pod", seconds=SECONDS)
    assert bound.spec.node_name == "node-2"
    assert set(requests) == {"bare"}
    assert bare.changes == [
        "allocate bare on node-1",
        "deallocate bare on node-1",
        "allocate bare on node-2",
    ]
    assert (await plane.claim("bare")).results == []
    for label in ("bare", "right"):
        await plane.check_uses(pod, label, "node-2")


def removal_script(controller: str) -> str:
    """Return the commands of the documentation that remove what a controller has left."""
    section = GUIDE.read_text("utf-8").partition("## Remove a controller\n")[2]
    script = section.partition("```bash\n")[2].partition("```\n")[0]
    assert "controller=license.example.com\n" in script
    return script.replace("license.example.com", controller, 1)


async def run_removal(bed: ApiServerBed, controller: str) -> str:
    """Run these commands as an administrator, and return their output."""
    path = f"{program('kubectl').parent}:{os.environ['PATH']}"
    process = await asyncio.create_subprocess_exec(
        *("sh", "-c", removal_script(controller)),
        env={"PATH": path, "KUBECONFIG": bed.kubeconfig(), "HOME": str(bed.folder)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return output.decode()


async def test_the_claims_of_a_controller_that_was_removed_for_good_can_be_removed(
    plane: ClassicPlane, bed: ApiServerBed
) -> None:
    """Nothing changes until an administrator runs the commands. Claims of other controllers stay."""
    for label in ("left", "removed"):
        plane.fabric(label, node_1=1)
        await plane.classic_claim(label)
    pod = await plane.create_pod("pod", "left", "removed")
    await plane.bound("pod", seconds=SECONDS)
    await asyncio.to_thread(bed.end, "removed")
    await plane.client.delete(CLAIMS, "removed", "default")
    assert "status.reservedFor: Forbidden" in await run_removal(bed, "removed.example.com")
    await plane.check_uses(pod, "removed", "node-1")
    await plane.client.delete(PODS, "pod", "default", grace_seconds=0)

    async def is_unused() -> bool:
        return not (await plane.claim("removed")).status.reserved_for

    await plane.until(is_unused)
    stays = await plane.claim("removed")
    assert stays.metadata.deletion_timestamp is not None
    assert stays.results
    assert stays.metadata.finalizers == [finalizer("removed.example.com")]
    await plane.classic_claim("right")
    await run_removal(bed, "removed.example.com")

    left = (await plane.client.list(CLAIMS, "default", into=ResourceClaim)).items
    assert [each.metadata.name for each in left] == ["left", "right"]
    records = (await plane.client.list(CONTROLLER_ALLOCATIONS, into=ControllerAllocation)).items
    assert "removed" not in {each.spec.claim_name for each in records}
    (plane.fabric("removed").folder / "claims" / stays.metadata.uid).unlink()  # by hand
