"""The tables of the prepared state, and the detection of a damaged file.

Any byte of the file may change. SQLite detects damage of its trees and its schema. The tables are compared with
those that this version creates, and each row has a digest. None of these detects a file without its newest
transactions: `node.claims.rebuild` compares the claims with CDI specs and driver.
"""

import hashlib
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from functools import lru_cache
from itertools import chain
from typing import Any, Final

__all__ = [
    "VERSION",
    "DamagedError",
    "is_damage",
    "look_for_damage",
    "migrate",
    "rows_of",
    "with_digest",
    "without_digest",
]

_APPLICATION_ID: Final = 0x64726131

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
        # Until a new file is complete, it has no information about claims that were prepared before.
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
"""The statements that convert version N of the file to N + 1; `user_version` has the version."""

VERSION: Final = len(_MIGRATIONS)

_DIGEST: Final = b',"digest":"'
_END: Final = b'"}'
_DIGEST_LENGTH: Final = len(_DIGEST) + 32 + len(_END)

_SCHEMA: Final = """
    SELECT object.type, object.name, object.tbl_name, made.wr, made.strict,
           field.cid, field.name, field.type, field."notnull", field.dflt_value, field.pk
    FROM sqlite_schema AS object
    LEFT JOIN pragma_table_list(object.name) AS made ON made.schema = 'main'
    LEFT JOIN pragma_table_xinfo(object.name) AS field
    ORDER BY object.name, field.cid
"""

_NOT_THE_FILE: Final = frozenset(
    {
        sqlite3.SQLITE_ABORT,
        sqlite3.SQLITE_AUTH,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOLFS,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_PROTOCOL,
    }
)
"""Primary error codes that a sound file causes too: locked, disk full, not allowed."""

_UNREADABLE_DISK: Final = frozenset(
    {
        sqlite3.SQLITE_IOERR_READ,
        sqlite3.SQLITE_IOERR_SHORT_READ,
        sqlite3.SQLITE_IOERR_CORRUPTFS,
    }
)


class DamagedError(sqlite3.DatabaseError):
    """The file has content that was never written to it."""


def is_damage(error: Exception) -> bool:
    """Return whether an error is caused by the file, and not by its environment.

    SQLite reports a damaged schema like a wrong statement ("no such column"), and a damaged header like a file
    that must not be written. Python cannot decode a message that quotes bytes which are not UTF-8. So every
    error without another known cause counts as damage.
    """
    if isinstance(error, OSError | MemoryError):
        return False
    code: int | None = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return True
    primary = code & 0xFF
    if primary == sqlite3.SQLITE_IOERR:
        return code in _UNREADABLE_DISK
    return primary not in _NOT_THE_FILE


def with_digest(text: bytes, *about: str | float) -> bytes:
    """Append a digest to a JSON object as its last field: of the object and of other values in its row.

    The digest is not a column: an instance of an older version, which may run at the same time, ignores an
    unknown field and omits it when it writes the row again.
    """
    digest = hashlib.blake2b(text, digest_size=16)
    digest.update(repr(about).encode(errors="surrogatepass"))
    return b"".join((text[:-1], _DIGEST, digest.hexdigest().encode(), _END))


def without_digest(stored: bytes, *about: str | float) -> bytes:
    """Return the text that `with_digest` received; a text of an older version without a digest is unchanged.

    Raises:
        DamagedError: the text, or one of the other values, has changed since it was written.
    """
    digest = stored[-_DIGEST_LENGTH:]
    if not (digest.startswith(_DIGEST) and digest.endswith(_END)):
        return stored
    text = stored[:-_DIGEST_LENGTH] + b"}"
    if with_digest(text, *about) != stored:
        raise DamagedError("it is not what was written")
    return text


def rows_of(
    connection: sqlite3.Connection, statement: str, values: Sequence[object] = ()
) -> list[tuple[Any, ...]]:
    """Return the rows of a statement.

    Raises:
        DamagedError: SQLite's error message is not UTF-8.
        sqlite3.Error: the file cannot be read.
    """
    try:
        return connection.execute(statement, values).fetchall()
    except UnicodeDecodeError as error:
        raise DamagedError(f"text that is not UTF-8: {error}") from error


def look_for_damage(connection: sqlite3.Connection) -> int:
    """Check the file for damage with SQLite and the tables, and return its version; 0: it is new.

    It takes 5 ms for 10,000 devices.

    Raises:
        DamagedError: it is damaged, or was created by another program or a newer version.
        sqlite3.Error: SQLite reports one of these, or the file cannot be read now.
    """
    rows_of(connection, "PRAGMA cell_size_check = ON")
    version = int(_value(connection, "user_version"))
    if version > VERSION:
        raise DamagedError(f"version {version} is newer than {VERSION}, which this dradriver knows")
    if version < 0:
        raise DamagedError(f"there is no version {version}")
    if version and int(_value(connection, "application_id")) != _APPLICATION_ID:
        raise DamagedError("it is the database of another program")
    # Unlike `quick_check`, this compares indexes with their tables, and finds values that occur twice.
    if (found := _value(connection, "integrity_check")) != "ok":
        raise DamagedError(found)
    if rows_of(connection, _SCHEMA) != _expected_schema(version):
        raise DamagedError(f"its tables are not those of version {version}")
    return version


def migrate(connection: sqlite3.Connection, version: int) -> None:
    """Create the tables, or convert those of an older version; if the process dies, all or nothing is stored.

    Raises:
        sqlite3.Error: the file cannot be written.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        _apply(connection, chain.from_iterable(_MIGRATIONS[version:]))
        connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _apply(connection: sqlite3.Connection, statements: Iterable[str]) -> None:
    for statement in statements:
        connection.execute(statement)


@lru_cache
def _expected_schema(version: int) -> list[tuple[Any, ...]]:
    """Return the result of `_SCHEMA` for a new file."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        _apply(connection, chain.from_iterable(_MIGRATIONS[:version]))
        return rows_of(connection, _SCHEMA)


def _value(connection: sqlite3.Connection, pragma: str) -> str:
    found = rows_of(connection, f"PRAGMA {pragma}")
    return str(found[0][0]) if found else ""
