"""The prepared state's file: durable, shared, migrated, set aside when it cannot be read."""

import asyncio
import errno
import resource
import signal
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from dradriver.errors import InvalidObjectError
from dradriver.node.errors import StateError
from dradriver.node.files import atomic
from dradriver.node.reporting.status import node_status
from dradriver.node.state import database
from dradriver.node.state.claim_states import ClaimEvent, ClaimState, IllegalMoveError
from dradriver.node.state.records import ClaimRecord, RecordedDevice, decode_record, encode_record
from dradriver.node.state.rows import Rows
from dradriver.node.state.store import StateStore
from dradriver.node.state.tables import DamagedError, add_digest, remove_digest
from tests.unit.node.world import World, allocated


async def opened(path: Path) -> StateStore:
    state = StateStore(path, "boot-1")
    await state.open()
    return state


def device(name: str) -> RecordedDevice:
    return RecordedDevice(request="request", pool="node-1", device=name)


STATEMENTS = {
    "newer": "PRAGMA user_version = 1000",
    "version below zero": "PRAGMA user_version = -1",
    "no version": "PRAGMA user_version = 0",
    "older version": "PRAGMA user_version = 1",
    "foreign": "PRAGMA application_id = 1",
    "bad row": "UPDATE claims SET record = X'7B'",
    "bad state": "UPDATE claims SET state = 'lost'",
    "bad text": "UPDATE claims SET boot_id = CAST(X'FF' AS TEXT)",
    "other device": "UPDATE claims SET record = CAST(replace(CAST(record AS TEXT), 'p-0', 'p-1') AS BLOB)",
    "other claim": "UPDATE claims SET uid = 'uid'",
    "other state": "UPDATE claims SET state = 'unpreparing'",
    "other offer": "UPDATE offers SET value = CAST(replace(CAST(value AS TEXT), 'lamp-0', 'lamp-1') AS BLOB)",
    "trigger": "CREATE TRIGGER more AFTER INSERT ON claims BEGIN DELETE FROM claims; END",
}
BYTES = {
    "schema that is no UTF-8": (b"record BLOB", b"record \xffLOB"),
    "schema without a column": (b"boot_id TEXT", b"bo\x00t_id TEXT"),
    "schema with another column": (b"boot_id TEXT", b"root_id TEXT"),
    "header of another format": (b"SQLite format 3", b"SQLite format 4"),
}


def damaged(path: Path, how: str) -> None:
    data = bytearray(path.read_bytes())
    if how == "garbage":
        path.write_bytes(b"this is no database" * 100)
    elif how == "torn":
        path.write_bytes(data[:5000])
    elif how == "header that forbids writing":
        data[18] = 3
        path.write_bytes(data)
    elif how == "index that lacks a row":
        with closing(sqlite3.connect(path)) as connection:
            (page,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE type = 'index'").fetchone()
        cells = (page - 1) * 4096 + 3
        data[cells : cells + 2] = bytes(2)
        path.write_bytes(data)
    elif how in BYTES:
        assert BYTES[how][0] in data
        path.write_bytes(data.replace(*BYTES[how], 1))
    else:
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(STATEMENTS[how])


DAMAGES = ["garbage", "torn", "header that forbids writing", "index that lacks a row", *BYTES, *STATEMENTS]


@pytest.mark.parametrize("how", DAMAGES)
async def test_an_unreadable_file_is_set_aside_and_rebuilt(world: World, how: str) -> None:
    claim = world.api.add(allocated("claim", "lamp-0"))
    async with world.running() as process:
        await process.prepare(claim)
    before = world.state_file.read_bytes()
    damaged(world.state_file, how)
    broken = world.state_file.read_bytes()
    async with world.running(complete=False) as process:
        await process.rebuilder.ensure_complete()
        assert [(row.uid, row.state) for row in await process.rows()] == [
            (claim.metadata.uid, ClaimState.PREPARED)
        ]
    (aside,) = node_status(world.root).set_aside
    assert aside.name.startswith("state.db.corrupt-")
    assert before
    assert aside.read_bytes() == broken


def test_a_change_of_any_byte_of_a_row_is_detected() -> None:
    text = encode_record(ClaimRecord(uid="uid-1", name="claim", devices=[device("lamp-0"), device("lamp-1")]))
    stored = add_digest(text, "uid-1")
    assert remove_digest(stored, "uid-1") == text
    for place in range(len(stored)):
        for bit in range(8):
            changed = bytearray(stored)
            changed[place] ^= 1 << bit
            try:
                read = decode_record(remove_digest(bytes(changed), "uid-1"))
            except (DamagedError, InvalidObjectError):
                continue
            assert read == decode_record(text), (place, bit)


def test_a_row_of_a_version_without_digests_is_read() -> None:
    text = encode_record(ClaimRecord(uid="uid-1"))
    assert remove_digest(text, "uid-1") == text
    assert decode_record(add_digest(text, "uid-1")) == decode_record(text)  # and that version reads ours


async def test_nothing_is_prepared_until_the_state_is_rebuilt(world: World) -> None:
    claim = world.api.add(allocated("claim", "lamp-0"))
    world.api.failure = StateError("the API server is away")
    async with world.running(complete=False, deadline=0.05) as process:
        completing = asyncio.create_task(process.rebuilder.ensure_complete())
        with pytest.raises(Exception, match="the prepared state is being rebuilt"):
            await process.prepare(claim)
        world.api.failure = None
        await completing
        assert await process.prepare(claim, 30)


async def test_a_rebuilt_state_keeps_reserved_devices_from_others(world: World) -> None:
    world.api.add(allocated("claim", "lamp-0"))
    async with world.running(complete=False) as process:
        await process.rebuilder.ensure_complete()
        assert [row.state for row in await process.rows()] == [ClaimState.PREPARING]
        assert process.driver.calls == []
        with pytest.raises(Exception, match="is prepared for claim default/claim"):
            await process.prepare(allocated("rival", "lamp-0"))


async def test_a_complete_state_is_not_rebuilt_at_the_next_start(world: World) -> None:
    async with world.running(complete=False) as process:
        await process.rebuilder.ensure_complete()
    world.api.add(allocated("claim", "lamp-0"))
    async with world.running(complete=False) as process:
        await process.rebuilder.ensure_complete()
        assert await process.rows() == []


async def test_concurrent_transactions_succeed_and_fail_one_by_one(tmp_path: Path) -> None:
    state = await opened(tmp_path / "state.db")

    def begin(n: int) -> asyncio.Future[object]:
        event = ClaimEvent.BEGIN_PREPARE if n % 2 else ClaimEvent.FINISH_PREPARE
        record = ClaimRecord(uid=f"uid-{n}")
        return asyncio.ensure_future(state.write(lambda rows: rows.move(record, event)))

    outcomes = await asyncio.gather(*map(begin, range(20)), return_exceptions=True)
    assert [isinstance(outcome, IllegalMoveError) for outcome in outcomes] == [n % 2 == 0 for n in range(20)]
    assert {row.uid for row in await state.read(Rows.all)} == {f"uid-{n}" for n in range(1, 20, 2)}
    await state.close()


async def test_a_transaction_that_raises_in_its_middle_changes_nothing(tmp_path: Path) -> None:
    state = await opened(tmp_path / "state.db")

    def half(rows: Rows) -> None:
        rows.move(ClaimRecord(uid="uid-1"), ClaimEvent.BEGIN_PREPARE)
        raise ValueError("in the middle")

    with pytest.raises(ValueError, match="in the middle"):
        await state.write(half)
    assert await state.read(Rows.all) == []
    await state.close()


async def test_two_processes_see_what_the_other_wrote(tmp_path: Path) -> None:
    one, two = await opened(tmp_path / "state.db"), await opened(tmp_path / "state.db")

    async def begin(state: StateStore, uid: str) -> None:
        await state.write(lambda rows: rows.move(ClaimRecord(uid=uid), ClaimEvent.BEGIN_PREPARE))

    await asyncio.gather(
        *(begin(one, f"one-{n}") for n in range(20)), *(begin(two, f"two-{n}") for n in range(20))
    )
    assert await one.read(Rows.all) == await two.read(Rows.all)
    assert len(await one.read(Rows.all)) == 40
    await asyncio.gather(one.close(), two.close())


async def test_requests_right_before_the_close_are_done(tmp_path: Path) -> None:
    state = await opened(tmp_path / "state.db")
    writing = asyncio.create_task(
        state.write(lambda rows: rows.move(ClaimRecord(uid="a"), ClaimEvent.BEGIN_PREPARE))
    )
    await asyncio.sleep(0)
    await state.close()
    assert (await writing).state is ClaimState.PREPARING
    assert [row.uid for row in node_status(tmp_path).claims] == ["a"]


async def test_a_closed_state_is_an_error(tmp_path: Path) -> None:
    state = await opened(tmp_path / "state.db")
    await state.close()
    with pytest.raises(StateError, match="is closed"):
        await state.read(Rows.all)


async def test_a_directory_that_does_not_exist_is_an_error_with_the_path(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=r"missing/state.db: cannot be opened"):
        await opened(tmp_path / "missing" / "state.db")


def test_a_status_without_a_state_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="no driver has run here"):
        node_status(tmp_path)


async def test_another_process_reads_the_status_while_the_plugin_runs(world: World) -> None:
    async with world.running() as process:
        await process.prepare(allocated("claim", "lamp-0"))
        (row,) = node_status(world.root).claims
        assert (row.record.name, row.state, row.boot_id) == ("claim", ClaimState.PREPARED, "boot-1")


@contextmanager
def no_file_may_grow() -> Iterator[None]:
    """Simulates a full disk: writes beyond this size fail."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


async def test_a_full_disk_fails_the_prepare_and_leaves_no_row_and_no_spec(world: World) -> None:
    claim = allocated("claim", "lamp-0")
    async with world.running() as process:
        with no_file_may_grow():
            with pytest.raises(StateError, match="prepared state"):
                await process.prepare(claim)
            assert await process.rows() == []
        assert process.driver.calls == []
        assert world.specs() == set()
        await process.prepare(claim)


async def test_a_full_disk_at_the_spec_releases_the_device(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = allocated("claim", "lamp-0")

    def full(path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    async with world.running() as process:
        with monkeypatch.context() as disk:
            disk.setattr(atomic, "write_atomically", full)
            with pytest.raises(StateError, match=f"claim {claim.ref} .*cannot be written.*No space left"):
                await process.prepare(claim)
        assert await process.rows() == []
        assert (world.hardware, world.specs()) == ({}, set())
        await process.prepare(claim)


def test_a_file_that_does_not_fit_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "spec.json"
    atomic.write_atomically(path, b"old")
    with no_file_may_grow(), pytest.raises(OSError, match="too large"):
        atomic.write_atomically(path, b"x" * 1000)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


async def handed_over() -> None:
    """One round of the loop in which tasks ask, and one in which the thread gets what they have asked for."""
    for _ in range(2):
        await asyncio.sleep(0)


async def test_a_file_that_stays_locked_fails_all_waiting_requests_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_BUSY_SECONDS", 0.05)
    state = await opened(tmp_path / "state.db")
    begun: list[int] = []
    transaction = StateStore._transaction

    def counted(*given: Any) -> None:
        begun.append(1)
        transaction(*given)

    monkeypatch.setattr(StateStore, "_transaction", counted)
    reads, gate = threading.Event(), threading.Event()

    def occupy(_: Rows) -> None:
        reads.set()
        gate.wait()

    reading = asyncio.create_task(state.read(occupy))
    await asyncio.to_thread(reads.wait)
    with closing(sqlite3.connect(tmp_path / "state.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        writing = [asyncio.create_task(state.write(lambda rows: rows.all())) for _ in range(8)]
        await handed_over()
        gate.set()
        outcomes = await asyncio.gather(*writing, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [StateError] * 8
    assert len(begun) == 1
    await reading
    assert await state.write(lambda rows: rows.all()) == []
    await state.close()


async def test_a_request_that_is_cancelled_during_a_write_ends_after_the_write(tmp_path: Path) -> None:
    state = await opened(tmp_path / "state.db")
    begun, gate = threading.Event(), threading.Event()

    def slow() -> None:
        begun.set()
        gate.wait()

    writing = asyncio.create_task(state.write(lambda rows: rows.all(), first=slow))
    await asyncio.to_thread(begun.wait)
    for _ in range(2):
        writing.cancel()
        await asyncio.sleep(0)
    assert not writing.done()
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await writing
    await state.close()
