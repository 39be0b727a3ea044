"""Create the tables of the prepared state, and detect a damaged file.

Damage may change any byte of the file. SQLite detects damage of its trees and its schema. This module compares
the tables with those that this version of the SDK creates, and checks the digest of each row. None of these
checks detects that a file has lost its newest transactions. Therefore `node.claims.rebuild` compares the claims
with the CDI specs and the driver.
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
    "add_digest",
    "check_damage",
    "fetch_rows",
    "is_damage",
    "migrate",
    "remove_digest",
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
        # A new file has no row here until the claims that were prepared before it was created are recorded in
        # it.
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
"""Item N has the statements that convert version N of the file to version N + 1 (PRAGMA `user_version`)."""

VERSION: Final = len(_MIGRATIONS)

_DIGEST: Final = b',"digest":"'
_END: Final = b'"}'
_DIGEST_LENGTH: Final = len(_DIGEST) + 32 + len(_END)

_SCHEMA: Final = """
    SELECT object.type, object.name, object.tbl_name, tables.wr, tables.strict,
           field.cid, field.name, field.type, field."notnull", field.dflt_value, field.pk
    FROM sqlite_schema AS object
    LEFT JOIN pragma_table_list(object.name) AS tables ON tables.schema = 'main'
    LEFT JOIN pragma_table_xinfo(object.name) AS field
    ORDER BY object.name, field.cid
"""

_ENVIRONMENT_ERRORS: Final = frozenset(
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
"""Primary error codes that also occur with an undamaged file (file locked, disk full, no permission)."""

_UNREADABLE_DISK: Final = frozenset(
    {
        sqlite3.SQLITE_IOERR_READ,
        sqlite3.SQLITE_IOERR_SHORT_READ,
        sqlite3.SQLITE_IOERR_CORRUPTFS,
    }
)


class DamagedError(sqlite3.DatabaseError):
    """The file has content that this SDK has not written."""


def is_damage(error: Exception) -> bool:
    """Return whether the file itself has caused an error, not its environment, such as a full disk.

    For a damaged schema, SQLite reports a wrong statement ("no such column"). For a damaged header, it reports
    a file that must not be written. If a message quotes bytes that are not UTF-8, Python cannot decode the
    message. So every error without another known cause counts as damage.
    """
    if isinstance(error, OSError | MemoryError):
        return False
    code: int | None = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return True
    primary = code & 0xFF
    if primary == sqlite3.SQLITE_IOERR:
        return code in _UNREADABLE_DISK
    return primary not in _ENVIRONMENT_ERRORS


def add_digest(text: bytes, *context: str | float) -> bytes:
    """Append a digest of a JSON object and of the other values in its row, as the object's last field.

    The digest is not a column, because an instance of an older version may run at the same time. The older
    instance ignores an unknown field, and omits the field when it writes the row again.
    """
    digest = hashlib.blake2b(text, digest_size=16)
    digest.update(repr(context).encode(errors="surrogatepass"))
    return b"".join((text[:-1], _DIGEST, digest.hexdigest().encode(), _END))


def remove_digest(stored: bytes, *context: str | float) -> bytes:
    """Check the digest, and return the text without it.

    A text of an older version has no digest, and is returned unchanged.

    Raises:
        DamagedError: the text, or another value of the row, has changed since the row was written.
    """
    digest = stored[-_DIGEST_LENGTH:]
    if not (digest.startswith(_DIGEST) and digest.endswith(_END)):
        return stored
    text = stored[:-_DIGEST_LENGTH] + b"}"
    if add_digest(text, *context) != stored:
        raise DamagedError("its digest does not match")
    return text


def fetch_rows(
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


def check_damage(connection: sqlite3.Connection) -> int:
    """Check the file for damage, and return the version of its tables; 0 if the file is new.

    The check takes 5 ms for 10,000 devices.

    Raises:
        DamagedError: the file is damaged, or was created by another program or a newer version of the SDK.
        sqlite3.Error: the file is damaged in a way that SQLite detects, or cannot be read now.
    """
    fetch_rows(connection, "PRAGMA cell_size_check = ON")
    version = int(_read_pragma(connection, "user_version"))
    if version > VERSION:
        raise DamagedError(
            f"version {version} is newer than {VERSION}, the newest that this dradriver supports"
        )
    if version < 0:
        raise DamagedError(f"version {version} does not exist")
    if version and int(_read_pragma(connection, "application_id")) != _APPLICATION_ID:
        raise DamagedError("it is the database of another program")
    # Unlike `quick_check`, `integrity_check` compares indexes with tables, and finds duplicate keys.
    if (result := _read_pragma(connection, "integrity_check")) != "ok":
        raise DamagedError(result)
    if fetch_rows(connection, _SCHEMA) != _expected_schema(version):
        raise DamagedError(f"its tables differ from those of version {version}")
    return version


def migrate(connection: sqlite3.Connection, version: int) -> None:
    """Create the tables, or convert the tables of an older version.

    If the process dies in between, all or no changes are stored.

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
    """Return the rows that the query `_SCHEMA` returns for a new file of this version."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        _apply(connection, chain.from_iterable(_MIGRATIONS[:version]))
        return fetch_rows(connection, _SCHEMA)


def _read_pragma(connection: sqlite3.Connection, pragma: str) -> str:
    rows = fetch_rows(connection, f"PRAGMA {pragma}")
    return str(rows[0][0]) if rows else ""
