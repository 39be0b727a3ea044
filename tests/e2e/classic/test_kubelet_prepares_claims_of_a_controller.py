"""A controller allocates, the stock kube-scheduler reserves, and the real kubelet prepares with the handle."""

from typing import Any

from dradriver.kube import SLICES
from dradriver.model.classic.names import DEALLOCATION_REQUESTED, MAX_HANDLE_BYTES
from tests.e2e.classic.classic_site import FPGA, NIC, ClassicSite, device
from tests.e2e.classic.link_driver import digest

FULL = bytes(range(256)) * (MAX_HANDLE_BYTES // 256)
PRINT = "env; echo complete; trap 'exit 0' TERM; sleep infinity & wait"


async def variables(site: ClassicSite, pod: str) -> dict[str, str]:
    """Wait until the log of a pod is complete; return the variables of plugins."""

    async def complete() -> list[str]:
        lines = (await site.logs(pod)).splitlines()
        return lines if "complete" in lines else []

    log = await site.until(f"log of pod {pod}", complete)
    lines = [line.partition("=") for line in log if line.startswith("LINK_")]
    return {name: value for name, _, value in lines}


async def test_a_handle_of_16_kib_reaches_prepare_and_unprepare(site: ClassicSite) -> None:
    """US: an Immediate claim under a stock scheduler."""
    await site.start_plugin(FPGA)
    claim = await site.classic_claim("claim")
    await site.writes.allocate("claim", [device(FPGA)], {FPGA: FULL}, node=site.node.name)
    await site.classic_pod("pod", "claim", script=PRINT)
    await site.wait_for_phase("pod", "Running")
    assert site.prepared(FPGA) == {claim.metadata.uid: [digest(FULL)]}
    assert await variables(site, "pod") == {"LINK_FPGA": digest(FULL)}
    await site.delete_pod("pod")
    await site.wait_for_deletion("pod")
    await site.until_released(FPGA)


async def test_one_claim_has_devices_of_two_plugins_each_with_its_handle(site: ClassicSite) -> None:
    """The combined hardware of the KEP: an FPGA block and a NIC of one card, for one pod."""
    await site.start_plugin(FPGA)
    await site.start_plugin(NIC)
    claim = await site.classic_claim("card")
    results = [device(FPGA, "block-0"), device(FPGA, "block-1"), device(NIC, "port-0")]
    await site.writes.allocate("card", results, {FPGA: FULL, NIC: b"port 7"}, node=site.node.name)
    await site.classic_pod("pod", "card", script=PRINT)
    await site.wait_for_phase("pod", "Running")
    uid = claim.metadata.uid
    assert site.prepared(FPGA) == {uid: [digest(FULL)] * 2}
    assert site.prepared(NIC) == {uid: [digest(b"port 7")]}
    assert await variables(site, "pod") == {"LINK_FPGA": digest(FULL), "LINK_NIC": digest(b"port 7")}
    await site.delete_pod("pod")
    await site.wait_for_deletion("pod")
    await site.until_released(FPGA)
    await site.until_released(NIC)


async def test_a_pod_on_a_node_starts_when_its_claim_is_allocated_and_reserved(site: ClassicSite) -> None:
    """A pod that was bound without its claim: one write allocates the claim and reserves it for the pod."""
    await site.start_plugin(FPGA)
    await site.classic_claim("claim", "WaitForFirstConsumer")
    pod = await site.classic_pod("pod", "claim", nodeName=site.node.name)

    async def waits() -> bool:
        return any("claim" in event for event in await site.events("pod") if "FailedPrepare" in event)

    await site.until("event of the kubelet", waits)
    assert site.prepared(FPGA) == {}
    await site.writes.allocate("claim", [device(FPGA)], {FPGA: b"x"}, node=site.node.name, pod=pod)
    await site.wait_for_phase("pod", "Running")
    assert list(site.prepared(FPGA).values()) == [[digest(b"x")]]


async def test_a_claim_without_devices_calls_no_plugin(site: ClassicSite) -> None:
    """No plugin runs on the node. The allocation is for all nodes."""
    await site.classic_claim("claim")
    await site.writes.allocate("claim", [], {})
    await site.classic_pod("pod", "claim")
    await site.wait_for_phase("pod", "Running")
    await site.delete_pod("pod")
    await site.wait_for_deletion("pod")


async def test_a_plugin_without_devices_of_its_own_offers_none_and_survives_a_restart(
    site: ClassicSite,
) -> None:
    plugin = await site.start_plugin(FPGA)
    listed = (await site.client.list(SLICES, fields=f"spec.driver={FPGA}", into=dict[str, Any])).items
    assert [each["spec"].get("devices", []) for each in listed] == [[]]
    claim = await site.classic_claim("claim")
    await site.writes.allocate("claim", [device(FPGA)], {FPGA: FULL}, node=site.node.name)
    await site.classic_pod("pod", "claim")
    await site.wait_for_phase("pod", "Running")
    await plugin.end()
    for file in (site.node.plugins / FPGA).glob("state.db*"):
        file.unlink()
    await site.start_plugin(FPGA)
    assert site.prepared(FPGA) == {claim.metadata.uid: [digest(FULL)]}
    await site.delete_pod("pod")
    await site.wait_for_deletion("pod")
    await site.until_released(FPGA)


async def test_the_request_to_deallocate_survives_the_status_of_the_plugin(site: ClassicSite) -> None:
    """Both are in one entry of `status.devices`. Clearing the allocation removes them in the same write."""
    plugin = await site.start_plugin(FPGA)
    await site.classic_claim("claim")
    await site.writes.allocate("claim", [device(FPGA)], {FPGA: b"x"}, node=site.node.name)
    await site.classic_pod("pod", "claim")
    await site.wait_for_phase("pod", "Running")

    async def reported() -> Any:
        (entry,) = (await site.claim_status("claim")).get("devices") or [{}]
        return entry if entry.get("data") else None

    await site.until("status of the plugin", reported)
    await site.writes.request_deallocation("claim")
    await plugin.end()
    await site.start_plugin(FPGA)
    await site.delete_pod("pod")
    await site.wait_for_deletion("pod")
    entry = await reported()
    assert entry["data"] == {"handle": digest(b"x")}
    assert {each["type"] for each in entry["conditions"]} == {"Linked", DEALLOCATION_REQUESTED}

    async def unused() -> bool:
        return not (await site.claim_status("claim")).get("reservedFor")

    await site.until("release of the claim", unused)
    cleared = await site.writes.clear_allocation("claim")
    assert (cleared.allocation, cleared.status.devices) == (None, [])
    assert cleared.metadata.finalizers
