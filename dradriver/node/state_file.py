"""Opening the SQLite file of the prepared state: settings, migrations, and what to do with an unreadable one.

A file that can't be read is renamed, never deleted: someone may want to look at it, and the state is rebuilt
from elsewhere anyway.
"""

import fcntl
import logging
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from dradriver.errors import DraError
from dradriver.node.errors import StateError
from dradriver.node.records import PreparedClaimRecord
from dradriver.node.rows import Rows

__all__ = [
    "FILE_NAME",
    "UNREADABLE",
    "Identity",
    "Opened",
    "connect",
    "identity",
    "primary_code",
    "read_only",
    "staying",
]

_log = logging.getLogger(__name__)

FILE_NAME: Final = "state.db"
_APPLICATION_ID: Final = 0x64726131
_BUSY_SECONDS: Final = 10.0

_MIGRATIONS: Final = (
    (
        """
        CREATE TABLE claims (
            uid TEXT PRIMARY KEY,
            record BLOB NOT NULL,
            state TEXT NOT NULL,
            boot_id TEXT NOT NULL,
            since REAL NOT NULL
        ) STRICT
        """,
        # Until it is complete, a new file says nothing about claims that were prepared before it was made.
        "CREATE TABLE completed (at REAL NOT NULL) STRICT",
    ),
    (
        """
        CREATE TABLE offers (
            kind TEXT NOT NULL,
            pool TEXT NOT NULL,
            name TEXT NOT NULL,
            value BLOB NOT NULL,
            gone REAL,
            PRIMARY KEY (kind, pool, name)
        ) STRICT, WITHOUT ROWID
        """,
    ),
)
"""What turns version N of the file into N + 1; `user_version` is the version."""

UNREADABLE: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, None})
"""Primary error codes of a file that no new attempt can read."""

Identity: TypeAlias = tuple[int, int]
"""Device and inode: which file it is, whatever its name."""


class _UnreadableError(Exception):
    """The file is no prepared state that this version can read."""


class Opened(NamedTuple):
    """An open file.

    Attributes:
        connection: for one thread at a time.
        identity: which file it is.
        aside: where an unreadable file is now that was there before.
    """

    connection: sqlite3.Connection
    identity: Identity | None
    aside: Path | None


def connect(path: Path) -> Opened:
    """Opens the file, makes or migrates it; an unreadable one is set aside and a new one made.

    Raises:
        StateError: neither the old file nor a new one can be opened.
    """
    try:
        with _locked(path, fcntl.LOCK_EX):
            try:
                return Opened(_open(path), identity(path), None)
            except _UnreadableError as error:
                aside = _set_aside(path)
                _log.error("prepared state %s is unreadable (%s), set aside as %s", path, error, aside)
                return Opened(_open(path), identity(path), aside)
    except (OSError, sqlite3.Error, _UnreadableError) as error:
        raise StateError(f"prepared state {path} can't be opened: {error}") from error


def read_only(path: Path) -> list[PreparedClaimRecord]:
    """Every row, for another process than the plugin's; changes nothing.

    Raises:
        StateError: there is no file, or it can't be read.
    """
    if not path.exists():
        raise StateError(f"{path} does not exist: no driver with this data directory has run here")
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=_BUSY_SECONDS)
        try:
            return Rows(connection, "").all()
        finally:
            connection.close()
    except (sqlite3.Error, DraError, ValueError) as error:
        raise StateError(f"prepared state {path} can't be read: {error}") from error


def identity(path: Path) -> Identity | None:
    """Which file has this name now; None: there is none.

    Raises:
        OSError: that can't be told.
    """
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def primary_code(error: sqlite3.Error) -> int | None:
    """What SQLite says went wrong; None where Python can't take what SQLite read: a text that is not UTF-8."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


@contextmanager
def staying(path: Path) -> Iterator[None]:
    """No process sets the file aside meanwhile; any number of processes may hold this at once.

    Raises:
        OSError: the lock file can't be used.
    """
    with _locked(path, fcntl.LOCK_SH):
        yield


@contextmanager
def _locked(path: Path, kind: int) -> Iterator[None]:
    """Two processes that start together must not set each other's new file aside, nor one that is in use."""
    descriptor = os.open(f"{path}.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, kind)
        yield
    finally:
        os.close(descriptor)


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, timeout=_BUSY_SECONDS, check_same_thread=False)
    try:
        _prepare(connection)
    except sqlite3.DatabaseError as error:
        connection.close()
        if primary_code(error) in UNREADABLE:
            raise _UnreadableError(str(error)) from error
        raise
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection) -> None:
    version = int(_pragma(connection, "user_version"))
    if version > len(_MIGRATIONS):
        raise _UnreadableError(
            f"version {version} is newer than {len(_MIGRATIONS)}, which this dradriver knows"
        )
    if version and int(_pragma(connection, "application_id")) != _APPLICATION_ID:
        raise _UnreadableError("it is the database of another program")
    if (answer := _pragma(connection, "quick_check")) != "ok":
        raise _UnreadableError(answer)
    _pragma(connection, "journal_mode = WAL")
    # FULL: a commit is on disk when it returns; NORMAL could lose it with the machine's power.
    connection.execute("PRAGMA synchronous = FULL")
    if version < len(_MIGRATIONS):
        _migrate(connection, version)
    try:
        Rows(connection, "").all()
    except (DraError, ValueError, TypeError, UnicodeDecodeError) as error:
        raise _UnreadableError(f"a row is damaged: {error}") from error


def _migrate(connection: sqlite3.Connection, version: int) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statement in chain.from_iterable(_MIGRATIONS[version:]):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {len(_MIGRATIONS)}")
        connection.execute("COMMIT")
    except sqlite3.OperationalError as error:
        connection.execute("ROLLBACK")
        if "already exists" in str(error):
            raise _UnreadableError(f"tables without a version: {error}") from error
        raise


def _pragma(connection: sqlite3.Connection, name: str) -> str:
    row = connection.execute(f"PRAGMA {name}").fetchone()
    return str(row[0])


def _set_aside(path: Path) -> Path:
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    aside = path.with_name(f"{path.name}.corrupt-{stamp}")
    while aside.exists():
        aside = aside.with_name(f"{aside.name}x")
    for suffix in ("-wal", "-shm", ""):  # the database last: until then the next start tries again
        part = path.with_name(f"{path.name}{suffix}")
        if part.exists():
            part.rename(aside.with_name(f"{aside.name}{suffix}"))
    return aside
