"""The command `dradriver`: one file a command, and what they share.

Law of this package: commands read options, ask the layers below, and show the answer. They decide nothing
about devices, claims or pods. Output for people goes to stdout as tables or sentences, output for programs
as JSON or YAML documents with stable names; errors and progress go to stderr. Exit codes: 0 done, 1 failed
or invalid, 2 used wrongly. Whatever is slow to import is imported by the command that needs it.
"""

import signal
import threading

# Imports take a moment in which Ctrl-C would end in a traceback: it ends the process without one.
_IN_MAIN = threading.current_thread() is threading.main_thread()
_handler = signal.signal(signal.SIGINT, signal.SIG_DFL) if _IN_MAIN else None

from dradriver.cli.main import main  # noqa: E402 - see above

if _handler is not None:
    signal.signal(signal.SIGINT, _handler)

__all__ = ["main"]
