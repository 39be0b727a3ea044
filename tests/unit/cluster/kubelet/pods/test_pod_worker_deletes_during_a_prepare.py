"""A pod that is deleted during a prepare, and a kubelet that stops during one."""

from tests.conformance.kubelet.lab import Lab


async def test_a_running_prepare_is_cancelled_and_unprepared(lab: Lab) -> None:
    async with lab.registered() as driver:
        driver.hold.clear()
        await lab.claim("claim")
        await lab.pod("pod", "claim")

        async def asked() -> bool:
            return bool(driver.prepares)

        await lab.until("prepare", asked)
        await lab.delete_pod("pod")
        await lab.gone("pod")
        assert driver.unprepares == [["claim"]]
        driver.hold.set()


async def test_a_kubelet_that_stops_during_a_prepare_leaves_no_task(lab: Lab) -> None:
    """`tasks_left` checks this at the end."""
    async with lab.registered() as driver:
        driver.hold.clear()
        await lab.claim("claim")
        await lab.pod("pod", "claim")

        async def asked() -> bool:
            return bool(driver.prepares)

        await lab.until("prepare", asked)
        await lab.node.stop()
        driver.hold.set()
        await lab.node.start()
