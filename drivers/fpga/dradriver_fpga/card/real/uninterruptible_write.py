"""Runs a write to hardware. The write cannot be stopped."""

import threading
import time
from collections.abc import Callable

__all__ = ["UninterruptibleWrite"]


class UninterruptibleWrite:
    """Runs `write` and then `release` on its own thread, even if no caller waits for it.

    Attributes:
        error: the error of `write`; None while it runs, and after success.
    """

    def __init__(self, write: Callable[[], None], release: Callable[[], None]) -> None:
        self.error: Exception | None = None
        self._write = write
        self._release = release
        self._done = threading.Event()
        threading.Thread(target=self._run, name="fpga-write", daemon=True).start()

    @property
    def has_ended(self) -> bool:
        """Whether the write has ended."""
        return self._done.is_set()

    def wait(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for the end of the write, and return whether it has ended.

        If the write ended before the call, the method sleeps for the full time. A caller can therefore poll, at
        the same interval, for a state that the card reaches only after the write.
        """
        if self._done.is_set():
            time.sleep(timeout)  # the caller polls for a state that the card reaches after the write
            return True
        return self._done.wait(timeout)

    def join(self) -> None:
        """Wait for the end of the write."""
        self._done.wait()

    def _run(self) -> None:
        try:
            self._write()
        except Exception as error:
            self.error = error
        finally:
            self._release()
            self._done.set()
