"""A write to hardware that can't be taken back: followed, not stopped."""

import threading
import time
from collections.abc import Callable

__all__ = ["UninterruptibleWrite"]


class UninterruptibleWrite:
    """Runs `write` on a thread of its own, and `release` after it, even when nobody follows any more.

    Attributes:
        error: why it failed; None while it runs, and when it did not.
    """

    def __init__(self, write: Callable[[], None], release: Callable[[], None]) -> None:
        self.error: Exception | None = None
        self._write = write
        self._release = release
        self._done = threading.Event()
        threading.Thread(target=self._run, name="fpga-write", daemon=True).start()

    def ended(self, timeout: float) -> bool:
        """Whether it has ended, waiting `timeout` seconds for it in all cases."""
        if self._done.is_set():
            time.sleep(timeout)  # the caller waits for what comes after it
            return True
        return self._done.wait(timeout)

    def _run(self) -> None:
        try:
            self._write()
        except Exception as error:
            self.error = error
        finally:
            self._release()
            self._done.set()
