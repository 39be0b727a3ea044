"""The kubelet, the driver or the machine stops and starts: pods go on, claims and slices are as before."""

import signal

import pytest

from tests.e2e.sdk.site import CARDS, Site


async def test_slices_are_back_after_a_restart_of_the_kubelet(site: Site) -> None:
    """A kubelet deletes the slices of its node when it starts."""
    await site.start_driver()
    before = await site.slice_uids()
    await site.restart_kubelet()

    async def replaced() -> bool:
        return not before & await site.slice_uids() and len(await site.published_cards()) == CARDS

    await site.until("new slices", replaced)


async def test_a_pod_outlives_a_restart_of_the_kubelet_and_its_claim_is_unprepared_after_it(site: Site) -> None:
    await site.start_driver()
    uid = await site.claim("one")
    await site.pod("pod", "one")
    before = await site.phase("pod", "Running")
    await site.restart_kubelet()
    await site.all_views_are({uid})
    after = await site.phase("pod", "Running")
    assert _container_id(after) == _container_id(before)
    await site.delete_pod("pod")
    await site.gone("pod")
    await site.all_views_are(set())


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
async def test_a_pod_outlives_its_driver_and_the_next_driver_serves(site: Site, how: signal.Signals) -> None:
    driver = await site.start_driver()
    first = await site.claim("first")
    await site.pod("first", "first")
    before = await site.phase("first", "Running")
    slices = await site.slice_uids()
    await driver.end(how)
    await driver.start()
    second = await site.claim("second")
    await site.pod("second", "second")
    await site.phase("second", "Running")
    assert _container_id(await site.phase("first", "Running")) == _container_id(before)
    assert await site.slice_uids() == slices
    await site.all_views_are({first, second})


async def test_a_pod_that_was_deleted_while_the_driver_was_away_goes_when_it_is_back(site: Site) -> None:
    driver = await site.start_driver()
    await site.claim("one")
    await site.pod("pod", "one")
    await site.phase("pod", "Running")
    await driver.end(signal.SIGKILL)
    await site.delete_pod("pod")

    async def stopped() -> bool:
        pod = await site.get_pod("pod")
        assert pod is not None
        return "terminated" in pod["status"]["containerStatuses"][0]["state"]

    await site.until("end of the container", stopped)
    await driver.start()
    await site.gone("pod")
    await site.all_views_are(set())


async def test_a_pod_that_starts_while_the_driver_is_away_runs_when_it_is_back(site: Site) -> None:
    driver = await site.start_driver()
    await site.claim("one")
    await driver.end()
    await site.pod("pod", "one")

    async def refused() -> bool:
        return any("FailedPrepareDynamicResources" in event for event in await site.events("pod"))

    await site.until("event of the kubelet", refused)
    await driver.start()
    await site.phase("pod", "Running")


async def test_after_a_reboot_a_pods_claim_is_prepared_again(site: Site) -> None:
    """Another boot ID, an empty CDI folder, no container left; the state file is still there."""
    driver = await site.start_driver(boot_id="11111111-1111-1111-1111-111111111111")
    uid = await site.claim("one")
    await site.pod("pod", "one", restartPolicy="Always")
    before = await site.phase("pod", "Running")
    await driver.end(signal.SIGKILL)
    await site.reboot()
    await site.start_driver(boot_id="22222222-2222-2222-2222-222222222222")

    async def started_again() -> bool:
        pod = await site.get_pod("pod")
        assert pod is not None
        return pod["status"]["phase"] == "Running" and _container_id(pod) not in ("", _container_id(before))

    await site.until("the container of the second boot", started_again)
    await site.all_views_are({uid})


async def test_a_claim_that_replaced_another_of_its_name_is_prepared_as_itself(site: Site) -> None:
    await site.start_driver()
    old = await site.claim("one")
    await site.pod("first", "one")
    await site.phase("first", "Running")
    await site.delete_pod("first", force=True)
    await site.release_claim("one")
    new = await site.claim("one")
    await site.pod("second", "one")
    await site.phase("second", "Running")
    assert new != old
    await site.all_views_are({new})


async def test_a_card_that_is_pulled_and_plugged_in_leaves_and_enters_the_pool(site: Site) -> None:
    await site.start_driver()
    site.plug(CARDS - 2)
    await site.published(CARDS - 2)
    site.plug(CARDS)
    await site.published(CARDS)


def _container_id(pod: dict[str, object]) -> str:
    status = pod["status"]
    assert isinstance(status, dict)
    return str(status["containerStatuses"][0].get("containerID", ""))
