"""Records by digest which bitstreams failed on cards, so that one bitstream does not taint many cards.

The first failure may be the card's fault, so the card is tainted. After the second failure on a node, the
bitstream counts as faulty: it is rejected until its last failure expires, and no device is tainted. The
failures are stored in a file. The file is read once and replaced at each change, so a new process knows the
failures even after a reboot. If the process dies before a failure is written, this failure is not counted. The
file is not synced, so a power failure can delete the last entries. During a rolling update, two processes write
the file and the last writer wins, so a failure may not be counted.
"""

import logging
import threading
from pathlib import Path
from typing import Final

import msgspec

__all__ = ["FailedBitstreams"]

_log: Final = logging.getLogger(__name__)

_MAX_FAILURES: Final = 2
"""Number of failures after which a bitstream is rejected."""
_KEPT_SECONDS: Final = 24 * 3600.0
"""Seconds for which a failure counts.

The time is limited, because two faulty cards may have caused the failures.
"""
_MAX_DIGESTS: Final = 512
"""Maximum number of digests in the file. The oldest failures are dropped first."""
_MAX_ERROR_LENGTH: Final = 300
"""Maximum number of characters of an error."""


class _Failure(msgspec.Struct, frozen=True):
    """The failures of a bitstream: their number, and the time (Unix time) and error of the last failure."""

    count: int
    at: float
    error: str


class FailedBitstreams:
    """The bitstreams that failed on a node. All methods block, and any thread may call them.

    Args:
        path: the file of the failures. Its folder is created if it is missing.
        max_digests: maximum number of digests in the file.
    """

    def __init__(self, path: Path, max_digests: int = _MAX_DIGESTS) -> None:
        self._path = path
        self._max_digests = max_digests
        self._lock = threading.Lock()
        self._failures: dict[str, _Failure] | None = None

    def find_rejection(self, digest: str, now: float) -> str:
        """Return why a bitstream is rejected; "" if it is accepted.

        Args:
            digest: sha256 of the bitstream.
            now: Unix time.
        """
        with self._lock:
            failure = self._list_current(now).get(digest)
        if failure is None or failure.count < _MAX_FAILURES:
            return ""
        hours = (failure.at + _KEPT_SECONDS - now) / 3600
        return (
            f"the bitstream with sha256 {digest} failed {failure.count} times on cards of this node, the last "
            f"time with: {failure.error}; it is not tried again for {hours:.0f} h"
        )

    def add(self, digest: str, error: str, now: float) -> bool:
        """Record that programming a card with a bitstream failed.

        Args:
            digest: sha256 of the bitstream.
            error: error of the card.
            now: Unix time.

        Returns:
            Whether the bitstream is rejected from now on.
        """
        with self._lock:
            failures = self._list_current(now)
            previous = failures.pop(digest, None)
            failure = _Failure(1 + (previous.count if previous else 0), now, error[:_MAX_ERROR_LENGTH])
            newest = [*failures.items(), (digest, failure)][-self._max_digests :]
            self._write(dict(newest))
        return failure.count >= _MAX_FAILURES

    def remove(self, digest: str, now: float) -> None:
        """Remove the failures of a bitstream, because a card was programmed with it successfully.

        Args:
            digest: sha256 of the bitstream.
            now: Unix time.
        """
        with self._lock:
            failures = self._list_current(now)
            if failures.pop(digest, None) is not None:
                self._write(failures)

    def _list_current(self, now: float) -> dict[str, _Failure]:
        """Return the failures that have not expired at `now`, oldest first."""
        if self._failures is None:
            self._failures = self._read()
        return {digest: each for digest, each in self._failures.items() if now < each.at + _KEPT_SECONDS}

    def _read(self) -> dict[str, _Failure]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, _Failure])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.MsgspecError) as error:
            _log.warning("%s cannot be read, earlier failures of bitstreams are lost: %s", self._path, error)
            return {}

    def _write(self, failures: dict[str, _Failure]) -> None:
        self._failures = failures
        temporary = self._path.with_name(f"{self._path.name}.new")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(msgspec.json.encode(failures))
            temporary.replace(self._path)
        except OSError as error:
            _log.warning(
                "%s cannot be written, a new process will not know these failures: %s", self._path, error
            )
