"""Lives of a driver's process, for tests that kill it."""

import os
import sys
from collections.abc import Callable


def run_forked(action: Callable[[], None]) -> int:
    """Runs it in a fork; gives the exit status, negative for a signal."""
    pid = os.fork()
    if pid == 0:
        try:
            action()
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
