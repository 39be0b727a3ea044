"""The rows of the prepared state, inside a transaction."""

import sqlite3
import time
from collections.abc import Iterable
from dataclasses import replace

from dradriver.node.claim_states import ClaimEvent, ClaimState, move
from dradriver.node.offers import Offers
from dradriver.node.records import ClaimRecord, PreparedClaimRecord, decode_record, encode_record

__all__ = ["Rows"]

_COLUMNS = "record, state, boot_id, since"


class Rows:
    """Access to the claims' rows; moves are those of `claim_states`.

    Rows are kept in memory and read again only when another process has changed the file, which `refresh` finds
    out at the beginning of each transaction.
    """

    def __init__(self, connection: sqlite3.Connection, boot_id: str) -> None:
        self._execute = connection.execute
        self._boot_id = boot_id
        self._version: object = None
        self._known: dict[str, PreparedClaimRecord] | None = None
        self._complete = False
        self.offers = Offers(connection)
        """What the driver offers, or did."""

    def refresh(self) -> None:
        """A transaction begins: forgets what is known if another connection has changed the file since.

        Raises:
            sqlite3.Error: the file can't be read.
        """
        version = self._execute("PRAGMA data_version").fetchone()
        if version != self._version:
            self.forget()
            self._version = version

    def forget(self) -> None:
        """A transaction was rolled back: what is known may be wrong."""
        self._known = None
        self._complete = False
        self.offers.forget()

    def get(self, uid: str) -> PreparedClaimRecord | None:
        """The row of a claim; None while it is absent.

        Raises:
            sqlite3.Error: the file can't be read.
        """
        return self._rows().get(uid)

    def each(self) -> Iterable[PreparedClaimRecord]:
        """Every row, in any order.

        Raises:
            sqlite3.Error: the file can't be read.
        """
        return self._rows().values()

    def all(self) -> list[PreparedClaimRecord]:
        """Every row, oldest first.

        Raises:
            sqlite3.Error: the file can't be read.
        """
        return sorted(self._rows().values(), key=lambda row: (row.since, row.uid))

    def move(self, record: ClaimRecord, event: ClaimEvent) -> PreparedClaimRecord:
        """Lets an event happen to a claim, and records what is known of it now.

        Raises:
            IllegalMoveError: the event can't happen in the claim's state.
            sqlite3.Error: the file can't be written.
        """
        current = self.get(record.uid)
        state = move(current.state if current else ClaimState.ABSENT, event)
        boot_id, now = self._boot_id, time.time()
        if state is ClaimState.ABSENT:
            self._execute("DELETE FROM claims WHERE uid = ?", (record.uid,))
            self._rows().pop(record.uid, None)
            return PreparedClaimRecord(record, state, boot_id, now)
        data = encode_record(record)
        self._execute(
            "INSERT INTO claims (uid, record, state, boot_id, since) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (uid) DO UPDATE SET record = excluded.record, state = excluded.state, "
            "boot_id = excluded.boot_id, since = excluded.since",
            (record.uid, data, str(state), boot_id, now),
        )
        row = self._rows()[record.uid] = PreparedClaimRecord(decode_record(data), state, boot_id, now)
        return row

    def amend(self, record: ClaimRecord) -> None:
        """Changes what is recorded of a claim that has a row; nothing happens to the claim.

        Raises:
            sqlite3.Error: the file can't be written.
        """
        data = encode_record(record)
        self._execute("UPDATE claims SET record = ? WHERE uid = ?", (data, record.uid))
        if row := self.get(record.uid):
            self._rows()[record.uid] = replace(row, record=decode_record(data))

    def complete(self) -> bool:
        """Whether the file knows every claim that is prepared here: a new one has to be rebuilt first.

        Raises:
            sqlite3.Error: the file can't be read.
        """
        if not self._complete:
            self._complete = self._execute("SELECT 1 FROM completed").fetchone() is not None
        return self._complete

    def set_complete(self) -> None:
        """The file knows every claim from now on.

        Raises:
            sqlite3.Error: the file can't be written.
        """
        self._execute("INSERT INTO completed (at) VALUES (?)", (time.time(),))

    def _rows(self) -> dict[str, PreparedClaimRecord]:
        if self._known is None:
            rows = self._execute(f"SELECT {_COLUMNS} FROM claims").fetchall()  # noqa: S608
            self._known = {row.uid: row for row in map(_row, rows)}
        return self._known


def _row(row: tuple[bytes, str, str, float]) -> PreparedClaimRecord:
    record, state, boot_id, since = row
    return PreparedClaimRecord(decode_record(record), ClaimState(state), boot_id, since)
