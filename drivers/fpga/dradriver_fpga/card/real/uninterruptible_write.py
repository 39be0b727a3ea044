"""A write to hardware that cannot be stopped, only followed."""

import threading
import time
from collections.abc import Callable

__all__ = ["UninterruptibleWrite"]


class UninterruptibleWrite:
    """Runs `write` and then `release` on its own thread, even if no caller follows it any more.

    Attributes:
        error: the error of `write`; None while it runs, and after success.
    """

    def __init__(self, write: Callable[[], None], release: Callable[[], None]) -> None:
        self.error: Exception | None = None
        self._write = write
        self._release = release
        self._done = threading.Event()
        threading.Thread(target=self._run, name="fpga-write", daemon=True).start()

    def ended(self, timeout: float) -> bool:
        """Return whether the write has ended.

        Waits up to `timeout` seconds, and the full time if it has ended already.
        """
        if self._done.is_set():
            time.sleep(timeout)  # the caller polls for a state that follows the write
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
