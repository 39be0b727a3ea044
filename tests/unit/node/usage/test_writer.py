"""The writer of a usage note, beside other writers, and with an API server that answers late."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, cast

import msgspec
import pytest
from msgspec.structs import replace

from dradriver.driver import Claim
from dradriver.errors import DraError
from dradriver.kube.client import Client
from dradriver.kube.errors import AlreadyExists, Conflict, NotFound, Unavailable
from dradriver.kube.resources import CONFIG_MAPS, Resource
from dradriver.model.core.config_map import ConfigMap
from dradriver.model.core.meta import Condition, ObjectMeta
from dradriver.model.resource.claim import AllocatedDeviceStatus, DeviceResult, ResourceClaim
from dradriver.node.claims.context import ClaimContext
from dradriver.node.claims.lookup import to_allocated_claim
from dradriver.node.errors import AllocationEndedError
from dradriver.node.state.claim_states import ClaimEvent
from dradriver.node.state.records import ClaimRecord
from dradriver.node.usage.note import UsageEntry, UsageNote, decode_note, encode_note, note_label, note_name
from dradriver.node.usage.writer import NoteWriter
from tests.unit.node.controlled import controlled, result
from tests.unit.node.world import DRIVER, NODE, LampDriver, World, allocated

ATTACHED = f"{DRIVER}/attached"


class Api:
    """The notes of one namespace, and the claims of a world."""

    namespace = "default"

    def __init__(self, world: World) -> None:
        self._claims = world.api
        self._stored: ConfigMap | None = None
        self._gate: asyncio.Event | None = None
        self._is_lost = False
        self.held: asyncio.Future[asyncio.Task[ConfigMap]] = asyncio.get_running_loop().create_future()

    @property
    def note(self) -> UsageNote:
        assert self._stored is not None
        return decode_note(self._stored)

    def hold_next_write(self, *, is_lost: bool) -> asyncio.Event:
        """Let the next write wait for the returned event; its answer is lost at once, or comes at the end."""
        self._gate, self._is_lost = asyncio.Event(), is_lost
        return self._gate

    async def get(self, resource: Resource, name: str, namespace: str = "", *, into: type[Any]) -> Any:
        await asyncio.sleep(0)
        if resource is not CONFIG_MAPS:
            return await self._claims.get(resource, name, namespace, into=into)
        if self._stored is None:
            raise NotFound(name)
        return self._stored

    async def create(self, _resource: Resource, body: ConfigMap, _namespace: str, *, into: type[Any]) -> Any:
        if self._stored is not None:
            raise AlreadyExists(body.metadata.name)
        return self.store(body, 1)

    async def replace(self, _resource: Resource, body: ConfigMap, _namespace: str, *, into: type[Any]) -> Any:
        gate, self._gate = self._gate, None
        work = asyncio.create_task(self._replace(body, gate))
        if gate is not None:
            self.held.set_result(work)
            if self._is_lost:
                raise Unavailable("timeout")
        return await work

    async def _replace(self, body: ConfigMap, gate: asyncio.Event | None) -> ConfigMap:
        if gate is not None:
            await gate.wait()
        assert self._stored is not None
        if body.metadata.resource_version != self._stored.metadata.resource_version:
            raise Conflict(body.metadata.name)
        if body == self._stored:
            return body  # the API server stores no version without a change
        return self.store(body, int(body.metadata.resource_version) + 1)

    def store(self, body: ConfigMap, version: int) -> ConfigMap:
        self._stored = replace(body, metadata=replace(body.metadata, resource_version=str(version)))
        return self._stored


@pytest.fixture
async def api(world: World) -> Api:
    return Api(world)


@pytest.fixture
def claim(world: World) -> ResourceClaim:
    """An allocated claim with an attached device of a pool driver."""
    result = DeviceResult(
        request="r", driver=DRIVER, pool="fabric", device="memory-0", binding_conditions=[ATTACHED]
    )
    claim = allocated("memory", result)
    assert claim.allocation is not None
    allocation = replace(claim.allocation, allocation_timestamp=datetime(2026, 1, 1, tzinfo=UTC))
    return world.api.add(with_status(replace(claim, status=replace(claim.status, allocation=allocation))))


def with_status(claim: ResourceClaim, attached: str = "True", serial: str = "1") -> ResourceClaim:
    status = AllocatedDeviceStatus(
        driver=DRIVER,
        pool="fabric",
        device="memory-0",
        conditions=[Condition(type=ATTACHED, status=attached)],
        data=msgspec.Raw(msgspec.json.encode({"serial": serial})),
    )
    return replace(claim, status=replace(claim.status, devices=[status]))


class Process:
    """A process of the driver: its writer and its prepared state."""

    def __init__(self, api: Api, claims: ClaimContext) -> None:
        self._state = claims.stores.state
        self.claims = claims
        self.writer = NoteWriter(
            cast(Client, api), DRIVER, NODE, state=self._state, is_shared=lambda pool: pool == "fabric"
        )

    async def move(self, claim: ResourceClaim, event: ClaimEvent) -> None:
        await self._state.write(lambda rows: rows.move(record_of(claim), event))

    async def note_use(self, claim: ResourceClaim) -> None:
        await self.writer.note_use(record_of(claim), claim)


def record_of(claim: ResourceClaim) -> ClaimRecord:
    return to_allocated_claim(claim, DRIVER, NODE).record


@asynccontextmanager
async def running(world: World, api: Api, driver: LampDriver | None = None) -> AsyncIterator[Process]:
    async with world.running(driver=driver) as process:
        made = Process(api, process.claims)
        task = asyncio.create_task(made.writer.run(process.claims))
        try:
            yield made
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("is_lost", [False, True], ids=["of another process", "with a lost answer"])
async def test_a_late_write_removes_no_device_that_is_in_use_again(
    world: World, api: Api, claim: ResourceClaim, *, is_lost: bool
) -> None:
    async with running(world, api) as old, running(world, api) as new:
        await old.move(claim, ClaimEvent.BEGIN_PREPARE)
        for process in (old, new):
            await process.note_use(claim)  # neither writer has anything left to write
        gate = api.hold_next_write(is_lost=is_lost)
        await old.move(claim, ClaimEvent.BEGIN_UNPREPARE)
        await old.move(claim, ClaimEvent.FINISH_UNPREPARE)
        old.writer.wake()
        late = await api.held
        again = old if is_lost else new
        await again.move(claim, ClaimEvent.BEGIN_PREPARE)
        await again.note_use(claim)
        gate.set()
        await asyncio.gather(late, return_exceptions=True)
        assert [entry.claim_uid for entry in api.note.entries] == [claim.metadata.uid]


@pytest.mark.parametrize(
    ("attached", "serial"), [("False", "1"), ("True", "2")], ids=["not attached yet", "attached again"]
)
async def test_an_equal_allocation_of_the_same_second_is_another_one(
    world: World, api: Api, claim: ResourceClaim, attached: str, serial: str
) -> None:
    async with running(world, api) as process:
        await process.move(claim, ClaimEvent.BEGIN_PREPARE)
        await process.note_use(claim)
        world.api.add(with_status(claim, attached, serial))
        with pytest.raises(AllocationEndedError, match="memory-0"):
            await process.note_use(claim)


async def test_a_use_fails_after_a_time_while_the_prepared_state_is_rebuilt(
    world: World, api: Api, claim: ResourceClaim, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller has the claim's lock, which the rebuilding may need."""
    monkeypatch.setattr(NoteWriter, "use_seconds", 0.01)
    async with running(world, api) as process:
        await process.move(claim, ClaimEvent.BEGIN_PREPARE)
        process.claims.state_complete.clear()
        with pytest.raises(DraError, match="is not written within"):
            await process.note_use(claim)


async def test_the_note_of_another_driver_is_not_written(world: World, api: Api, claim: ResourceClaim) -> None:
    """Driver `a` on node `b-c` has the same name of a note as driver `a-b` on node `c`."""
    key, value = note_label("other.example.com")
    metadata = ObjectMeta(name=note_name(DRIVER, NODE), namespace="default", labels={key: value})
    theirs = UsageNote("node", "boot", frozenset())
    api.store(ConfigMap(metadata=metadata, data=encode_note(theirs)), 1)
    async with running(world, api) as process:
        await process.move(claim, ClaimEvent.BEGIN_PREPARE)
        with pytest.raises(DraError, match=r"belongs to driver other\.example\.com"):
            await process.note_use(claim)
    assert api.note == theirs


class Stubborn(LampDriver):
    """It cannot release one claim.

    Attributes:
        stuck: the UID of this claim.
    """

    stuck = "uid-1"

    async def unprepare(self, claim: Claim) -> None:
        if claim.uid == self.stuck:
            raise DraError("busy")


async def test_an_unrecorded_claim_that_cannot_be_released_delays_no_other(world: World, api: Api) -> None:
    entries = [UsageEntry(claim_uid=uid, pool="fabric", device=uid) for uid in ("uid-1", "uid-2", "uid-3")]
    metadata = ObjectMeta(name=note_name(DRIVER, NODE), namespace="default")
    for stuck in ("uid-1", "uid-2"):
        api.store(
            ConfigMap(metadata=metadata, data=encode_note(UsageNote(NODE, "boot-1", frozenset(entries)))),
            1,
        )
        driver = Stubborn(world.hardware)
        driver.stuck = stuck
        async with running(world, api, driver):
            while {entry.claim_uid for entry in api.note.entries} != {stuck}:
                await asyncio.sleep(0.001)


async def test_a_device_that_a_controller_has_allocated_is_noted_too(world: World, api: Api) -> None:
    """No pool driver attaches it. The note shows that the node uses it."""
    wanted = world.api.add(controlled("port", result("port-0", pool="fabric"), handle=b"x"))
    async with running(world, api) as process:
        await process.move(wanted, ClaimEvent.BEGIN_PREPARE)
        await process.note_use(wanted)
        changed = controlled("port", result("port-0", pool="fabric"), handle=b"y", uid=wanted.metadata.uid)
        world.api.add(changed)
        with pytest.raises(AllocationEndedError, match="no longer has the allocation"):
            await process.note_use(wanted)
    (entry,) = api.note.entries
    assert (entry.claim_uid, entry.pool, entry.device) == (wanted.metadata.uid, "fabric", "port-0")
