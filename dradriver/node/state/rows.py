"""Read and write the rows of the prepared state inside a transaction."""

import sqlite3
import time
from collections.abc import Iterable
from functools import partial
from typing import Final

from dradriver.errors import DraError
from dradriver.node.state.claim_states import ClaimEvent, ClaimState, move
from dradriver.node.state.recorded_offers import RecordedOffers
from dradriver.node.state.records import ClaimRecord, PreparedClaimRecord, decode_record, encode_record
from dradriver.node.state.tables import DamagedError, add_digest, fetch_rows, remove_digest

__all__ = ["Rows"]

_COLUMNS: Final = "uid, record, state, boot_id, since"


class Rows:
    """Reads and writes the claims' rows; only changes of state that `claim_states` allows are possible.

    Rows are cached. They are read again only if another process has changed the file. `refresh` checks this at
    the start of each transaction.
    """

    def __init__(self, connection: sqlite3.Connection, boot_id: str) -> None:
        self._query = partial(fetch_rows, connection)
        self._boot_id = boot_id
        self._version: object = None
        self._cache: dict[str, PreparedClaimRecord] | None = None
        self._is_marked = False
        self._is_confirmed = False
        self.offers = RecordedOffers(connection)
        """The driver's present and earlier offers."""

    def refresh(self) -> None:
        """Drop the cache if another connection has changed the file; call this first in a transaction.

        Raises:
            sqlite3.Error: the file cannot be read.
        """
        version = self._query("PRAGMA data_version")
        if version != self._version:
            self.forget()
            self._version = version

    def forget(self) -> None:
        """Drop the cache after a rollback, because it may be wrong."""
        self._cache = None
        self._is_marked = False
        self.offers.forget()

    def get(self, uid: str) -> PreparedClaimRecord | None:
        """Return the row of a claim; None while it is absent.

        Raises:
            sqlite3.Error: the file cannot be read.
        """
        return self._rows().get(uid)

    def values(self) -> Iterable[PreparedClaimRecord]:
        """Return every row, in any order.

        Raises:
            sqlite3.Error: the file cannot be read.
        """
        return self._rows().values()

    def all(self) -> list[PreparedClaimRecord]:
        """Return every row, oldest first.

        Raises:
            sqlite3.Error: the file cannot be read.
        """
        return sorted(self._rows().values(), key=lambda row: (row.since, row.uid))

    def move(self, record: ClaimRecord, event: ClaimEvent) -> PreparedClaimRecord:
        """Apply an event to a claim, and store its record.

        Raises:
            IllegalMoveError: the event is not allowed in the claim's state.
            sqlite3.Error: the file cannot be written.
        """
        current = self.get(record.uid)
        state = move(current.state if current else ClaimState.ABSENT, event)
        boot_id, now = self._boot_id, time.time()
        if state is ClaimState.ABSENT:
            self._query("DELETE FROM claims WHERE uid = ?", (record.uid,))
            self._rows().pop(record.uid, None)
            return PreparedClaimRecord(record, state, boot_id, now)
        self._put(record, state, boot_id, now)
        return self._rows()[record.uid]

    def amend(self, record: ClaimRecord) -> None:
        """Replace the record of a claim that has a row; the claim's state does not change.

        Raises:
            sqlite3.Error: the file cannot be written.
        """
        if row := self.get(record.uid):
            self._put(record, row.state, row.boot_id, row.since)

    def is_complete(self) -> bool:
        """Return whether the file has every prepared claim of this node.

        A new file must be rebuilt first. A rebuilt file may have lost its last writes. So after a file is
        opened, it must be compared with the driver and the CDI specs, and confirmed with `set_complete`.

        Raises:
            sqlite3.Error: the file cannot be read.
        """
        return self._is_confirmed and self.is_marked_complete()

    def is_marked_complete(self) -> bool:
        """Return whether the file is marked as complete.

        Raises:
            sqlite3.Error: the file cannot be read.
        """
        if not self._is_marked:
            self._is_marked = bool(self._query("SELECT 1 FROM completed LIMIT 1"))
        return self._is_marked

    def set_complete(self) -> None:
        """Mark the file as complete, because it has every prepared claim of this node.

        Raises:
            sqlite3.Error: the file cannot be written.
        """
        if not self.is_marked_complete():
            self._query("INSERT INTO completed (at) VALUES (?)", (time.time(),))
        self._is_confirmed = True

    def set_incomplete(self) -> None:
        """Mark the file as incomplete, because it has lost claims and must be rebuilt before use.

        Raises:
            sqlite3.Error: the file cannot be written.
        """
        self._query("DELETE FROM completed")
        self._is_marked = False

    def _put(self, record: ClaimRecord, state: ClaimState, boot_id: str, since: float) -> None:
        data = encode_record(record)
        stored = add_digest(data, record.uid, str(state), boot_id, since)
        self._query(
            f"INSERT INTO claims ({_COLUMNS}) VALUES (?, ?, ?, ?, ?) "  # noqa: S608
            "ON CONFLICT (uid) DO UPDATE SET record = excluded.record, state = excluded.state, "
            "boot_id = excluded.boot_id, since = excluded.since",
            (record.uid, stored, str(state), boot_id, since),
        )
        self._rows()[record.uid] = PreparedClaimRecord(decode_record(data), state, boot_id, since)

    def _rows(self) -> dict[str, PreparedClaimRecord]:
        if self._cache is None:
            rows = self._query(f"SELECT {_COLUMNS} FROM claims")  # noqa: S608
            self._cache = {row.uid: row for row in map(_decode_row, rows)}
        return self._cache


def _decode_row(row: tuple[str, bytes, str, str, float]) -> PreparedClaimRecord:
    uid, stored, state, boot_id, since = row
    try:
        record = decode_record(remove_digest(stored, uid, state, boot_id, since))
        return PreparedClaimRecord(record, ClaimState(state), boot_id, since)
    except (DraError, ValueError, DamagedError) as error:
        raise DamagedError(f"claim UID {uid}: the row is damaged: {error}") from error
