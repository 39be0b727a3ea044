"""Bitstreams that failed on cards, by digest, so that one bitstream does not taint card after card.

The first failure may be the card's fault, so the card is tainted. After the second failure on a node, the
bitstream counts as faulty: it is rejected from then on, and no device is tainted. The file is read once and
replaced at each change, so a new process knows the failures, also after a reboot. If the process dies before a
failure is written, that failure is not counted, but the next one is. The file is not synced, so a power failure
can lose the last entries. Between two processes of a rolling update the last writer wins, so a failure can go
uncounted.
"""

import logging
import threading
from pathlib import Path
from typing import Final

import msgspec

__all__ = ["FailedBitstreams"]

_log: Final = logging.getLogger(__name__)

_FAILURES: Final = 2
"""Number of failures after which a bitstream is rejected."""
_KEPT_SECONDS: Final = 24 * 3600.0
"""Seconds for which a failure counts. It ends because two faulty cards may have caused the failures."""
_MOST: Final = 512
"""Largest number of digests in the file. The oldest failures are dropped first."""
_LONGEST: Final = 300
"""Largest number of characters of an error."""


class _Failure(msgspec.Struct, frozen=True):
    """Failures of a bitstream: their number, the time of the last one (Unix time), and its error."""

    count: int
    at: float
    error: str


class FailedBitstreams:
    """The bitstreams that failed on a node. Methods block, and any thread may call them.

    Args:
        path: the file; its folder is created if it is missing.
        most: largest number of digests.
    """

    def __init__(self, path: Path, most: int = _MOST) -> None:
        self._path = path
        self._most = most
        self._lock = threading.Lock()
        self._failures: dict[str, _Failure] | None = None

    def refusal(self, digest: str, now: float) -> str:
        """Return why a bitstream is rejected; "" if it is not.

        Args:
            digest: sha256 of the bitstream.
            now: Unix time.
        """
        with self._lock:
            found = self._counted(now).get(digest)
        if found is None or found.count < _FAILURES:
            return ""
        hours = (found.at + _KEPT_SECONDS - now) / 3600
        return (
            f"the bitstream with sha256 {digest} failed {found.count} times on cards of this node, the last "
            f"time with: {found.error}; it is not tried again for {hours:.0f} h"
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
            failures = self._counted(now)
            before = failures.pop(digest, None)
            failure = _Failure(1 + (before.count if before else 0), now, error[:_LONGEST])
            kept = [*failures.items(), (digest, failure)][-self._most :]
            self._write(dict(kept))
        return failure.count >= _FAILURES

    def remove(self, digest: str, now: float) -> None:
        """Remove the failures of a bitstream with which a card was programmed: it did not cause them."""
        with self._lock:
            failures = self._counted(now)
            if failures.pop(digest, None) is not None:
                self._write(failures)

    def _counted(self, now: float) -> dict[str, _Failure]:
        """Return the failures that still count, oldest first."""
        if self._failures is None:
            self._failures = self._read()
        return {digest: each for digest, each in self._failures.items() if now < each.at + _KEPT_SECONDS}

    def _read(self) -> dict[str, _Failure]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, _Failure])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.MsgspecError) as error:
            _log.warning("%s can't be read, which bitstreams failed is forgotten: %s", self._path, error)
            return {}

    def _write(self, failures: dict[str, _Failure]) -> None:
        self._failures = failures
        unfinished = self._path.with_name(f"{self._path.name}.new")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            unfinished.write_bytes(msgspec.json.encode(failures))
            unfinished.replace(self._path)
        except OSError as error:
            _log.warning("%s can't be written, a new process will not know it: %s", self._path, error)
