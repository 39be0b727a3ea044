"""The registration of a driver ends during a call: another instance gets the next call."""

from tests.conformance.kubelet.lab import Lab


async def test_a_pod_starts_only_after_a_whole_prepare(lab: Lab) -> None:
    async with lab.registered() as lost:
        lost.hold.clear()
        await lab.claim("claim")
        await lab.pod("pod", "claim")

        async def is_called() -> bool:
            return bool(lost.prepares)

        await lab.until("prepare", is_called)
        async with lab.registered(instance="b") as other:
            lost.registration_socket.unlink()
            await lab.phase("pod", "Running")
            assert other.prepares == [["claim"]]


async def test_a_pod_ends_after_a_second_unprepare(lab: Lab) -> None:
    async with lab.registered() as lost:
        lost.unprepare_hold.clear()
        await lab.claim("claim")
        await lab.pod("pod", "claim")
        await lab.phase("pod", "Running")
        await lab.delete_pod("pod")

        async def is_called() -> bool:
            return bool(lost.unprepares)

        await lab.until("unprepare", is_called)
        async with lab.registered(instance="b") as other:
            lost.registration_socket.unlink()
            await lab.gone("pod")
            assert other.unprepares == [["claim"]]
