"""Open the SQLite file of the prepared state: settings, migrations, and damaged files.

An unreadable file is renamed, never deleted, so that it can be inspected. The state is rebuilt from other
sources.
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
from dradriver.node.state.tables import VERSION, DamagedError, is_damage, look_for_damage, migrate, rows_of

__all__ = [
    "FILE_NAME",
    "Identity",
    "Opened",
    "connect",
    "identity",
    "is_busy",
    "read_only",
    "staying",
]

_log = logging.getLogger(__name__)

FILE_NAME: Final = "state.db"
_BUSY_SECONDS: Final = 10.0
_PARTS: Final = ("-wal", "-shm", "-journal", "")
"""The files that SQLite keeps, the main file last: until it is renamed, the next start tries again."""

Identity: TypeAlias = tuple[int, int]
"""Device and inode, which identify a file independent of its name."""


class Opened(NamedTuple):
    """An open file.

    Attributes:
        connection: for one thread at a time.
        identity: identifies the file.
        aside: the new path of an unreadable file, if there was one.
    """

    connection: sqlite3.Connection
    identity: Identity | None
    aside: Path | None


def connect(path: Path) -> Opened:
    """Open the file, and create or migrate it; a damaged file is set aside and a new one is created.

    Raises:
        StateError: neither the old file nor a new one can be opened.
    """
    try:
        with _locked(path, fcntl.LOCK_EX):
            try:
                return Opened(_open(path), identity(path), None)
            except Exception as error:
                if not is_damage(error):
                    raise
                aside = _set_aside(path)
                _log.error("prepared state %s is unreadable (%s), set aside as %s", path, error, aside)
                return Opened(_open(path), identity(path), aside)
    except (OSError, sqlite3.Error) as error:
        raise StateError(f"prepared state {path} can't be opened: {error}") from error


def read_only(path: Path) -> list[PreparedClaimRecord]:
    """Return every row, for other processes than the plugin's; changes nothing.

    Raises:
        StateError: there is no file, or it cannot be read.
    """
    if not path.exists():
        raise StateError(f"{path} does not exist: no driver with this data directory has run here")
    try:
        _check_parts(path)
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=_BUSY_SECONDS)
        try:
            return Rows(connection, "").all()
        finally:
            connection.close()
    except (OSError, sqlite3.Error, ValueError) as error:
        raise StateError(f"prepared state {path} can't be read: {error}") from error


def identity(path: Path) -> Identity | None:
    """Return the identity of the file that has this name now; None: there is none.

    Raises:
        OSError: the file cannot be inspected.
    """
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def is_busy(error: sqlite3.Error) -> bool:
    """Return whether another process kept the file locked for SQLite's whole waiting time."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF == sqlite3.SQLITE_BUSY


@contextmanager
def staying(path: Path) -> Iterator[None]:
    """Keep all processes from setting the file aside; any number of processes may hold this at once.

    Raises:
        OSError: the lock file cannot be used.
    """
    with _locked(path, fcntl.LOCK_SH):
        yield


@contextmanager
def _locked(path: Path, kind: int) -> Iterator[None]:
    """Lock: two processes that start together must not set aside each other's new file, or one in use."""
    descriptor = atomic.open_lock(path.with_name(f"{path.name}.lock"))
    try:
        fcntl.flock(descriptor, kind)
        yield
    finally:
        os.close(descriptor)


def _open(path: Path) -> sqlite3.Connection:
    _check_parts(path)
    connection = sqlite3.connect(path, isolation_level=None, timeout=_BUSY_SECONDS, check_same_thread=False)
    try:
        _prepare(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _check_parts(path: Path) -> None:
    """Check the files: SQLite would follow a symlink, and write to a file that has a second name."""
    for part in _parts(path):
        if not atomic.is_plain(part):
            raise DamagedError(f"{part} is no file of its own")


def _prepare(connection: sqlite3.Connection) -> None:
    version = look_for_damage(connection)
    rows_of(connection, "PRAGMA journal_mode = WAL")
    # FULL: a commit is on disk when it returns. NORMAL could lose it in a power failure.
    rows_of(connection, "PRAGMA synchronous = FULL")
    if version < VERSION:
        migrate(connection, version)
    # A damaged header may forbid writes; SQLite begins a transaction nevertheless.
    rows_of(connection, "BEGIN IMMEDIATE")
    rows_of(connection, "DELETE FROM completed")
    rows_of(connection, "ROLLBACK")
    rows = Rows(connection, "")
    rows.all()
    rows.offers.check()


def _set_aside(path: Path) -> Path:
    aside = atomic.set_aside_name(path)
    for part in _parts(path):
        with suppress(FileNotFoundError):
            part.rename(aside.with_name(f"{aside.name}{part.name.removeprefix(path.name)}"))
    return aside


def _parts(path: Path) -> list[Path]:
    return [path.with_name(f"{path.name}{suffix}") for suffix in _PARTS]
