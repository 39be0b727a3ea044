"""Files whose content was verified while it was copied to a place that nobody else writes to.

What is programmed is what was verified: a change of the original file after the check has no effect. No copy is
in memory. The pages of these files belong to the page cache, which the kernel can reclaim.
"""

import ctypes
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from dradriver_fpga.card.errors import UnreadableBitstreamError
from dradriver_fpga.card.images import Image, read_image, verify_chunks
from dradriver_fpga.card.values import Bitstream

__all__ = ["VerifiedFile", "create_private"]

_MAX_SENT_BYTES: Final = 1 << 30


class VerifiedFile:
    """A private copy of a bitstream file. Call `close()` at the end.

    If the process dies, the file remains, and the next copy to the same path replaces it.

    Args:
        bitstream: the requested file.
        limit: maximum size in bytes.
        path: path of the copy. Only the holder of the card's lock uses it.

    Attributes:
        path: path of the copy, for programs that take a path.
        image: properties from the header.

    Raises:
        UnreadableBitstreamError: the file cannot be read or copied, or its header is broken.
        TooLargeError: the file is larger than `limit`.
        WrongDigestError: the file's digest is not the requested one.
    """

    def __init__(self, bitstream: Bitstream, limit: int, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = create_private(path)
        except OSError as error:
            raise _make_copy_error(bitstream, path, error) from error
        try:
            self.image: Image = self._copy(bitstream, limit)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Remove the copy."""
        self.path.unlink(missing_ok=True)
        self._file.close()

    def send_bits(self, target: IO[bytes]) -> None:
        """Copy the file without its header, inside the kernel.

        Args:
            target: an empty file, open for writing.

        Raises:
            OSError: the bits cannot be written.
        """
        offset = self.image.start
        while sent := os.sendfile(target.fileno(), self._file.fileno(), offset, _MAX_SENT_BYTES):
            offset += sent

    @contextmanager
    def map_bits(self) -> Iterator[tuple[int, int]]:
        """Map the file without its header into memory, and yield the address and the size in bytes.

        The kernel reads the pages of the file through this mapping.
        """
        size = self.image.size - self.image.start
        if not size:
            yield 0, 0
            return
        # A private mapping, because ctypes only takes the address of writable memory. Nothing is written to it.
        with mmap.mmap(self._file.fileno(), self.image.size, access=mmap.ACCESS_COPY) as mapped:
            first = ctypes.c_char.from_buffer(mapped, self.image.start)
            try:
                yield ctypes.addressof(first), size
            finally:
                del first  # the mapping cannot be closed while ctypes refers to it

    def _copy(self, bitstream: Bitstream, limit: int) -> Image:
        try:
            with bitstream.path.open("rb") as source:
                for chunk in verify_chunks(source, bitstream, limit):
                    self._file.write(chunk)
            self._file.flush()
            return read_image(self._file, bitstream.path)
        except OSError as error:
            raise _make_copy_error(bitstream, self.path, error) from error


def create_private(path: Path) -> IO[bytes]:
    """Create a file that only root can read, in the place of an existing one.

    Args:
        path: path of the file.

    Raises:
        OSError: the file cannot be created.
    """
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    return os.fdopen(descriptor, "r+b")


def _make_copy_error(bitstream: Bitstream, path: Path, error: OSError) -> UnreadableBitstreamError:
    return UnreadableBitstreamError(
        f"bitstream {bitstream.path} cannot be read or copied to {path.parent}: {error.strerror}"
    )
