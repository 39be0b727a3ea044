"""Open the SQLite file of the prepared state: configure it, migrate it, and set a damaged file aside.

An unreadable file is renamed and never deleted, so that it can be inspected. The state is then rebuilt
(`node.claims.rebuild`).
"""

import fcntl
import logging
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from dradriver.node.errors import StateError
from dradriver.node.files import atomic
from dradriver.node.state.records import PreparedClaimRecord
from dradriver.node.state.rows import Rows
from dradriver.node.state.tables import VERSION, DamagedError, check_damage, fetch_rows, is_damage, migrate

__all__ = [
    "FILE_NAME",
    "Identity",
    "OpenedFile",
    "connect",
    "is_busy",
    "keep_name",
    "read_identity",
    "read_rows",
]

_log = logging.getLogger(__name__)

FILE_NAME: Final = "state.db"
_BUSY_SECONDS: Final = 10.0
_SUFFIXES: Final = ("-wal", "-shm", "-journal", "")
"""Suffixes of SQLite's files, in the order in which the files are set aside.

The main file is last: if the process dies in between, the next start finds it and sets it aside.
"""

Identity: TypeAlias = tuple[int, int]
"""Device number and inode, which identify a file independent of its name."""


class OpenedFile(NamedTuple):
    """An open file.

    Attributes:
        connection: the connection, which only one thread may use at a time.
        identity: identifies the file.
        aside: the new path of an unreadable file that was set aside. None if there was no such file.
    """

    connection: sqlite3.Connection
    identity: Identity | None
    aside: Path | None


def connect(path: Path) -> OpenedFile:
    """Open the file, and create or migrate it; a damaged file is set aside, and a new file is created.

    Raises:
        StateError: neither the existing file nor a new file can be opened.
    """
    try:
        with _locked(path, fcntl.LOCK_EX):
            try:
                return OpenedFile(_open(path), read_identity(path), None)
            except Exception as error:
                if not is_damage(error):
                    raise
                aside = _set_aside(path)
                _log.error("prepared state %s: unreadable (%s), renamed to %s", path, error, aside)
                return OpenedFile(_open(path), read_identity(path), aside)
    except (OSError, sqlite3.Error) as error:
        raise StateError(f"prepared state {path}: cannot be opened: {error}") from error


def read_rows(path: Path) -> list[PreparedClaimRecord]:
    """Return every row without changing the file; for processes other than the plugin.

    Raises:
        StateError: the file does not exist or cannot be read.
    """
    if not path.exists():
        raise StateError(f"prepared state {path}: does not exist: no driver has run here")
    try:
        _check_files(path)
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=_BUSY_SECONDS)
        try:
            return Rows(connection, "").all()
        finally:
            connection.close()
    except (OSError, sqlite3.Error, ValueError) as error:
        raise StateError(f"prepared state {path}: cannot be read: {error}") from error


def read_identity(path: Path) -> Identity | None:
    """Return the identity of the file that has this name now; None if the file does not exist.

    Raises:
        OSError: the file cannot be inspected.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def is_busy(error: sqlite3.Error) -> bool:
    """Return whether another process kept the file locked for SQLite's whole waiting time."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF == sqlite3.SQLITE_BUSY


@contextmanager
def keep_name(path: Path) -> Iterator[None]:
    """Prevent all processes from setting the file aside; any number of processes may hold this lock at once.

    Raises:
        OSError: the lock file cannot be used.
    """
    with _locked(path, fcntl.LOCK_SH):
        yield


@contextmanager
def _locked(path: Path, kind: int) -> Iterator[None]:
    """Hold the lock on the name: no process sets aside a file that another has just created or is using."""
    descriptor = atomic.open_lock(path.with_name(f"{path.name}.lock"))
    try:
        fcntl.flock(descriptor, kind)
        yield
    finally:
        os.close(descriptor)


def _open(path: Path) -> sqlite3.Connection:
    _check_files(path)
    connection = sqlite3.connect(path, isolation_level=None, timeout=_BUSY_SECONDS, check_same_thread=False)
    try:
        _prepare(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _check_files(path: Path) -> None:
    """Check that the database's files are regular: SQLite would follow symlinks, and write to hard links."""
    for file in _list_files(path):
        if not atomic.is_plain(file):
            raise DamagedError(f"{file} is not a regular file with one name")


def _prepare(connection: sqlite3.Connection) -> None:
    version = check_damage(connection)
    fetch_rows(connection, "PRAGMA journal_mode = WAL")
    # FULL: a commit is on disk when COMMIT returns. With NORMAL, a power failure could lose the commit.
    fetch_rows(connection, "PRAGMA synchronous = FULL")
    if version < VERSION:
        migrate(connection, version)
    # Test a write: a damaged header may forbid writes, although SQLite begins the transaction.
    fetch_rows(connection, "BEGIN IMMEDIATE")
    fetch_rows(connection, "DELETE FROM completed")
    fetch_rows(connection, "ROLLBACK")
    rows = Rows(connection, "")
    rows.all()
    rows.offers.check()


def _set_aside(path: Path) -> Path:
    aside = atomic.set_aside_path(path)
    for file in _list_files(path):
        with suppress(FileNotFoundError):
            file.rename(aside.with_name(f"{aside.name}{file.name.removeprefix(path.name)}"))
    return aside


def _list_files(path: Path) -> list[Path]:
    return [path.with_name(f"{path.name}{suffix}") for suffix in _SUFFIXES]
