"""Controllers, a real kube-scheduler with the extender, and real kubelets (KEP-3063)."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dradriver.kube import CONTROLLER_ALLOCATIONS, NODES, SCHEDULING_CONTEXTS, PatchKind
from dradriver.model.classic.names import finalizer
from tests.e2e.bed.nodes.node import Node
from tests.e2e.classic.classic_site import FPGA, NIC, ClassicSite
from tests.e2e.classic.link_controller import make_handle
from tests.e2e.classic.link_driver import digest
from tests.e2e.scheduling.scheduled_cluster import ScheduledCluster


@pytest.fixture
async def second(site: ClassicSite) -> AsyncIterator[Node]:
    """Return another node; pods can be scheduled to it again at the end."""
    yield await asyncio.to_thread(site.cluster.node, "node-2")
    await cordon(site, "node-2", on=False)


async def cordon(site: ClassicSite, node: str, *, on: bool) -> None:
    """Set whether the node accepts no further pods."""
    body = {"spec": {"unschedulable": on}}
    await site.client.patch(NODES, node, "", body, PatchKind.MERGE, into=dict)


async def node_of(site: ClassicSite, pod: str) -> str:
    """Wait until a pod runs; return its node."""
    found = await site.wait_for_phase(pod, "Running")
    return str(found["spec"]["nodeName"])


async def until_nothing_is_left(site: ClassicSite) -> None:
    """Wait until no controller has a record, no link is taken, and no context is left."""

    async def nothing() -> bool:
        records = (await site.client.list(CONTROLLER_ALLOCATIONS, site.namespace, into=dict)).items
        contexts = (await site.client.list(SCHEDULING_CONTEXTS, site.namespace, into=dict)).items
        taken = [each.allocated for each in site.controllers.values() if each.allocated]
        return not (records or contexts or taken)

    await site.until("deallocation", nothing)


async def test_one_claim_for_two_kubelet_plugins(site: ClassicSite, extended_profile: str) -> None:
    """The combined hardware of the KEP, allocated by a controller that the scheduler asks."""
    await site.start_plugin(FPGA)
    await site.start_plugin(NIC)
    controller = await site.start_controller("card", [FPGA, NIC], node__1=1)
    claim = await site.classic_claim("card", "WaitForFirstConsumer", label="card")
    await site.classic_pod("pod", "card", schedulerName=extended_profile)
    assert await node_of(site, "pod") == "node-1"
    uid = claim.metadata.uid
    for plugin in (FPGA, NIC):
        assert site.prepared(plugin) == {uid: [digest(make_handle(plugin, uid))]}
    written = await site.writes.get("card")
    assert written.metadata.finalizers == [finalizer(controller.name)]
    await site.delete_pod("pod")
    await site.wait_for_deletion("pod")
    await until_nothing_is_left(site)
    assert (await site.writes.get("card")).allocation is None


async def test_an_immediate_claim_of_a_controller_runs_under_the_stock_scheduler(site: ClassicSite) -> None:
    await site.start_plugin(FPGA)
    await site.start_controller("link", [FPGA])
    claim = await site.classic_claim("claim", label="link")
    # The claim can be used on all nodes, but only this one has the plugin.
    await site.classic_pod("pod", "claim", nodeSelector={"kubernetes.io/hostname": site.node.name})
    await site.wait_for_phase("pod", "Running")
    uid = claim.metadata.uid
    assert site.prepared(FPGA) == {uid: [digest(make_handle(FPGA, uid))]}
    await site.delete_pod("pod")
    await site.wait_for_deletion("pod")
    await site.until_released(FPGA)
    assert (await site.writes.get("claim")).results
    await site.delete_claim("claim")
    await until_nothing_is_left(site)


async def test_kube_scheduler_clears_an_allocation_and_the_controller_allocates_again(
    site: ClassicSite,
) -> None:
    """PostFilter clears an allocation for a node that is gone; the driver releases it and allocates again."""
    await site.start_plugin(FPGA)
    controller = await site.start_controller("link", [FPGA])
    (controller.folder / "immediate").write_text("node-that-is-gone")
    await site.classic_claim("claim", label="link")

    async def allocated() -> bool:
        return bool((await site.writes.get("claim")).results)

    await site.until("allocation", allocated)
    (controller.folder / "immediate").write_text(site.node.name)
    await site.classic_pod("pod", "claim")
    assert await node_of(site, "pod") == site.node.name
    assert [each.split()[0] for each in controller.calls] == ["allocate", "deallocate", "allocate"]


async def test_two_controllers_that_disagree_agree_on_a_node(
    site: ClassicSite, second: Node, extended_profile: str
) -> None:
    await site.start_plugin(FPGA, site.node)
    await site.start_plugin(FPGA, second)
    left = await site.start_controller("left", [FPGA], node__1=1, node__2=0)
    right = await site.start_controller("right", [FPGA], node__1=0, node__2=1)
    for label in ("left", "right"):
        await site.classic_claim(label, "WaitForFirstConsumer", label=label)
    await site.classic_pod("pod", "left", "right", schedulerName=extended_profile)

    async def both_have_answered() -> bool:
        listed = (await site.client.list(SCHEDULING_CONTEXTS, site.namespace, into=dict[str, Any])).items
        answers = [each for item in listed for each in item.get("status", {}).get("resourceClaims", [])]
        return {tuple(each.get("unsuitableNodes", ())) for each in answers} == {("node-2",), ("node-1",)}

    await site.until("two answers", both_have_answered)
    assert not left.allocated
    assert not right.allocated
    left.set_free(node__2=1)
    assert await node_of(site, "pod") == second.name
    assert set(left.allocated.values()) == set(right.allocated.values()) == {second.name}
    assert len(site.prepared(FPGA, second)) == 2
    assert not site.prepared(FPGA)
    await site.delete_pod("pod")
    await site.wait_for_deletion("pod")
    await until_nothing_is_left(site)


async def test_a_claim_is_deallocated_when_the_other_claim_of_its_pod_fits_on_no_such_node(
    site: ClassicSite, second: Node, extended_profile: str
) -> None:
    """One controller allocates for the selected node, the other one cannot: the scheduler starts over."""
    for each in (site.node, second):
        await site.start_plugin(FPGA, each)
    left = await site.start_controller("left", [FPGA], node__1=1, node__2=1)
    right = await site.start_controller("right", [FPGA], node__1=1, node__2=1)
    (right.folder / "rival").write_text(left.name)
    for label in ("left", "right"):
        await site.classic_claim(label, "WaitForFirstConsumer", label=label)
    await site.classic_pod("pod", "left", "right", schedulerName=extended_profile)
    node = await node_of(site, "pod")
    (other,) = {site.node.name, second.name} - {node}
    assert left.changes == [
        f"allocate left on {other}",
        f"deallocate left on {other}",
        f"allocate left on {node}",
    ]
    assert set(left.allocated.values()) == set(right.allocated.values()) == {node}
    await site.delete_pod("pod")
    await site.wait_for_deletion("pod")
    await until_nothing_is_left(site)


async def test_a_resource_of_a_node_that_was_shut_down_is_used_on_another_node(
    site: ClassicSite, second: Node, extended_profile: str
) -> None:
    """The `unprepare` of the node that was shut down never comes; the controller releases the link."""
    await site.start_plugin(FPGA, site.node)
    plugin = await site.start_plugin(FPGA, second)
    controller = await site.start_controller("link", [FPGA], node__1=1, node__2=1)
    claim = await site.classic_claim("claim", "WaitForFirstConsumer", label="link")
    on_second = {"kubernetes.io/hostname": second.name}
    await site.classic_pod("first", "claim", schedulerName=extended_profile, nodeSelector=on_second)
    assert await node_of(site, "first") == second.name
    await plugin.end()
    await asyncio.to_thread(second.reboot, start=False)
    try:
        await cordon(site, second.name, on=True)
        # Both nodes match the selector. No node matches it before kube-scheduler has received the cordon.
        plane = ScheduledCluster(site.client)
        await plane.label_change(second.name, site.namespace)
        cordoned = await plane.label_change(site.node.name, site.namespace)
        await site.delete_pod("first", force=True)
        await site.classic_pod("second", "claim", schedulerName=extended_profile, nodeSelector=cordoned)
        assert await node_of(site, "second") == site.node.name
        assert controller.allocated == {claim.metadata.uid: site.node.name}
        kinds = [each.split()[0] for each in controller.changes]
        assert kinds == ["allocate", "deallocate", "allocate"]
        # The plugin of the node that was shut down has not released its device.
        assert site.prepared(FPGA, second) == site.prepared(FPGA) != {}
    finally:
        await asyncio.to_thread(second.start)
    await site.start_plugin(FPGA, second)

    async def released() -> bool:
        return not site.prepared(FPGA, second)

    await site.until("unprepare on the restarted node", released)
