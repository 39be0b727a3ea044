"""The driver's offered devices in the prepared state: a device may be gone when a claim for it arrives.

The rows have the input of the conflict check: consumed counters, capacities, and counter sets. Devices that are
gone are deleted after a week; the scheduler stops using them within seconds.
"""

import hashlib
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

import msgspec

from dradriver.errors import InvalidObjectError
from dradriver.model.encoding.codec import decode
from dradriver.model.resource.counters import CounterSet
from dradriver.model.resource.device import Device
from dradriver.node.state.tables import DamagedError, rows_of, with_digest, without_digest

__all__ = ["RecordedOffer", "RecordedOffers"]

T = TypeVar("T")

_FORGOTTEN_SECONDS: Final = 7 * 24 * 3600.0
_encoder: Final = msgspec.json.Encoder(enc_hook=str)  # quantities
_SELECT: Final = "SELECT kind, pool, name, value FROM offers"
_DEVICE, _COUNTER_SET, _WHOLE = "device", "counter set", "digest"


class RecordedOffer:
    """Devices and counter sets in stored form: computed once for each result of `discover()`."""

    def __init__(
        self, devices: Mapping[tuple[str, str], Device], counter_sets: Mapping[tuple[str, str], CounterSet]
    ) -> None:
        self.rows = [*_stored(_DEVICE, devices), *_stored(_COUNTER_SET, counter_sets)]
        digest = hashlib.sha256()
        for row in self.rows:
            digest.update(repr(row).encode())
        self.digest = digest.digest()


def _stored(
    kind: str, values: Mapping[tuple[str, str], Device] | Mapping[tuple[str, str], CounterSet]
) -> Iterator[tuple[str, str, str, bytes]]:
    for (pool, name), value in values.items():
        # A value that cannot be encoded is not stored. It is the driver's own value, and its claims are
        # rejected anyway.
        with suppress(TypeError, ValueError, AttributeError, OverflowError, NotImplementedError):
            text = _encoder.encode(_needed(value) if isinstance(value, Device) else value)
            yield kind, pool, name, with_digest(text, kind, pool, name)


def _needed(device: Device) -> Device:
    return Device(device.name, capacity=device.capacity, consumes_counters=device.consumes_counters)


class RecordedOffers:
    """Access to the rows of offers, inside a transaction; rows are cached until `forget`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._query = partial(rows_of, connection)
        self.forget()

    def forget(self) -> None:
        """Drop the cache, because the rows may have changed."""
        self._digest: bytes | None = None
        self._counter_sets: dict[str, dict[tuple[str, str], CounterSet]] = {}

    def keep(self, offer: RecordedOffer) -> None:
        """Store the driver's current offer; devices of earlier offers are kept and marked as gone.

        Raises:
            sqlite3.Error: the file cannot be read or written.
        """
        if self._digest is None:
            self._digest = self._value(_WHOLE, "", "")
        if self._digest == offer.digest:
            return
        self.forget()
        now = time.time()
        self._query("UPDATE offers SET gone = ? WHERE gone IS NULL", (now,))
        self._connection.executemany(
            "INSERT INTO offers (kind, pool, name, value, gone) VALUES (?, ?, ?, ?, NULL) "
            "ON CONFLICT (kind, pool, name) DO UPDATE SET value = excluded.value, gone = NULL",
            [*offer.rows, (_WHOLE, "", "", offer.digest)],
        )
        self._query("DELETE FROM offers WHERE gone < ?", (now - _FORGOTTEN_SECONDS,))

    def check(self) -> None:
        """Read every row: 25 ms for 10,000 devices.

        Raises:
            DamagedError: a row has changed since it was written.
            sqlite3.Error: the file cannot be read.
        """
        for row in self._query(_SELECT):
            _checked(row)

    def device(self, pool: str, name: str) -> Device | None:
        """Return the device as it was last offered, without its attributes; None: never, or long ago.

        Raises:
            sqlite3.Error: the file cannot be read.
        """
        return _read(Device, self._value(_DEVICE, pool, name))

    def counter_sets(self, pools: Sequence[str]) -> dict[tuple[str, str], CounterSet]:
        """Return the pools' counter sets as they were last offered.

        Raises:
            sqlite3.Error: the file cannot be read.
        """
        found: dict[tuple[str, str], CounterSet] = {}
        for pool in pools:
            if pool not in self._counter_sets:
                self._counter_sets[pool] = self._of_pool(pool)
            found |= self._counter_sets[pool]
        return found

    def _of_pool(self, pool: str) -> dict[tuple[str, str], CounterSet]:
        rows = self._query(f"{_SELECT} WHERE kind = ? AND pool = ?", (_COUNTER_SET, pool))
        read = ((name, _read(CounterSet, value)) for _, _, name, value in map(_checked, rows))
        return {(pool, name): counter_set for name, counter_set in read if counter_set is not None}

    def _value(self, kind: str, pool: str, name: str) -> bytes | None:
        query = f"{_SELECT} WHERE kind = ? AND pool = ? AND name = ?"
        found = [_checked(row)[3] for row in self._query(query, (kind, pool, name))]
        return found[0] if found else None


def _checked(row: tuple[str, str, str, bytes]) -> tuple[str, str, str, bytes]:
    """Return the row without its digest."""
    kind, pool, name, stored = row
    try:
        return kind, pool, name, without_digest(stored, kind, pool, name)
    except DamagedError as error:
        raise DamagedError(f"what was offered as {kind} {pool}/{name} is damaged: {error}") from error


def _read(kind: type[T], value: bytes | None) -> T | None:
    """Decode a stored value; None if that fails: the value is then unknown."""
    with suppress(InvalidObjectError):
        return None if value is None else decode(kind, value)
    return None
