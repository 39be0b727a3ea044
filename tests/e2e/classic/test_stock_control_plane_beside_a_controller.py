"""What kube-scheduler and kube-controller-manager of a stock control plane do to a controller's claims."""

import pytest

from dradriver.kube import CLAIMS, Invalid
from tests.e2e.classic.classic_site import FPGA, ClassicSite, device


async def test_a_claim_that_waits_for_its_first_consumer_stays_pending_under_a_stock_scheduler(
    site: ClassicSite,
) -> None:
    """The selector of the class is `false`, so the stock scheduler never allocates a device for it."""
    await site.start_plugin(FPGA)
    await site.classic_claim("claim", "WaitForFirstConsumer")
    await site.classic_pod("pod", "claim")

    async def unschedulable() -> bool:
        pod = await site.get_pod("pod")
        conditions = pod["status"].get("conditions", []) if pod else []
        return any("cannot allocate all claims" in each.get("message", "") for each in conditions)

    await site.until("unschedulable pod", unschedulable)
    assert (await site.claim_status("claim")).get("allocation") is None


async def test_the_last_consumer_leaves_and_the_allocation_stays(site: ClassicSite) -> None:
    """kube-controller-manager removes a finished pod from reservedFor, and clears no allocation."""
    await site.start_plugin(FPGA)
    await site.classic_claim("claim")
    await site.writes.allocate("claim", [device(FPGA)], {FPGA: b"x"}, node=site.node.name)
    await site.classic_pod("finished", "claim", script="true")
    await site.wait_for_phase("finished", "Succeeded")

    async def unused() -> bool:
        return not (await site.claim_status("claim")).get("reservedFor")

    await site.until("release of the claim", unused)
    await site.classic_pod("again", "claim")
    await site.wait_for_phase("again", "Running")
    await site.delete_pod("again")
    await site.wait_for_deletion("again")
    await site.until("release of the claim", unused)
    # A claim with kube-scheduler's finalizer would lose its allocation in the same sync.
    claim = await site.writes.get("claim")
    assert [each.device for each in claim.results] == ["device-0"]
    assert claim.metadata.finalizers == ["controller.example.com/deletion-protection"]


async def test_an_allocation_cannot_be_cleared_while_a_pod_uses_it(site: ClassicSite) -> None:
    await site.start_plugin(FPGA)
    await site.classic_claim("claim")
    await site.writes.allocate("claim", [device(FPGA)], {FPGA: b"x"}, node=site.node.name)
    await site.classic_pod("pod", "claim")
    await site.wait_for_phase("pod", "Running")
    with pytest.raises(Invalid):
        await site.writes.clear_allocation("claim")


async def test_kube_scheduler_clears_an_immediate_claim_that_no_node_can_use(site: ClassicSite) -> None:
    """PostFilter does not ask the controller: allocation, handle and conditions are gone in one write.

    The finalizer and the controller's record stay, so the controller finds out what it must deallocate.
    """
    await site.classic_claim("claim")
    allocated = await site.writes.allocate("claim", [device(FPGA)], {FPGA: b"x"}, node="node-that-is-gone")
    assert allocated.allocation is not None
    await site.classic_pod("pod", "claim")

    async def cleared() -> bool:
        return (await site.claim_status("claim")).get("allocation") is None

    await site.until("cleared allocation", cleared)
    claim = await site.writes.get("claim")
    assert (claim.status.reserved_for, claim.status.devices) == ([], [])
    assert claim.metadata.finalizers == ["controller.example.com/deletion-protection"]
    # The controller allocates it again, now where the pod can run.
    await site.writes.end("claim")
    await site.start_plugin(FPGA)
    await site.writes.allocate("claim", [device(FPGA)], {FPGA: b"y"}, node=site.node.name)
    await site.wait_for_phase("pod", "Running")


async def test_a_claim_that_is_deleted_stays_until_the_controller_removes_its_finalizer(
    site: ClassicSite,
) -> None:
    await site.start_plugin(FPGA)
    await site.classic_claim("claim")
    await site.writes.allocate("claim", [device(FPGA)], {FPGA: b"x"}, node=site.node.name)
    await site.classic_pod("pod", "claim")
    await site.wait_for_phase("pod", "Running")
    await site.client.delete(CLAIMS, "claim", site.namespace)
    await site.delete_pod("pod")
    await site.wait_for_deletion("pod")
    await site.until_released(FPGA)
    claim = await site.writes.get("claim")
    assert claim.metadata.deletion_timestamp is not None
    assert claim.results

    async def unused() -> bool:
        return not (await site.claim_status("claim")).get("reservedFor")

    await site.until("release of the claim", unused)
    await site.writes.clear_allocation("claim")
    await site.writes.end("claim")
    assert not (await site.client.list(CLAIMS, site.namespace, into=dict)).items
