"""A process that runs Python programs in forks: `python forks.py MODULE...`.

It imports the modules once, so a program starts in milliseconds, and tests can kill it often. Each line of its
input is a JSON object: the module that `python -m` would run, its arguments, its environment and its log. It
answers with the PID. The program leads a session of its own, so that a test can kill it with its children.
"""

import gc
import importlib
import json
import os
import runpy
import signal
import sys
from typing import Any, NoReturn


def run(program: dict[str, Any]) -> NoReturn:
    """Run a program in this process, and end the process with it."""
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    log = os.open(program["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.environ.update(program["environment"])
    sys.argv = [program["module"], *program["arguments"]]
    status = 0
    try:
        runpy.run_module(program["module"], run_name="__main__", alter_sys=True)
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 1
    except BaseException as error:
        print(repr(error), file=sys.stderr)
        status = 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def main() -> None:
    """Start programs until the input ends."""
    for name in sys.argv[1:]:
        importlib.import_module(name)
    gc.freeze()
    # The kernel removes ended programs at once: nobody asks for their exit status.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            run(json.loads(line))
        print(pid, flush=True)


if __name__ == "__main__":
    main()
