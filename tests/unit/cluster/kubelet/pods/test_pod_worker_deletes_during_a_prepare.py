"""A pod that is deleted while its driver still prepares."""

from tests.conformance.kubelet_lab import Lab


async def test_a_prepare_under_way_is_given_up_and_unprepared(lab: Lab) -> None:
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
