"""Opening the SQLite file of the prepared state: settings, migrations, and what to do with a damaged one.

A file that can't be read is renamed, never deleted: someone may want to look at it, and the state is rebuilt
from elsewhere anyway.
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
"""What SQLite keeps beside the file; the file itself last: until it is renamed, the next start tries again."""

Identity: TypeAlias = tuple[int, int]
"""Device and inode: which file it is, whatever its name."""


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
    """Opens the file, makes or migrates it; a damaged one is set aside and a new one made.

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
    """Every row, for another process than the plugin's; changes nothing.

    Raises:
        StateError: there is no file, or it can't be read.
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
    """Which file has this name now; None: there is none.

    Raises:
        OSError: that can't be told.
    """
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another process has kept the file locked for as long as SQLite waits."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF == sqlite3.SQLITE_BUSY


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
    """SQLite would follow a symlink, and write into a file that has another name besides."""
    for part in _parts(path):
        if not atomic.is_plain(part):
            raise DamagedError(f"{part} is no file of its own")


def _prepare(connection: sqlite3.Connection) -> None:
    version = look_for_damage(connection)
    rows_of(connection, "PRAGMA journal_mode = WAL")
    # FULL: a commit is on disk when it returns; NORMAL could lose it with the machine's power.
    rows_of(connection, "PRAGMA synchronous = FULL")
    if version < VERSION:
        migrate(connection, version)
    # A damaged header may say that nobody may write; SQLite begins a transaction nevertheless.
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
