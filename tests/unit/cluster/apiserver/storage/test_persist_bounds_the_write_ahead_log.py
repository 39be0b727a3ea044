"""The size of the write-ahead log is bounded, whatever the timing of writes and checkpoints."""

import asyncio
import contextlib
import sqlite3
from pathlib import Path

from dradriver.cluster.apiserver.storage.persist import Database, Row

LARGEST = 256 * 1024
BODY_BYTES = 20_000


def row(revision: int) -> Row:
    # Bodies differ everywhere, because SQLite writes only pages that have changed.
    body = f"{revision:04}".encode() * (BODY_BYTES // 4)
    return Row("/pods", "default", f"pod-{revision % 7}", revision, body)


async def test_the_log_is_truncated_during_continuous_writes(tmp_path: Path) -> None:
    database = Database(tmp_path / "state.db", LARGEST)
    database.open()
    largest = 0
    for revision in range(2, 302):
        database.put(row(revision))
        largest = max(largest, (tmp_path / "state.db-wal").stat().st_size)
        await asyncio.sleep(0)
    await database.close()
    assert LARGEST <= largest < 3 * LARGEST < 300 * BODY_BYTES
    again = Database(tmp_path / "state.db")
    again.open()
    revision, rows = again.load()
    await again.close()
    assert revision == 301
    assert sorted(rows, key=lambda each: each.revision) == [row(each) for each in range(295, 302)]


async def test_a_reader_of_the_database_blocks_no_write(tmp_path: Path) -> None:
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
