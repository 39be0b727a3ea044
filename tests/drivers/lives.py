"""Lives of a driver's process, for tests that kill it."""

import os
import sys
from collections.abc import Callable


def in_a_process(life: Callable[[], None]) -> int:
    """Runs it in a fork; gives the exit status, negative for a signal."""
    child = os.fork()
    if child == 0:
        try:
            life()
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
