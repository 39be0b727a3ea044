"""Locks that let one process at a time program a card.

A lock is a lock of the kernel on an open file. A program that the driver starts inherits the open file. So the
lock is held until the driver and the program have both ended or closed the file, even if the driver dies first.
The next process of the driver then finds the card locked, and starts no second program beside the first one.
"""

import fcntl
import os
from pathlib import Path

from dradriver_fpga.card.errors import BusyError, FpgaError

__all__ = ["CardLock"]


class CardLock:
    """The lock of one card. Call `release()` at the end.

    If the process dies, the kernel releases the lock, unless a program of the vendor still has the file open.

    Args:
        path: file of the lock. It is created, and never removed.
        target: ID of the card or region, for messages.

    Attributes:
        path: file of the lock.
        descriptor: descriptor of the open file, for the program that writes to the card.

    Raises:
        BusyError: the card is locked. The message names the program.
        FpgaError: the file cannot be opened.
    """

    def __init__(self, path: Path, target: str) -> None:
        self.path = path
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise FpgaError(f"{path} cannot be opened: {error.strerror}") from error
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.describe("")
        except BlockingIOError as error:
            holder = os.pread(self.descriptor, 1000, 0).decode(errors="replace")
            os.close(self.descriptor)
            by = f" by {holder}" if holder else ""
            raise BusyError(f"the card of {target} is being programmed{by}") from error
        except BaseException:
            os.close(self.descriptor)
            raise

    def describe(self, holder: str) -> None:
        """Store which program writes to the card.

        Args:
            holder: the program, for messages; "" for this process.
        """
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, holder.encode(), 0)

    def release(self) -> None:
        """Close the file. If no program has it open, the lock is released."""
        os.close(self.descriptor)
