"""Stores the objects on disk: in one SQLite file, with one row for each object.

A write is one small transaction in the write-ahead log. The transaction runs on the event loop, before the
write is acknowledged or visible to any client. It takes tens of microseconds, because it does not fsync
(`synchronous=NORMAL`). If the process is killed, no acknowledged write is lost. A power failure may lose the
last writes, which is acceptable for a cluster on a laptop. The last revision is the highest revision of a row,
or the revision of the last deletion, which the counter contains.

A checkpoint has two steps. First, a thread copies the log into the database and syncs both. Writes continue
during the copy, so the log contains new frames afterwards, and SQLite does not restart the log. Then the event
loop copies the few new frames and truncates the log. During this second step, no write runs. If the process
dies at any point, the log is still complete, and the next start reads it.
"""

import asyncio
import concurrent.futures
import contextlib
import sqlite3
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
_PUT = """
INSERT INTO objects VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET revision = excluded.revision, body = excluded.body
"""
MAX_WAL_BYTES = 8 * 1024 * 1024
_BUSY_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Row:
    """One stored object: its storage key, its revision, and its JSON with raw bytes as they were sent."""

    storage: str
    namespace: str
    name: str
    revision: int
    body: bytes


class Database:
    """The SQLite file. A thread opens and closes it, and the event loop writes it.

    Args:
        path: the file.
        max_wal_bytes: size in bytes of the write-ahead log at which a checkpoint starts. If the disk is slower
            than the writers, the log can reach twice this size. Then writes wait for the checkpoint.
    """

    def __init__(self, path: Path, max_wal_bytes: int = MAX_WAL_BYTES) -> None:
        self._path = path
        self._max_wal_bytes = max_wal_bytes
        self._wal = path.with_name(path.name + "-wal")
        self._connection: sqlite3.Connection | None = None
        self._checkpoint_at = max_wal_bytes
        self._thread: concurrent.futures.Executor | None = None
        self._copying: concurrent.futures.Future[None] | None = None
        self._checkpoint: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Open or create the file. Blocking."""
        connection = sqlite3.connect(
            self._path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA wal_autocheckpoint=0")
        connection.executescript(_SCHEMA)
        self._connection = connection
        self._thread = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="checkpoint")

    def load(self) -> tuple[int, list[Row]]:
        """Return the last revision and all objects. Blocking."""
        (deletion,) = self._get_connection().execute("SELECT revision FROM counter").fetchone()
        found = self._get_connection().execute("SELECT storage, namespace, name, revision, body FROM objects")
        rows = [Row(*row) for row in found]
        return max(deletion, *(row.revision for row in rows), 0), rows

    async def close(self) -> None:
        """Wait for a running checkpoint and close the file."""
        if self._checkpoint is not None:
            await self._checkpoint
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None
        if self._connection is not None:
            await asyncio.to_thread(self._connection.close)
            self._connection = None

    def put(self, row: Row) -> None:
        """Write one object with its revision. One statement is one transaction.

        If the process dies right after this call, the write is permanent, although the client got no answer.

        Raises:
            StatusError: 500 if the write to disk fails. In this case, nothing has changed.
        """
        values = (row.storage, row.namespace, row.name, row.revision, row.body)
        try:
            # An update in place writes half as many pages as a replaced row.
            self._get_connection().execute(_PUT, values)
        except sqlite3.Error as error:
            raise internal(f"state.db: {error}") from error
        self._bound_wal()

    def delete(self, storage: str, namespace: str, name: str, revision: int) -> None:
        """Remove one object, and store the revision of the deletion in the same transaction.

        Raises:
            StatusError: 500 if the write to disk fails.
        """
        connection = self._get_connection()
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(
                "DELETE FROM objects WHERE storage = ? AND namespace = ? AND name = ?",
                (storage, namespace, name),
            )
            connection.execute("UPDATE counter SET revision = ?", (revision,))
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise internal(f"state.db: {error}") from error
        self._bound_wal()

    def _bound_wal(self) -> None:
        size = self._wal.stat().st_size
        if size < self._checkpoint_at or self._thread is None:
            return
        if self._copying is None:
            self._copying = self._thread.submit(self._copy_wal)
            self._checkpoint = asyncio.get_running_loop().create_task(self._finish_checkpoint(self._copying))
        elif size >= self._checkpoint_at + self._max_wal_bytes:
            concurrent.futures.wait([self._copying], _BUSY_SECONDS)
            self._truncate(self._copying)

    async def _finish_checkpoint(self, copying: concurrent.futures.Future[None]) -> None:
        await asyncio.wrap_future(copying)
        self._truncate(copying)

    def _copy_wal(self) -> None:
        # The thread uses a separate connection, so that the event loop can write with its own connection at the
        # same time.
        with contextlib.closing(sqlite3.connect(self._path)) as connection, contextlib.suppress(sqlite3.Error):
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def _truncate(self, copied: concurrent.futures.Future[None]) -> None:
        if self._copying is not copied or not copied.done():
            return
        self._copying = None
        connection = self._get_connection()
        # If another program reads the file, the log cannot be truncated. The server does not wait for this
        # program.
        connection.execute("PRAGMA busy_timeout=0")
        with contextlib.suppress(sqlite3.Error):
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute(f"PRAGMA busy_timeout={_BUSY_SECONDS * 1000}")
        self._checkpoint_at = self._wal.stat().st_size + self._max_wal_bytes

    def _get_connection(self) -> sqlite3.Connection:
        if self._connection is None:
            raise internal("state.db is closed")
        return self._connection
