"""The kubelet, the driver or the machine restarts: pods keep running, claims and slices stay."""

import signal

import pytest

from tests.e2e.node.site import CARDS, Site


async def test_slices_are_published_again_after_a_restart_of_the_kubelet(site: Site) -> None:
    """A kubelet deletes the slices of its node when it starts."""
    await site.start_driver()
    before = await site.slice_uids()
    await site.restart_kubelet()

    async def replaced() -> bool:
        return not before & await site.slice_uids() and len(await site.published_cards()) == CARDS

    await site.until("new slices", replaced)


async def test_a_pod_survives_a_restart_of_the_kubelet_and_its_claim_is_unprepared_later(site: Site) -> None:
    await site.start_driver()
    uid = await site.create_claim("one")
    await site.create_pod("pod", "one")
    before = await site.wait_for_phase("pod", "Running")
    await site.restart_kubelet()
    await site.wait_for_prepared({uid})
    after = await site.wait_for_phase("pod", "Running")
    assert _container_id(after) == _container_id(before)
    await site.delete_pod("pod")
    await site.wait_for_deletion("pod")
    await site.wait_for_prepared(set())


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
async def test_a_pod_survives_its_driver_and_the_next_driver_serves(site: Site, how: signal.Signals) -> None:
    driver = await site.start_driver()
    first = await site.create_claim("first")
    await site.create_pod("first", "first")
    before = await site.wait_for_phase("first", "Running")
    slices = await site.slice_uids()
    await driver.end(how)
    await driver.start()
    second = await site.create_claim("second")
    await site.create_pod("second", "second")
    await site.wait_for_phase("second", "Running")
    assert _container_id(await site.wait_for_phase("first", "Running")) == _container_id(before)
    assert await site.slice_uids() == slices
    await site.wait_for_prepared({first, second})


async def test_a_pod_that_is_deleted_without_a_driver_ends_when_the_driver_returns(site: Site) -> None:
    driver = await site.start_driver()
    await site.create_claim("one")
    await site.create_pod("pod", "one")
    await site.wait_for_phase("pod", "Running")
    await driver.end(signal.SIGKILL)
    await site.delete_pod("pod")

    async def stopped() -> bool:
        pod = await site.get_pod("pod")
        assert pod is not None
        return "terminated" in pod["status"]["containerStatuses"][0]["state"]

    await site.until("end of the container", stopped)
    await driver.start()
    await site.wait_for_deletion("pod")
    await site.wait_for_prepared(set())


async def test_a_pod_that_starts_without_a_driver_runs_when_the_driver_returns(site: Site) -> None:
    driver = await site.start_driver()
    await site.create_claim("one")
    await driver.end()
    await site.create_pod("pod", "one")

    async def refused() -> bool:
        return any("FailedPrepareDynamicResources" in event for event in await site.events("pod"))

    await site.until("event of the kubelet", refused)
    await driver.start()
    await site.wait_for_phase("pod", "Running")


async def test_after_a_reboot_a_pods_claim_is_prepared_again(site: Site) -> None:
    """Another boot ID, an empty CDI folder, no container; the state file still exists."""
    driver = await site.start_driver(boot_id="11111111-1111-1111-1111-111111111111")
    uid = await site.create_claim("one")
    await site.create_pod("pod", "one", restartPolicy="Always")
    before = await site.wait_for_phase("pod", "Running")
    await driver.end(signal.SIGKILL)
    await site.reboot()
    await site.start_driver(boot_id="22222222-2222-2222-2222-222222222222")

    async def started_again() -> bool:
        pod = await site.get_pod("pod")
        assert pod is not None
        return pod["status"]["phase"] == "Running" and _container_id(pod) not in ("", _container_id(before))

    await site.until("the container of the second boot", started_again)
    await site.wait_for_prepared({uid})


async def test_a_claim_with_the_name_of_a_deleted_one_is_prepared_separately(site: Site) -> None:
    await site.start_driver()
    old = await site.create_claim("one")
    await site.create_pod("first", "one")
    await site.wait_for_phase("first", "Running")
    await site.delete_pod("first", force=True)
    await site.delete_claim("one")
    new = await site.create_claim("one")
    await site.create_pod("second", "one")
    await site.wait_for_phase("second", "Running")
    assert new != old
    await site.wait_for_prepared({new})


async def test_a_removed_card_leaves_the_pool_and_a_new_one_joins_it(site: Site) -> None:
    await site.start_driver()
    site.set_cards(CARDS - 2)
    await site.wait_for_published(CARDS - 2)
    site.set_cards(CARDS)
    await site.wait_for_published(CARDS)


def _container_id(pod: dict[str, object]) -> str:
    status = pod["status"]
    assert isinstance(status, dict)
    return str(status["containerStatuses"][0].get("containerID", ""))
