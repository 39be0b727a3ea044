"""Concurrent calls in two processes on one node have the result of some sequence of calls."""

import asyncio
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from dradriver.driver import Claim
from dradriver.errors import DraError
from dradriver.node.errors import DeviceInUseError
from tests.unit.node.world import Answers, LampDriver, World, allocated, ref


class Watchful(LampDriver):
    """Report a violation if two calls work on one claim at once, or a lamp is lit twice."""

    def __init__(self, hardware: dict[str, tuple[str, ...]], busy: set[str], pauses: list[int]) -> None:
        super().__init__(hardware)
        self.busy = busy
        self.pauses = pauses

    async def prepare(self, claim: Claim) -> Answers:
        async with asyncio.timeout(30):
            await self._alone(claim)
        lit = {lamp for uid, lamps in self.hardware.items() if uid != claim.uid for lamp in lamps}
        assert lit.isdisjoint(device.name for device in claim.devices)
        return await super().prepare(claim)

    async def unprepare(self, claim: Claim) -> None:
        await self._alone(claim)
        await super().unprepare(claim)

    async def _alone(self, claim: Claim) -> None:
        assert claim.uid not in self.busy
        self.busy.add(claim.uid)
        for _ in range(self.pauses.pop() if self.pauses else 0):
            await asyncio.sleep(0)
        self.busy.discard(claim.uid)


CALLS = st.lists(
    st.tuples(st.sampled_from([0, 1]), st.sampled_from(["prepare", "prepare", "unprepare"]), st.integers(0, 3)),
    max_size=12,
)


async def play(root: Path, calls: list[tuple[int, str, int]], pauses: list[int]) -> None:
    world = World(root)
    busy: set[str] = set()
    claims = [allocated(f"claim-{n}", f"lamp-{n // 2}") for n in range(4)]  # two claims a lamp
    drivers = [Watchful(world.hardware, busy, pauses) for _ in range(2)]
    async with world.running(driver=drivers[0]) as one, world.running(driver=drivers[1]) as two:

        async def call(process: int, kind: str, n: int) -> DraError | None:
            chosen = (one, two)[process]
            try:
                await (chosen.prepare(claims[n]) if kind == "prepare" else chosen.unprepare(ref(claims[n])))
            except DeviceInUseError as error:
                return error
            return None

        await asyncio.gather(*(call(*each) for each in calls))
        rows = {row.uid for row in await one.rows()}
        assert rows == world.specs() == set(world.hardware)
        assert len({lamp for lamps in world.hardware.values() for lamp in lamps}) == len(world.hardware)


@settings(max_examples=60)
@given(CALLS, st.lists(st.integers(0, 5), max_size=12))
def test_calls_side_by_side_leave_all_views_equal(calls: list[tuple[int, str, int]], pauses: list[int]) -> None:
    with tempfile.TemporaryDirectory() as root:
        asyncio.run(play(Path(root), calls, pauses))
