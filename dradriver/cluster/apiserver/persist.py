"""The objects on disk: one SQLite file, one row an object.

A write is one small transaction in the write-ahead log, made on the event loop before the write is
acknowledged or seen by anybody: tens of microseconds, no fsync (`synchronous=NORMAL`), so a killed
process loses nothing that it answered. A power failure may lose the last moments, which a laptop's
cluster can bear. Checkpoints, which do sync, run in a thread.
"""

import asyncio
import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dradriver.cluster.apiserver.status import internal

_SCHEMA = """
CREATE TABLE IF NOT EXISTS objects (
  storage TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
  revision INTEGER NOT NULL, body BLOB NOT NULL,
  PRIMARY KEY (storage, namespace, name)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS counter (id INTEGER PRIMARY KEY CHECK (id = 0), revision INTEGER NOT NULL);
INSERT OR IGNORE INTO counter VALUES (0, 1);
"""
_WRITES_A_CHECKPOINT = 2000


@dataclass(frozen=True, slots=True)
class Row:
    """One stored object: where it is kept, at which revision, and its JSON with raw bytes as they were sent."""

    storage: str
    namespace: str
    name: str
    revision: int
    body: bytes


class Database:
    """The file. Opened and closed in a thread, written on the loop."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._unsaved = 0
        self._checkpoint: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Open or create the file. Blocking."""
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA wal_autocheckpoint=0")
        connection.executescript(_SCHEMA)
        self._connection = connection

    def load(self) -> tuple[int, list[Row]]:
        """The last revision given out and all objects. Blocking."""
        (revision,) = self._open().execute("SELECT revision FROM counter").fetchone()
        rows = self._open().execute("SELECT storage, namespace, name, revision, body FROM objects")
        return revision, [Row(*row) for row in rows]

    async def close(self) -> None:
        """Wait for a running checkpoint and close the file."""
        if self._checkpoint is not None:
            await self._checkpoint
        if self._connection is not None:
            await asyncio.to_thread(self._connection.close)
            self._connection = None

    def put(self, row: Row) -> None:
        """Write one object and the counter, together.

        If the process dies right after, the write exists though nobody was told: as with any
        server.

        Raises:
            StatusError: 500, when the disk refuses; nothing has changed then.
        """
        with self._transaction(row.revision) as connection:
            connection.execute(
                "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?)",
                (row.storage, row.namespace, row.name, row.revision, row.body),
            )

    def delete(self, storage: str, namespace: str, name: str, revision: int) -> None:
        """Remove one object.

        Raises:
            StatusError: 500, when the disk refuses.
        """
        with self._transaction(revision) as connection:
            connection.execute(
                "DELETE FROM objects WHERE storage = ? AND namespace = ? AND name = ?",
                (storage, namespace, name),
            )

    @contextlib.contextmanager
    def _transaction(self, revision: int) -> Iterator[sqlite3.Connection]:
        connection = self._open()
        try:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("UPDATE counter SET revision = ?", (revision,))
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise internal(f"state.db: {error}") from error
        self._count_write()

    def _count_write(self) -> None:
        self._unsaved += 1
        if self._unsaved >= _WRITES_A_CHECKPOINT and (self._checkpoint is None or self._checkpoint.done()):
            self._unsaved = 0
            self._checkpoint = asyncio.get_running_loop().create_task(self._run_checkpoint())

    async def _run_checkpoint(self) -> None:
        await asyncio.to_thread(self._checkpoint_now)

    def _checkpoint_now(self) -> None:
        # A connection of its own: the loop's one stays free to write meanwhile.
        with contextlib.closing(sqlite3.connect(self._path)) as connection, contextlib.suppress(sqlite3.Error):
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            raise internal("state.db is closed")
        return self._connection
