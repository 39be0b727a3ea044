"""The objects on disk: one SQLite file, one row for each object.

A write is one small transaction in the write-ahead log. It happens on the event loop before the write is
acknowledged or visible to any client. It takes tens of microseconds without fsync (`synchronous=NORMAL`), so a
killed process loses nothing that it acknowledged. A power failure may lose the last moments, which is
acceptable for a laptop's cluster.

A checkpoint has two steps. A thread copies the log into the database and syncs both. Writes continue meanwhile,
so the log has new frames when the thread is done, and SQLite does not restart it. The event loop then copies
those few frames, with no write in between, and truncates the log. If the process dies between or in the steps,
the log is still complete and the next start reads it.
"""

import asyncio
import concurrent.futures
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
LARGEST_WAL = 8 * 1024 * 1024
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
    """The file. It is opened and closed in a thread and written on the event loop.

    Args:
        path: the file.
        largest_wal: size in bytes of the write-ahead log at which a checkpoint starts. At twice this size,
            because the disk is slower than the writers, writes wait for the checkpoint.
    """

    def __init__(self, path: Path, largest_wal: int = LARGEST_WAL) -> None:
        self._path = path
        self._largest_wal = largest_wal
        self._wal = path.with_name(path.name + "-wal")
        self._connection: sqlite3.Connection | None = None
        self._checkpoint_at = largest_wal
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
        (revision,) = self._open().execute("SELECT revision FROM counter").fetchone()
        rows = self._open().execute("SELECT storage, namespace, name, revision, body FROM objects")
        return revision, [Row(*row) for row in rows]

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
        """Write one object and the counter, together.

        If the process dies right after, the write is permanent although no client got an answer, as with any
        server.

        Raises:
            StatusError: 500, when the write to disk fails; nothing has changed then.
        """
        with self._transaction(row.revision) as connection:
            connection.execute(
                "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?)",
                (row.storage, row.namespace, row.name, row.revision, row.body),
            )

    def delete(self, storage: str, namespace: str, name: str, revision: int) -> None:
        """Remove one object.

        Raises:
            StatusError: 500, when the write to disk fails.
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
        self._bound_wal()

    def _bound_wal(self) -> None:
        size = self._wal.stat().st_size
        if size < self._checkpoint_at or self._thread is None:
            return
        if self._copying is None:
            self._copying = self._thread.submit(self._copy_wal)
            self._checkpoint = asyncio.get_running_loop().create_task(self._finish(self._copying))
        elif size >= self._checkpoint_at + self._largest_wal:
            concurrent.futures.wait([self._copying], _BUSY_SECONDS)
            self._truncate(self._copying)

    async def _finish(self, copying: concurrent.futures.Future[None]) -> None:
        await asyncio.wrap_future(copying)
        self._truncate(copying)

    def _copy_wal(self) -> None:
        # A separate connection, so that the event loop can write with its own one meanwhile.
        with contextlib.closing(sqlite3.connect(self._path)) as connection, contextlib.suppress(sqlite3.Error):
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def _truncate(self, copied: concurrent.futures.Future[None]) -> None:
        if self._copying is not copied or not copied.done():
            return
        self._copying = None
        connection = self._open()
        # A program that reads the file prevents the truncation of the log. The server does not wait for it.
        connection.execute("PRAGMA busy_timeout=0")
        with contextlib.suppress(sqlite3.Error):
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute(f"PRAGMA busy_timeout={_BUSY_SECONDS * 1000}")
        self._checkpoint_at = self._wal.stat().st_size + self._largest_wal

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            raise internal("state.db is closed")
        return self._connection
