"""In no order of requests is a device detached while its node uses it, and at the end it is detached.

The real writer of the usage note and the real check of the controller run on a simulated API server. A second
instance of the driver writes the note too, and an administrator deletes it once. Each request has two gates,
before and after its effect. The test opens the gates by changing priorities of the actors, so that a request
can be delayed for long.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from types import SimpleNamespace
from typing import Any, TypeVar, cast
from unittest.mock import patch

import msgspec

from dradriver.conditions.releases.release_check import ReleaseCheck
from dradriver.driver import Attachment
from dradriver.errors import DraError
from dradriver.kube import CLAIMS, CONFIG_MAPS, AlreadyExists, Client, Conflict, NotFound, Resource
from dradriver.model.core.config_map import ConfigMap
from dradriver.model.core.workload import Node, NodeStatus
from dradriver.model.encoding.codec import rfc3339
from dradriver.model.resource.claim import Allocation, ResourceClaim
from dradriver.node.claims.context import ClaimContext
from dradriver.node.claims.lookup import to_allocated_claim
from dradriver.node.errors import AllocationEndedError
from dradriver.node.state.claim_states import ClaimState
from dradriver.node.state.records import ClaimRecord, ClaimRef, PreparedClaimRecord
from dradriver.node.state.store import StateStore
from dradriver.node.usage.writer import NoteWriter
from dradriver.testing import builders
from dradriver.testing.builders import DRIVER, NODE

T = TypeVar("T")

TIMES = [datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC) for second in (1, 2)]
SEEDS = range(60, 150)
TURNS = 2000
UNUSED = builders.claim()
ACTORS = ["node", "scheduler", "controller", "intervals", "writer", "other writer"]


def allocate(moment: datetime) -> ResourceClaim:
    claim = builders.allocated(UNUSED, "memory-0")
    allocation = msgspec.structs.replace(cast(Allocation, claim.allocation), allocation_timestamp=moment)
    return msgspec.structs.replace(claim, status=msgspec.structs.replace(claim.status, allocation=allocation))


@dataclass
class Game:
    """The API server, the prepared state, and what happens on the node.

    Attributes:
        gates: the requests that wait, with the names of their tasks.
        claim: the claim in the API server.
        note: the ConfigMap in the API server.
        rows: the prepared state, which two processes share.
        used: times of the allocations that the node uses.
        detached: times of the allocations whose device was detached.
        begun, ended: times of the allocations that have begun and ended.
    """

    gates: list[tuple[str, asyncio.Future[None]]] = field(default_factory=list)
    claim: ResourceClaim = UNUSED
    note: ConfigMap | None = None
    version: int = 0
    rows: dict[str, PreparedClaimRecord] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    detached: list[str] = field(default_factory=list)
    begun: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)

    namespace = "drivers"
    boot_id = "boot-1"

    async def gate(self) -> None:
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task = asyncio.current_task()
        assert task is not None
        self.gates.append((task.get_name(), waiting))
        await waiting

    async def request(self, effect: Callable[[], T]) -> T:
        await self.gate()
        outcome: T | None = None
        error: Exception | None = None
        try:
            outcome = effect()
        except DraError as raised:
            error = raised
        await self.gate()
        if error:
            raise error
        return cast(T, outcome)

    async def get(self, resource: Resource, *_: str, into: type[Any]) -> Any:
        return await self.request(lambda: self._get(resource))

    def _get(self, resource: Resource) -> Any:
        if resource is CLAIMS:
            return self.claim
        if resource is not CONFIG_MAPS:
            return Node(status=NodeStatus(node_info={"bootID": self.boot_id}))
        if self.note is None:
            raise NotFound("no note")
        return self.note

    async def create(self, _resource: Resource, body: ConfigMap, *_: str, into: type[Any]) -> Any:
        return await self.request(lambda: self._put(body, "", AlreadyExists("note")))

    async def replace(self, _resource: Resource, body: ConfigMap, *_: str, into: type[Any]) -> Any:
        return await self.request(lambda: self._put(body, body.metadata.resource_version, Conflict("note")))

    def _put(self, body: ConfigMap, expected: str, error: DraError) -> None:
        if expected != (self.note.metadata.resource_version if self.note else ""):
            raise error
        self.version += 1
        metadata = msgspec.structs.replace(body.metadata, resource_version=str(self.version))
        self.note = msgspec.structs.replace(body, metadata=metadata)

    async def read(self, work: Callable[[Any], T]) -> T:
        return await self.request(lambda: work(self))

    def is_complete(self) -> bool:
        return True

    def all(self) -> list[PreparedClaimRecord]:
        return list(self.rows.values())

    def writer(self) -> NoteWriter:
        return NoteWriter(
            cast(Client, self), DRIVER, NODE, state=cast(StateStore, self), is_shared=lambda _: True
        )

    async def use(self, writer: NoteWriter, claim: ResourceClaim) -> None:
        """Attach and release the device, as long as the allocation stands."""
        record: ClaimRecord = to_allocated_claim(claim, DRIVER, NODE).record
        await self.gate()
        self.rows[record.uid] = PreparedClaimRecord(record, ClaimState.PREPARING, self.boot_id, 0)
        try:
            await writer.note_use(record, claim)
        except AllocationEndedError:
            pass
        else:
            assert record.allocated not in self.detached, "a detached device is used"
            self.used.add(record.allocated)
            for _ in range(8):
                await self.gate()
            self.used.remove(record.allocated)
        del self.rows[record.uid]
        writer.wake()

    async def live_on_node(self, writer: NoteWriter) -> None:
        for moment in TIMES:
            while rfc3339(moment) not in self.begun:
                await self.gate()
            await self.use(writer, allocate(moment))

    async def allocate_again(self) -> None:
        for moment in TIMES:
            self.claim = allocate(moment)
            self.begun.add(rfc3339(moment))
            await self.gate()
            self.claim = UNUSED
            self.ended.add(rfc3339(moment))
            await self.gate()

    async def control(self) -> None:
        check = ReleaseCheck(cast(Client, self), DRIVER)
        for moment in map(rfc3339, TIMES):
            attachment = Attachment(UNUSED.metadata.uid, NODE, "memory-0", node=NODE, allocated=moment)
            while moment not in self.ended:
                await self.gate()
            while await check.find_use(attachment):
                await self.gate()
            assert moment not in self.used, "a device in use is detached"
            self.detached.append(moment)


async def open_gates(game: Game, random: Random, tasks: Sequence[asyncio.Task[None]]) -> None:
    """Open the gates until all tasks have ended. Every few gates, other actors go first."""
    order: list[str] = []
    for turn in range(TURNS):
        for _ in range(12):
            await asyncio.sleep(0)
        if all(task.done() for task in tasks):
            return
        if turn % 8 == 0:
            order = random.sample(ACTORS, len(ACTORS))
        if game.gates:
            chosen = min(game.gates, key=lambda gate: order.index(gate[0]) if gate[0] in order else 0)
            game.gates.remove(chosen)
            chosen[1].set_result(None)
    raise AssertionError(f"after {TURNS} turns, {[task.get_name() for task in tasks if not task.done()]} wait")


async def play(random: Random) -> Game:
    game = Game()
    context = cast(ClaimContext, SimpleNamespace(state_complete=asyncio.Event()))
    context.state_complete.set()
    mine, other = game.writer(), game.writer()

    async def check_intervals() -> None:
        for deletes in (False, True, False, True):
            for _ in range(6):
                await game.gate()
            if deletes:
                game.note = None
            other.wake()

    work = [game.live_on_node(mine), game.allocate_again(), game.control(), check_intervals()]
    tasks = [asyncio.create_task(each, name=name) for name, each in zip(ACTORS, work, strict=False)]
    writers = [
        asyncio.create_task(each.run(context), name=name)
        for name, each in zip(ACTORS[len(work) :], (mine, other), strict=True)
    ]
    await open_gates(game, random, tasks)
    for each in writers:
        each.cancel()
    await asyncio.gather(*writers, return_exceptions=True)
    for each in tasks:
        await each
    return game


def test_nothing_in_use_is_detached() -> None:
    async def unprepare(_context: ClaimContext, _ref: ClaimRef, *, unless: Callable[[], object]) -> None:
        """Do nothing: a claim without a record uses nothing here."""

    with patch("dradriver.node.usage.writer.unprepare", unprepare):
        for seed in SEEDS:
            game = asyncio.run(play(Random(seed)))
            assert game.detached == [rfc3339(each) for each in TIMES], seed
