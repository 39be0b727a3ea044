"""Work on the prepared state that fails in any way fails alone, and the thread continues."""

import asyncio
import errno
import resource
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest

from dradriver.node.errors import StateError
from dradriver.node.state.claim_states import ClaimEvent, IllegalMoveError
from dradriver.node.state.database import read_rows
from dradriver.node.state.records import ClaimRecord
from dradriver.node.state.rows import Rows
from dradriver.node.state.store import StateStore

RAISED = [
    ValueError("a rule"),
    StopIteration(),
    MemoryError(),
    sqlite3.ProgrammingError("of Python's module, so without SQLite's code"),
]
ENDING = [asyncio.CancelledError(), SystemExit(1), GeneratorExit()]
BEFORE, WITHIN = "before its transaction", "after it has changed a row"


async def opened(path: Path) -> StateStore:
    state = StateStore(path, "boot-1")
    await state.open()
    return state


def beginning(uid: str, size: int = 0) -> Callable[[Rows], object]:
    return lambda rows: rows.move(ClaimRecord(uid=uid, name="x" * size), ClaimEvent.BEGIN_PREPARE)


async def known(state: StateStore, path: Path) -> set[str]:
    """The claims that are in the instance's memory and in the file."""
    rows = await state.read(Rows.all)
    assert rows == read_rows(path)
    assert [await state.read(partial(Rows.get, uid=row.uid)) for row in rows] == rows
    return {row.uid for row in rows}


@pytest.mark.parametrize(
    ("when", "error"),
    [*((BEFORE, error) for error in RAISED), *((WITHIN, error) for error in (*RAISED, *ENDING))],
    ids=repr,
)
async def test_work_that_raises_fails_alone(tmp_path: Path, when: str, error: BaseException) -> None:
    path = tmp_path / "state.db"
    state = await opened(path)

    def fail(*_: object) -> None:
        raise error

    def begun(rows: Rows) -> None:
        beginning("bad")(rows)
        fail()

    bad = state.write(beginning("bad"), first=fail) if when == BEFORE else state.write(begun)
    works = [state.write(beginning("one")), bad, state.write(beginning("two")), state.read(Rows.all)]
    outcomes = await asyncio.gather(*works, return_exceptions=True)
    assert [isinstance(outcome, Exception) for outcome in outcomes] == [False, True, False, False]
    assert await known(state, path) == {"one", "two"}
    await state.close()


async def test_an_illegal_move_after_a_legal_one_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    state = await opened(path)

    def twice(rows: Rows) -> None:
        beginning("bad")(rows)
        rows.move(ClaimRecord(uid="bad"), ClaimEvent.FINISH_UNPREPARE)

    works = [state.write(beginning("one")), state.write(twice), state.write(beginning("two"))]
    outcomes = await asyncio.gather(*works, return_exceptions=True)
    assert isinstance(outcomes[1], IllegalMoveError)
    assert await known(state, path) == {"one", "two"}
    await state.close()


async def test_a_write_that_does_not_fit_on_the_disk_fails_alone(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    state = await opened(path)
    await state.write(beginning("before"))
    with largest_file(200_000):
        works = [
            state.write(beginning("one")),
            state.write(beginning("bad", 400_000)),
            state.write(beginning("two")),
        ]
        outcomes = await asyncio.gather(*works, return_exceptions=True)
    assert [isinstance(outcome, StateError) for outcome in outcomes] == [False, True, False]
    assert await known(state, path) == {"before", "one", "two"}
    await state.write(beginning("bad", 400_000))
    assert await known(state, path) == {"before", "one", "bad", "two"}
    await state.close()


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """As if the disk were full: files of this process grow to this size at most."""
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)


@pytest.mark.parametrize("number", [errno.EROFS, errno.EMFILE])
async def test_requests_fail_while_the_lock_file_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    path = tmp_path / "state.db"
    state = await opened(path)
    await state.write(beginning("before"))

    def refuse(*_: object) -> None:
        raise OSError(number, "no")

    with monkeypatch.context() as patch:
        patch.setattr("dradriver.node.state.database.os.open", refuse)
        with pytest.raises(StateError):
            await state.write(beginning("bad"))
    assert await known(state, path) == {"before"}
    await state.close()


async def test_a_defect_around_the_transaction_is_reported_and_the_thread_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state.db"
    state = await opened(path)

    def broken(*_: object) -> None:
        raise RuntimeError("a defect")

    with monkeypatch.context() as patch:
        patch.setattr("dradriver.node.state.store.read_identity", broken)
        with pytest.raises(StateError, match="a defect"):
            await state.write(beginning("bad"))
    await state.write(beginning("one"))
    assert await known(state, path) == {"one"}
    await state.close()


async def test_a_file_with_invalid_text_is_set_aside_while_the_plugin_runs(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    state = await opened(path)
    await state.write(beginning("one"))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE claims SET boot_id = CAST(X'FF' AS TEXT)")
    with pytest.raises(StateError, match="UTF-8"):
        await state.read(Rows.all)
    assert await known(state, path) == set()
    assert len(list(tmp_path.glob("state.db.corrupt-*[0-9Z]"))) == 1
    await state.close()


async def test_requests_during_the_close_are_rejected(tmp_path: Path) -> None:
    state = await opened(tmp_path / "state.db")
    closing_state = asyncio.create_task(state.close())
    await asyncio.sleep(0)
    with pytest.raises(StateError, match="is closed"):
        await state.write(beginning("late"))
    await closing_state
