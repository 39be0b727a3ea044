"""Bitstreams that cards did not take: known by digest, so that they take no card after card from others.

What fails once may be the card's fault, so the card is tainted. What fails twice on a node is taken for the
bitstream's own fault: it is refused from then on, and taints nothing. The file is read once and replaced at
each change, so a new process knows what the last one saw, also after a reboot. Dies before a failure is noted:
the next failure is counted in its place. Nothing is synced: a machine that loses power may forget the last
ones. Of two processes of a rolling update the last writer wins: a failure may go uncounted.
"""

import logging
import threading
from pathlib import Path
from typing import Final

import msgspec

__all__ = ["FailedBitstreams"]

_log: Final = logging.getLogger(__name__)

_FAILURES: Final = 2
"""How many make a bitstream refused."""
_KEPT_SECONDS: Final = 24 * 3600.0
"""How long a failure counts: two bad cards may have been at fault."""
_MOST: Final = 512
"""Digests that are kept; those that failed longest ago are forgotten first."""
_LONGEST: Final = 300
"""Characters of an error."""


class _Failure(msgspec.Struct, frozen=True):
    """Failures of a bitstream: how many, when the last one was (Unix time), and what it was."""

    count: int
    at: float
    error: str


class FailedBitstreams:
    """The bitstreams of a node that failed. Its methods block, and may be called from any thread.

    Args:
        path: the file; its folder is made when it is missing.
        most: digests that are kept.
    """

    def __init__(self, path: Path, most: int = _MOST) -> None:
        self._path = path
        self._most = most
        self._lock = threading.Lock()
        self._failures: dict[str, _Failure] | None = None

    def refusal(self, digest: str, now: float) -> str:
        """Why a bitstream is refused; "" if it is not.

        Args:
            digest: its sha256.
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
        """A card was programmed with it and failed.

        Args:
            digest: its sha256.
            error: what the card said.
            now: Unix time.

        Returns:
            Whether it is refused from now on.
        """
        with self._lock:
            failures = self._counted(now)
            before = failures.pop(digest, None)
            failure = _Failure(1 + (before.count if before else 0), now, error[:_LONGEST])
            kept = [*failures.items(), (digest, failure)][-self._most :]
            self._write(dict(kept))
        return failure.count >= _FAILURES

    def remove(self, digest: str, now: float) -> None:
        """A card took it: nothing that failed before was its fault."""
        with self._lock:
            failures = self._counted(now)
            if failures.pop(digest, None) is not None:
                self._write(failures)

    def _counted(self, now: float) -> dict[str, _Failure]:
        """The failures that count still, the oldest first."""
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
