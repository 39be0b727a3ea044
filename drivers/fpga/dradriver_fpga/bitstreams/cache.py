"""Files by digest, in a folder of bounded size.

A file appears under its digest atomically, after it is complete, checked and on disk. If the process dies
earlier, an unfinished file is left. The kernel releases its lock, and the next fetch removes it. If the process
dies later, the file is complete. Two processes of a rolling update share the folder.
"""

import asyncio
import contextlib
import fcntl
import hashlib
import os
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import IO, Final

from dradriver_fpga.bitstreams.errors import BitstreamError
from dradriver_fpga.bitstreams.sources import Sources
from dradriver_fpga.configs import RequestedBitstream
from dradriver_fpga.settings import BitstreamRules

__all__ = ["Cache"]

_UNFINISHED: Final = ".part"
_REMEMBERED_SECONDS: Final = 60.0
"""Seconds for which a rejected file is not fetched again, because its pod retries often."""
_BAD_FILES: Final = frozenset({"TooLarge", "WrongDigest"})


class Cache:
    """Fetched bitstreams.

    Args:
        folder: folder that only this driver uses.
        rules: limits of sizes and times.
        sources: opens the bitstreams.
    """

    def __init__(self, folder: Path, rules: BitstreamRules, sources: Sources) -> None:
        self._folder = folder
        self._rules = rules
        self._sources = sources
        self._used: Counter[str] = Counter()
        self._fetching: dict[str, asyncio.Lock] = {}
        self._refused: dict[tuple[str, RequestedBitstream], tuple[float, BitstreamError]] = {}

    @asynccontextmanager
    async def file(self, bitstream: RequestedBitstream, namespace: str) -> AsyncIterator[Path]:
        """Yield the path of a file. It is neither changed nor removed inside the `async with` block.

        Args:
            bitstream: the requested bitstream.
            namespace: namespace of the claim.

        Raises:
            BitstreamError: the file cannot be fetched, is too large, or has another digest.
        """
        digest = bitstream.digest
        path = self._folder / digest
        self._used[digest] += 1
        try:
            async with self._fetching.setdefault(digest, asyncio.Lock()):
                if not await asyncio.to_thread(_is_good, path, digest):
                    await self._fetch(bitstream, namespace, path)
            yield path
        finally:
            self._used[digest] -= 1
            if not self._used[digest]:
                del self._used[digest]
                self._fetching.pop(digest, None)

    async def _fetch(self, bitstream: RequestedBitstream, namespace: str, path: Path) -> None:
        self._refused = {key: each for key, each in self._refused.items() if each[0] > time.monotonic()}
        if refused := self._refused.get((namespace, bitstream)):
            raise BitstreamError(str(refused[1]), refused[1].reason)
        try:
            await self._fetch_now(bitstream, namespace, path)
        except BitstreamError as error:
            if error.reason in _BAD_FILES:
                self._refused[namespace, bitstream] = (time.monotonic() + _REMEMBERED_SECONDS, error)
            raise

    async def _fetch_now(self, bitstream: RequestedBitstream, namespace: str, path: Path) -> None:
        file = await asyncio.to_thread(self._begin)
        try:
            await self._fill(file, bitstream, namespace)
            await asyncio.to_thread(self._finish, file, path)
        except TimeoutError as error:
            seconds = self._rules.seconds
            raise BitstreamError(
                f"{bitstream.where} did not arrive within {seconds:g} s", "DownloadFailed"
            ) from error
        except OSError as error:
            told = f"{bitstream.where} can't be kept in {self._folder}: {error.strerror}"
            raise BitstreamError(told, "NoSpace") from error
        finally:
            await asyncio.to_thread(_discard, file)

    async def _fill(self, file: IO[bytes], bitstream: RequestedBitstream, namespace: str) -> None:
        size, sha, largest = 0, hashlib.sha256(), self._rules.largest_bytes
        async with (
            asyncio.timeout(self._rules.seconds),
            aclosing(self._sources.open(bitstream, namespace)) as pieces,
        ):
            async for piece in pieces:
                size += len(piece)
                if size > largest:
                    raise BitstreamError(f"{bitstream.where} is larger than {largest} bytes", "TooLarge")
                sha.update(piece)
                await asyncio.to_thread(file.write, piece)
        if sha.hexdigest() != bitstream.digest:
            told = f"{bitstream.where} has the sha256 {sha.hexdigest()}, not {bitstream.digest}"
            raise BitstreamError(told, "WrongDigest")

    # The methods below run on threads.

    def _begin(self) -> IO[bytes]:
        self._folder.mkdir(parents=True, exist_ok=True)
        for path in self._folder.glob(f"*{_UNFINISHED}"):
            _remove_if_left(path)
        file = tempfile.NamedTemporaryFile(dir=self._folder, suffix=_UNFINISHED, delete=False)  # noqa: SIM115
        fcntl.flock(file, fcntl.LOCK_EX)
        return file

    def _finish(self, file: IO[bytes], path: Path) -> None:
        file.flush()
        os.fsync(file.fileno())
        self._make_room(file.tell())
        Path(file.name).replace(path)
        _sync(self._folder)

    def _make_room(self, size: int) -> None:
        """Remove the files that were unused for the longest time, but none that is in use."""
        files = sorted(self._kept(), key=lambda each: each[0])
        total = size + sum(kept for _, kept, _ in files)
        for _, kept, path in files:
            if total <= self._rules.cache_bytes:
                return
            if path.name not in self._used:
                path.unlink(missing_ok=True)
                total -= kept

    def _kept(self) -> Iterator[tuple[float, int, Path]]:
        for path in self._folder.iterdir():
            if path.suffix != _UNFINISHED:
                with contextlib.suppress(FileNotFoundError):
                    about = path.stat()
                    yield about.st_mtime, about.st_size, path


def _is_good(path: Path, digest: str) -> bool:
    """Return whether the file exists with the right content. A damaged file is fetched again."""
    try:
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() == digest:
                os.utime(path)  # marks the time of the last use
                return True
    except OSError:
        return False
    return False


def _remove_if_left(path: Path) -> None:
    """Remove an unfinished file that no process writes any more."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()


def _discard(file: IO[bytes]) -> None:
    """Remove an unfinished file. After `_finish` it has another name, and this does nothing."""
    Path(file.name).unlink(missing_ok=True)
    file.close()


def _sync(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
