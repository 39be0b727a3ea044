"""The write-ahead log is bounded, however much is written and however writes and checkpoints fall together."""

import asyncio
import contextlib
import sqlite3
from pathlib import Path

from dradriver.cluster.apiserver.storage.persist import Database, Row

LARGEST = 256 * 1024
BODY = b"x" * 20_000


def row(revision: int) -> Row:
    return Row("/pods", "default", f"pod-{revision % 7}", revision, BODY + str(revision).encode())


async def test_the_log_starts_anew_while_writes_never_stop(tmp_path: Path) -> None:
    database = Database(tmp_path / "state.db", LARGEST)
    database.open()
    largest = 0
    for revision in range(2, 302):
        database.put(row(revision))
        largest = max(largest, (tmp_path / "state.db-wal").stat().st_size)
        await asyncio.sleep(0)
    await database.close()
    assert LARGEST <= largest < 3 * LARGEST < 300 * len(BODY)
    again = Database(tmp_path / "state.db")
    again.open()
    revision, rows = again.load()
    await again.close()
    assert revision == 301
    assert {each.body.removeprefix(BODY) for each in rows} == {str(each).encode() for each in range(295, 302)}


async def test_a_program_that_reads_the_database_holds_no_write_up(tmp_path: Path) -> None:
    database = Database(tmp_path / "state.db", LARGEST)
    database.open()
    database.put(row(2))
    with contextlib.closing(sqlite3.connect(tmp_path / "state.db")) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM objects").fetchone() == (1,)
        for revision in range(3, 153):
            database.put(row(revision))
            await asyncio.sleep(0)
        assert (tmp_path / "state.db-wal").stat().st_size > 3 * LARGEST  # what the reader sees is kept
        reader.execute("ROLLBACK")
    for revision in range(153, 203):
        database.put(row(revision))
        await asyncio.sleep(0)
    assert (tmp_path / "state.db-wal").stat().st_size < 3 * LARGEST
    await database.close()
