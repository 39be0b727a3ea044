"""Caches files by digest and source, in a folder of bounded size.

A file is cached for its digest and its source. So a claim that names a digest does not get the file of a source
that the claim may not read, for example of a ConfigMap in another namespace.

When a file is complete, checked and on disk, it is renamed to its final name atomically. If the process dies
before the renaming, an unfinished file is left. The kernel releases the lock on the unfinished file, and the
next fetch removes the file. If the process dies after the renaming, the file is complete. Two processes of a
rolling update share the folder.
"""

import asyncio
import contextlib
import fcntl
import hashlib
import json
import os
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import IO, Final

from dradriver_fpga.bitstreams.errors import BitstreamError
from dradriver_fpga.bitstreams.sources import BitstreamSources
from dradriver_fpga.configs import RequestedBitstream
from dradriver_fpga.settings import BitstreamRules

__all__ = ["BitstreamCache"]

_UNFINISHED_SUFFIX: Final = ".part"
_REJECTED_SECONDS: Final = 60.0
"""Seconds for which a rejected file is not fetched again, because its pod retries often."""
_REASONS_OF_A_BAD_FILE: Final = frozenset({"TooLarge", "WrongDigest"})


class BitstreamCache:
    """Fetched bitstreams.

    Args:
        folder: folder that only this driver uses.
        rules: limits of sizes and times.
        sources: opens the bitstreams.
    """

    def __init__(self, folder: Path, rules: BitstreamRules, sources: BitstreamSources) -> None:
        self._folder = folder
        self._rules = rules
        self._sources = sources
        self._users: Counter[str] = Counter()
        self._fetch_locks: dict[str, asyncio.Lock] = {}
        self._rejected: dict[tuple[str, RequestedBitstream], tuple[float, BitstreamError]] = {}

    @asynccontextmanager
    async def file(self, bitstream: RequestedBitstream, namespace: str) -> AsyncIterator[Path]:
        """Yield the path of a file. The file is neither changed nor removed inside the `async with` block.

        Args:
            bitstream: the requested bitstream.
            namespace: namespace of the claim.

        Raises:
            BitstreamError: the file cannot be fetched, is too large, or has another digest.
        """
        name = _make_name(bitstream, namespace)
        path = self._folder / name
        self._users[name] += 1
        try:
            async with self._fetch_locks.setdefault(name, asyncio.Lock()):
                if not await asyncio.to_thread(_is_valid, path, bitstream.digest):
                    await self._fetch(bitstream, namespace, path)
            yield path
        finally:
            self._users[name] -= 1
            if not self._users[name]:
                del self._users[name]
                self._fetch_locks.pop(name, None)

    async def _fetch(self, bitstream: RequestedBitstream, namespace: str, path: Path) -> None:
        self._rejected = {key: each for key, each in self._rejected.items() if each[0] > time.monotonic()}
        if rejected := self._rejected.get((namespace, bitstream)):
            raise BitstreamError(str(rejected[1]), rejected[1].reason)
        try:
            await self._fetch_uncached(bitstream, namespace, path)
        except BitstreamError as error:
            if error.reason in _REASONS_OF_A_BAD_FILE:
                self._rejected[namespace, bitstream] = (time.monotonic() + _REJECTED_SECONDS, error)
            raise

    async def _fetch_uncached(self, bitstream: RequestedBitstream, namespace: str, path: Path) -> None:
        file = await asyncio.to_thread(self._create_unfinished)
        try:
            await self._write_chunks(file, bitstream, namespace)
            await asyncio.to_thread(self._complete, file, path)
        except TimeoutError as error:
            seconds = self._rules.seconds
            raise BitstreamError(
                f"{bitstream.location} did not arrive within {seconds:g} s", "DownloadFailed"
            ) from error
        except OSError as error:
            message = f"{bitstream.location} cannot be stored in {self._folder}: {error.strerror}"
            raise BitstreamError(message, "NoSpace") from error
        finally:
            await asyncio.to_thread(_discard, file)

    async def _write_chunks(self, file: IO[bytes], bitstream: RequestedBitstream, namespace: str) -> None:
        size, sha, max_bytes = 0, hashlib.sha256(), self._rules.largest_bytes
        async with (
            asyncio.timeout(self._rules.seconds),
            aclosing(self._sources.open(bitstream, namespace)) as chunks,
        ):
            async for chunk in chunks:
                size += len(chunk)
                if size > max_bytes:
                    raise BitstreamError(f"{bitstream.location} is larger than {max_bytes} bytes", "TooLarge")
                sha.update(chunk)
                await asyncio.to_thread(file.write, chunk)
        if sha.hexdigest() != bitstream.digest:
            message = f"{bitstream.location} has the sha256 {sha.hexdigest()}, not {bitstream.digest}"
            raise BitstreamError(message, "WrongDigest")

    # The methods below run on threads.

    def _create_unfinished(self) -> IO[bytes]:
        self._folder.mkdir(parents=True, exist_ok=True)
        for path in self._folder.glob(f"*{_UNFINISHED_SUFFIX}"):
            _remove_if_abandoned(path)
        while True:
            file = tempfile.NamedTemporaryFile(dir=self._folder, suffix=_UNFINISHED_SUFFIX, delete=False)  # noqa: SIM115
            fcntl.flock(file, fcntl.LOCK_EX)
            if os.fstat(file.fileno()).st_nlink:
                return file
            file.close()  # another fetch has removed the file before it was locked

    def _complete(self, file: IO[bytes], path: Path) -> None:
        file.flush()
        os.fsync(file.fileno())
        self._make_room(file.tell())
        Path(file.name).replace(path)
        _sync(self._folder)

    def _make_room(self, size: int) -> None:
        """Remove the files that were unused for the longest time, except files in use."""
        files = sorted(self._list_files(), key=lambda each: each[0])
        total = size + sum(kept_bytes for _, kept_bytes, _ in files)
        for _, kept_bytes, path in files:
            if total <= self._rules.cache_bytes:
                return
            if path.name not in self._users:
                path.unlink(missing_ok=True)
                total -= kept_bytes

    def _list_files(self) -> Iterator[tuple[float, int, Path]]:
        for path in self._folder.iterdir():
            if path.suffix != _UNFINISHED_SUFFIX:
                with contextlib.suppress(FileNotFoundError):
                    status = path.stat()
                    yield status.st_mtime, status.st_size, path


def _make_name(bitstream: RequestedBitstream, namespace: str) -> str:
    """Return the file's name: the digest, and a hash of the source."""
    key = bitstream.config_map
    source = [bitstream.file, bitstream.url, key and [namespace, key.name, key.key]]
    return f"{bitstream.digest}-{hashlib.sha256(json.dumps(source).encode()).hexdigest()[:16]}"


def _is_valid(path: Path, digest: str) -> bool:
    """Return whether the file exists and has the right content. If not, the caller fetches the file again."""
    try:
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() == digest:
                os.utime(path)  # marks the time of the last use
                return True
    except OSError:
        return False
    return False


def _remove_if_abandoned(path: Path) -> None:
    """Remove an unfinished file, unless a process is writing it."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()


def _discard(file: IO[bytes]) -> None:
    """Remove an unfinished file. After `_complete`, the file has another name, and this call does nothing."""
    Path(file.name).unlink(missing_ok=True)
    file.close()


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
