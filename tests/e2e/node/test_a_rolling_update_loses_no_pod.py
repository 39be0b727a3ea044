"""Two instances of the driver side by side during updates, while pods start and stop."""

import asyncio

from tests.e2e.node.site import CARDS, Site

UPDATES = 3


async def test_pods_start_and_stop_during_three_updates(site: Site) -> None:
    driver = await site.start_driver(pod_uid="instance-0")
    done = asyncio.Event()
    rounds = [asyncio.create_task(_start_and_stop_pods(site, slot, done)) for slot in range(CARDS // 2)]
    for update in range(1, UPDATES + 1):
        successor = await site.start_driver(pod_uid=f"instance-{update}")
        await driver.end()
        driver = successor
    done.set()
    started = sum(await asyncio.gather(*rounds))
    assert started >= UPDATES
    assert [event for event in await site.all_events() if _is_failed_prepare(event)] == []
    await site.wait_for_prepared(set())


def _is_failed_prepare(event: str) -> bool:
    """Return whether a prepare failed, except by the kubelet's own race with the API server.

    The Node authorizer may learn of a pod after the kubelet: then it forbids the kubelet to read the claim.
    """
    return "FailedPrepare" in event and "no relationship found between node" not in event


async def _start_and_stop_pods(site: Site, slot: int, done: asyncio.Event) -> int:
    count = 0
    while not done.is_set() or count == 0:
        name = f"pod-{slot}-{count}"
        await site.create_claim(name)
        await site.create_pod(name, name, "true")
        await site.wait_for_phase(name, "Succeeded")
        await site.delete_pod(name)
        await site.wait_for_deletion(name)
        await site.delete_claim(name)
        count += 1
    return count
