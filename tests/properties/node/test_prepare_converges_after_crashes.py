"""For any order of events, state, CDI folder and hardware agree in the end."""

import asyncio
import tempfile
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from dradriver.driver import AllocatedDevice, Claim
from dradriver.errors import DraError
from dradriver.model.resource.claim import ResourceClaim
from dradriver.node.crash_points import CrashPoint
from dradriver.node.state.claim_states import ClaimState
from tests.unit.node.controlled import controlled, result
from tests.unit.node.world import NODE, Answers, LampDriver, Process, World, allocated, ref

CLAIMS = 4
LAMPS = 3  # fewer than claims: some of them collide


class CheckingDriver(LampDriver):
    """Check that each call for a claim of a controller has the claim's handle, and other calls have none."""

    def __init__(self, life: "Life") -> None:
        super().__init__(life.world.hardware)
        self.life = life

    async def prepare(self, claim: Claim) -> Answers:
        self.check(claim)
        return await super().prepare(claim)

    async def unprepare(self, claim: Claim) -> None:
        self.check(claim)
        await super().unprepare(claim)

    def check(self, claim: Claim) -> None:
        wanted = handle_of(claim.uid) if claim.uid in self.life.controlled else None
        self.life.wrong += [each for each in claim.devices if each.handle != wanted]


def handle_of(uid: str) -> bytes:
    return uid.encode() * 2000  # two parts


class Killed(BaseException):
    """The process ended; no code catches this."""


@dataclass
class Killer:
    """Kill the process at the next occurrence of a step."""

    at: CrashPoint | None = None

    def __call__(self, step: CrashPoint, uid: str) -> None:
        if step is self.at:
            self.at = None
            raise Killed


@dataclass
class Life:
    """A node over many processes and boots."""

    world: World
    killer: Killer = field(default_factory=Killer)
    process: Process | None = None
    controlled: set[str] = field(default_factory=set)
    wrong: list[AllocatedDevice] = field(default_factory=list)

    async def running(self) -> Process:
        if self.process is None:
            self.process = await self.world.start(
                driver=CheckingDriver(self), observe=self.killer, complete=False
            )
            await self.process.rebuilder.ensure_complete()
        return self.process

    async def die(self) -> None:
        if self.process is not None:
            await self.process.die()
            self.process = None

    async def survive(self, action: str, claim: ResourceClaim) -> None:
        try:
            process = await self.running()
            with suppress(DraError):
                match action:
                    case "prepare" if await self.exists(claim):
                        await process.prepare(claim)
                    case "unprepare":
                        await process.unprepare(ref(claim))
                    case "collect":
                        await process.reconciler.collect()
                    case "sweep":
                        await process.reconciler.sweep()
                    case _:
                        pass
        except Killed:
            await self.die()

    async def exists(self, claim: ResourceClaim) -> bool:
        """Create the claim on the server; the service looks up each claim before it prepares it."""
        return claim in self.world.api.claims.values()

    async def reboot(self) -> None:
        await self.die()
        self.world.boot_id += "+"
        self.world.hardware.clear()
        self.lose_specs()

    def lose_specs(self) -> None:
        for path in self.world.cdi_dir.glob("*"):
            path.unlink()

    async def lose_state(self) -> None:
        await self.die()
        for path in self.world.root.glob("state.db*"):
            path.unlink()

    def assert_exclusive(self) -> None:
        """Check that no lamp is lit for two claims."""
        lamps = Counter(lamp for lamps in self.world.hardware.values() for lamp in lamps)
        assert max(lamps.values(), default=1) == 1, self.world.hardware

    async def settle(self, claims: list[ResourceClaim]) -> None:
        """Collect deleted claims, prepare existing ones, and check that all views agree."""
        self.killer.at = None
        await self.survive("collect", claims[0])
        for claim in claims:
            await self.survive("prepare", claim)
        await self.survive("sweep", claims[0])
        process = await self.running()
        rows = await process.rows()
        assert {row.state for row in rows} <= {ClaimState.PREPARED}
        recorded = {row.uid for row in rows}
        assert recorded == self.world.specs() == set(self.world.hardware)
        self.assert_exclusive()
        wanted = {claim.metadata.uid for claim in self.world.api.claims.values()}
        assert recorded <= wanted
        lamps = {claim.results[0].device for claim in self.world.api.claims.values()}
        assert len(recorded) == len(lamps), "of the claims for one lamp exactly one has it"


EVENTS = st.one_of(
    st.tuples(st.sampled_from(["prepare", "prepare", "unprepare"]), st.integers(0, CLAIMS - 1)),
    st.tuples(st.sampled_from(CrashPoint), st.just(0)),
    st.tuples(st.sampled_from(["collect", "sweep", "delete", "create"]), st.integers(0, CLAIMS - 1)),
    st.tuples(st.sampled_from(["die", "reboot", "lose specs", "lose state"]), st.just(0)),
)


def make_claim(n: int, *, by_controller: bool) -> ResourceClaim:
    name, lamp, uid = f"claim-{n}", f"lamp-{n % LAMPS}", f"uid-{n}"
    if by_controller:
        return controlled(name, result(lamp, pool=NODE), handle=handle_of(uid), uid=uid)
    return allocated(name, lamp, uid=uid)


async def live(root: Path, by_controller: list[bool], events: list[tuple[str, int]]) -> None:
    claims = [make_claim(n, by_controller=flag) for n, flag in enumerate(by_controller)]
    life = Life(World(root), controlled={f"uid-{n}" for n, flag in enumerate(by_controller) if flag})
    for claim in claims:
        life.world.api.add(claim)
    try:
        for event, n in events:
            match event:
                case CrashPoint():
                    life.killer.at = event
                case "die":
                    await life.die()
                case "reboot":
                    await life.reboot()
                case "lose specs":
                    life.lose_specs()
                case "lose state":
                    await life.lose_state()
                case "delete":
                    life.world.api.claims.pop(("default", f"claim-{n}"), None)
                case "create":
                    life.world.api.add(claims[n])
                case _:
                    await life.survive(event, claims[n])
            life.assert_exclusive()
        await life.settle(claims)
        assert not life.wrong
    finally:
        await life.die()


@settings(max_examples=60)
@given(st.lists(st.booleans(), min_size=CLAIMS, max_size=CLAIMS), st.lists(EVENTS, max_size=14))
def test_every_history_ends_with_all_views_equal(
    by_controller: list[bool], events: list[tuple[str, int]]
) -> None:
    with tempfile.TemporaryDirectory() as root:
        asyncio.run(live(Path(root), by_controller, events))
