"""Store the devices that the driver offers, for claims that are prepared after their device is gone.

The rows contain the input of the conflict check: consumed counters, capacities, and counter sets. The row of a
device is deleted a week after the driver has stopped offering the device. The scheduler stops allocating such a
device within seconds.
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
from dradriver.node.state.tables import DamagedError, add_digest, fetch_rows, remove_digest

__all__ = ["RecordedOffer", "RecordedOffers"]

T = TypeVar("T")

_FORGOTTEN_SECONDS: Final = 7 * 24 * 3600.0
_encoder: Final = msgspec.json.Encoder(enc_hook=str)  # quantities
_SELECT: Final = "SELECT kind, pool, name, value FROM offers"
_DEVICE, _COUNTER_SET, _DIGEST = "device", "counter set", "digest"


class RecordedOffer:
    """Devices and counter sets in the form in which they are stored; computed once for each `discover()`."""

    def __init__(
        self, devices: Mapping[tuple[str, str], Device], counter_sets: Mapping[tuple[str, str], CounterSet]
    ) -> None:
        self.rows = [*_encode_rows(_DEVICE, devices), *_encode_rows(_COUNTER_SET, counter_sets)]
        digest = hashlib.sha256()
        for row in self.rows:
            digest.update(repr(row).encode())
        self.digest = digest.digest()


def _encode_rows(
    kind: str, values: Mapping[tuple[str, str], Device] | Mapping[tuple[str, str], CounterSet]
) -> Iterator[tuple[str, str, str, bytes]]:
    for (pool, name), value in values.items():
        # A value that cannot be encoded is not stored. Claims for the driver's device are rejected in any case.
        with suppress(TypeError, ValueError, AttributeError, OverflowError, NotImplementedError):
            text = _encoder.encode(_reduce(value) if isinstance(value, Device) else value)
            yield kind, pool, name, add_digest(text, kind, pool, name)


def _reduce(device: Device) -> Device:
    return Device(device.name, capacity=device.capacity, consumes_counters=device.consumes_counters)


class RecordedOffers:
    """Reads and writes the rows of offers inside a transaction; rows are cached until `forget`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._query = partial(fetch_rows, connection)
        self.forget()

    def forget(self) -> None:
        """Drop the cache, because the rows may have changed."""
        self._digest: bytes | None = None
        self._counter_sets: dict[str, dict[tuple[str, str], CounterSet]] = {}

    def store(self, offer: RecordedOffer) -> None:
        """Store the driver's current offer.

        If only an earlier offer has a device, the device is kept and marked as gone.

        Raises:
            sqlite3.Error: the file cannot be read or written.
        """
        if self._digest is None:
            self._digest = self._read_value(_DIGEST, "", "")
        if self._digest == offer.digest:
            return
        self.forget()
        now = time.time()
        self._query("UPDATE offers SET gone = ? WHERE gone IS NULL", (now,))
        self._connection.executemany(
            "INSERT INTO offers (kind, pool, name, value, gone) VALUES (?, ?, ?, ?, NULL) "
            "ON CONFLICT (kind, pool, name) DO UPDATE SET value = excluded.value, gone = NULL",
            [*offer.rows, (_DIGEST, "", "", offer.digest)],
        )
        self._query("DELETE FROM offers WHERE gone < ?", (now - _FORGOTTEN_SECONDS,))

    def check(self) -> None:
        """Read every row to detect damage; takes 25 ms for 10,000 devices.

        Raises:
            DamagedError: a row has changed since it was written.
            sqlite3.Error: the file cannot be read.
        """
        for row in self._query(_SELECT):
            _verify(row)

    def device(self, pool: str, name: str) -> Device | None:
        """Return the device as it was last offered, without attributes; None if it was not offered for a week.

        Raises:
            sqlite3.Error: the file cannot be read.
        """
        return _decode(Device, self._read_value(_DEVICE, pool, name))

    def counter_sets(self, pools: Sequence[str]) -> dict[tuple[str, str], CounterSet]:
        """Return the pools' counter sets as they were last offered.

        Raises:
            sqlite3.Error: the file cannot be read.
        """
        counter_sets: dict[tuple[str, str], CounterSet] = {}
        for pool in pools:
            if pool not in self._counter_sets:
                self._counter_sets[pool] = self._read_pool(pool)
            counter_sets |= self._counter_sets[pool]
        return counter_sets

    def _read_pool(self, pool: str) -> dict[tuple[str, str], CounterSet]:
        rows = self._query(f"{_SELECT} WHERE kind = ? AND pool = ?", (_COUNTER_SET, pool))
        decoded = ((name, _decode(CounterSet, value)) for _, _, name, value in map(_verify, rows))
        return {(pool, name): counter_set for name, counter_set in decoded if counter_set is not None}

    def _read_value(self, kind: str, pool: str, name: str) -> bytes | None:
        query = f"{_SELECT} WHERE kind = ? AND pool = ? AND name = ?"
        values = [_verify(row)[3] for row in self._query(query, (kind, pool, name))]
        return values[0] if values else None


def _verify(row: tuple[str, str, str, bytes]) -> tuple[str, str, str, bytes]:
    """Check the digest of a row, and return the row without the digest."""
    kind, pool, name, stored = row
    try:
        return kind, pool, name, remove_digest(stored, kind, pool, name)
    except DamagedError as error:
        raise DamagedError(f"offered {kind} {pool}/{name}: the row is damaged: {error}") from error


def _decode(kind: type[T], value: bytes | None) -> T | None:
    """Decode a stored value; return None if it cannot be decoded, so that it counts as unknown."""
    with suppress(InvalidObjectError):
        return None if value is None else decode(kind, value)
    return None
