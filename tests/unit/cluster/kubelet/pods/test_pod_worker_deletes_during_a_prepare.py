"""A pod that is deleted during a prepare."""

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
