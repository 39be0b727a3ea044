"""Two instances that prepare and fail concurrently keep the rules of devices, counters and groups."""

import asyncio
import tempfile
from pathlib import Path
from typing import Final, TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st

from dradriver.driver import Claim
from dradriver.errors import DraError
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool
from dradriver.node.state.database import read_rows
from tests.unit.node.world import NODE, Answers, LampDriver, World, allocated, ref

GROUPS: Final[tuple[list[str], ...]] = ([], ["a"], ["a", "b"], ["b"])
AMOUNTS: Final = (1, 2, 3)
TOTAL: Final = 4
DEVICES: Final = {
    f"lamp-{amount}-{number}": CounterConsumption("power", {"watts": amount}, groups)
    for amount in AMOUNTS
    for number, groups in enumerate(GROUPS)
}


class Unreliable(LampDriver):
    """Fail as the test configures, before or after a change of the hardware."""

    def __init__(self, hardware: dict[str, tuple[str, ...]], failures: list[str]) -> None:
        super().__init__(hardware, [Device(name, consumes_counters=[c]) for name, c in DEVICES.items()])
        self.failures = failures

    def discover(self) -> list[Pool]:
        return [Pool(NODE, tuple(self.devices), (CounterSet("power", {"watts": TOTAL}),))]

    async def prepare(self, claim: Claim) -> Answers:
        failure = self.failures.pop() if self.failures else ""
        if failure == "before":
            raise DraError(failure)
        answers = await super().prepare(claim)
        if failure == "after":
            raise DraError(failure)
        return answers

    async def unprepare(self, claim: Claim) -> None:
        if self.failures and self.failures.pop() == "before":
            raise DraError("before")
        await super().unprepare(claim)


Call: TypeAlias = tuple[int, str, int]
CALLS = st.lists(
    st.tuples(st.sampled_from([0, 1]), st.sampled_from(["prepare", "prepare", "unprepare"]), st.integers(0, 7)),
    max_size=10,
)
CLAIMS = st.lists(
    st.lists(st.sampled_from(sorted(DEVICES)), min_size=1, max_size=2, unique=True), min_size=8, max_size=8
)
FAILURES = st.lists(st.sampled_from(["", "", "before", "after"]), max_size=20)


def check(path: Path) -> None:
    """Check that all recorded and prepared claims can be in use at the same time."""
    names = [device.device for row in read_rows(path) for device in row.record.devices]
    assert len(set(names)) == len(names)
    assert sum(int(name.split("-")[1]) for name in names) <= TOTAL
    groups = [set(DEVICES[name].compatibility_groups or ["none"]) for name in names]
    assert not groups or set.intersection(*groups)


async def play(root: Path, devices: list[list[str]], rounds: list[list[Call]], failures: list[str]) -> None:
    world = World(root)
    claims = [allocated(f"claim-{n}", *names) for n, names in enumerate(devices)]
    drivers = [Unreliable(world.hardware, failures) for _ in range(2)]
    async with world.running(driver=drivers[0]) as one, world.running(driver=drivers[1]) as two:

        async def call(instance: int, kind: str, n: int) -> None:
            chosen = (one, two)[instance]
            if kind == "prepare":
                await chosen.prepare(claims[n])
            else:
                await chosen.unprepare(ref(claims[n]))

        for calls in rounds:
            outcomes = await asyncio.gather(*(call(*each) for each in calls), return_exceptions=True)
            assert all(outcome is None or isinstance(outcome, DraError) for outcome in outcomes)
            check(world.state_file)
            assert set(world.hardware) <= {row.uid for row in read_rows(world.state_file)}
        failures.clear()
        await asyncio.gather(*(one.unprepare(ref(claim)) for claim in claims))
        assert (await two.rows(), world.hardware, world.specs()) == ([], {}, set())


@settings(max_examples=40)
@given(CLAIMS, st.lists(CALLS, max_size=3), FAILURES)
def test_no_mix_of_calls_and_failures_breaks_a_rule(
    devices: list[list[str]], rounds: list[list[Call]], failures: list[str]
) -> None:
    with tempfile.TemporaryDirectory() as root:
        asyncio.run(play(Path(root), devices, rounds, failures))
