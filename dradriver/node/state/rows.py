"""The rows of the prepared state, inside a transaction."""

import sqlite3
import time
from collections.abc import Iterable
from functools import partial
from typing import Final

from dradriver.errors import DraError
from dradriver.node.state.claim_states import ClaimEvent, ClaimState, move
from dradriver.node.state.recorded_offers import RecordedOffers
from dradriver.node.state.records import ClaimRecord, PreparedClaimRecord, decode_record, encode_record
from dradriver.node.state.tables import DamagedError, rows_of, with_digest, without_digest

__all__ = ["Rows"]

_COLUMNS: Final = "uid, record, state, boot_id, since"


class Rows:
    """Access to the claims' rows; state changes follow `claim_states`.

    Rows are cached. They are read again only if another process has changed the file, which `refresh` checks at
    the start of each transaction.
    """

    def __init__(self, connection: sqlite3.Connection, boot_id: str) -> None:
        self._query = partial(rows_of, connection)
        self._boot_id = boot_id
        self._version: object = None
        self._known: dict[str, PreparedClaimRecord] | None = None
        self._marked = False
        self._confirmed = False
        self.offers = RecordedOffers(connection)
        """The driver's present and earlier offers."""

    def refresh(self) -> None:
        """Begin a transaction: drop the cache if another connection has changed the file.

        Raises:
            sqlite3.Error: the file cannot be read.
        """
        version = self._query("PRAGMA data_version")
        if version != self._version:
            self.forget()
            self._version = version

    def forget(self) -> None:
        """Drop the cache after a rollback, because it may be wrong."""
        self._known = None
        self._marked = False
        self.offers.forget()

    def get(self, uid: str) -> PreparedClaimRecord | None:
        """Return the row of a claim; None while it is absent.

        Raises:
            sqlite3.Error: the file cannot be read.
        """
        return self._rows().get(uid)

    def each(self) -> Iterable[PreparedClaimRecord]:
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
            IllegalMoveError: the event cannot happen in the claim's state.
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
        """Replace the record of a claim that has a row, without a change of its state.

        Raises:
            sqlite3.Error: the file cannot be written.
        """
        if row := self.get(record.uid):
            self._put(record, row.state, row.boot_id, row.since)

    def complete(self) -> bool:
        """Return whether the file has every prepared claim of this node.

        A new file must be rebuilt first. A rebuilt file may have lost its last writes: after it is opened, it
        is compared with the driver and the CDI specs, and confirmed.

        Raises:
            sqlite3.Error: the file cannot be read.
        """
        return self._confirmed and self.marked_complete()

    def marked_complete(self) -> bool:
        """Return whether the file is marked as complete.

        Raises:
            sqlite3.Error: the file cannot be read.
        """
        if not self._marked:
            self._marked = bool(self._query("SELECT 1 FROM completed LIMIT 1"))
        return self._marked

    def set_complete(self) -> None:
        """Mark the file as complete: it has every claim.

        Raises:
            sqlite3.Error: the file cannot be written.
        """
        if not self.marked_complete():
            self._query("INSERT INTO completed (at) VALUES (?)", (time.time(),))
        self._confirmed = True

    def set_incomplete(self) -> None:
        """Mark the file as incomplete: it has lost claims and must be rebuilt before use.

        Raises:
            sqlite3.Error: the file cannot be written.
        """
        self._query("DELETE FROM completed")
        self._marked = False

    def _put(self, record: ClaimRecord, state: ClaimState, boot_id: str, since: float) -> None:
        data = encode_record(record)
        stored = with_digest(data, record.uid, str(state), boot_id, since)
        self._query(
            f"INSERT INTO claims ({_COLUMNS}) VALUES (?, ?, ?, ?, ?) "  # noqa: S608
            "ON CONFLICT (uid) DO UPDATE SET record = excluded.record, state = excluded.state, "
            "boot_id = excluded.boot_id, since = excluded.since",
            (record.uid, stored, str(state), boot_id, since),
        )
        self._rows()[record.uid] = PreparedClaimRecord(decode_record(data), state, boot_id, since)

    def _rows(self) -> dict[str, PreparedClaimRecord]:
        if self._known is None:
            rows = self._query(f"SELECT {_COLUMNS} FROM claims")  # noqa: S608
            self._known = {row.uid: row for row in map(_row, rows)}
        return self._known


def _row(row: tuple[str, bytes, str, str, float]) -> PreparedClaimRecord:
    uid, stored, state, boot_id, since = row
    try:
        record = decode_record(without_digest(stored, uid, state, boot_id, since))
        return PreparedClaimRecord(record, ClaimState(state), boot_id, since)
    except (DraError, ValueError, DamagedError) as error:
        raise DamagedError(f"the row of claim UID {uid} is damaged: {error}") from error
