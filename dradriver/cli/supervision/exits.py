"""Describes why a process ended: its exit code or signal, and the last line of its log."""

import re
import signal
from pathlib import Path
from typing import Final

__all__ = ["describe_exit", "last_lines", "last_output", "log_size"]

_ORDINARY_LINE: Final = re.compile(r"\d{4}-\d\d-\d\d \S+ (DEBUG|INFO) ")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\S* ")


def describe_exit(code: int) -> str:
    """Return how a process ended.

    Args:
        code: return code in the form of `subprocess`: a negative code is the number of a signal.
    """
    return f"was killed by signal {-code} ({_signal(-code)})" if code < 0 else f"ended with exit code {code}"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "a real-time signal"


def last_output(log: Path, begin: int) -> str:
    """Return `: ` and the last line that a process wrote before its exit, without the time of the line.

    The result is empty if this line is an ordinary log line, because then it does not give the reason of the
    exit.

    Args:
        log: the file.
        begin: number of bytes to skip, because an earlier process wrote them.
    """
    last = last_lines(log, 1, begin)
    return "" if not last or _ORDINARY_LINE.match(last) else f": {_TIME.sub('', last, count=1)}"


def log_size(log: Path) -> int:
    """Return the size of a log in bytes; 0 if the file does not exist."""
    try:
        return log.stat().st_size
    except OSError:
        return 0


def last_lines(log: Path, count: int, begin: int = 0) -> str:
    """Return the last lines of a log, for a message; empty if the log has no lines.

    Args:
        log: the file.
        count: maximum number of lines.
        begin: number of bytes to skip at the beginning, because an earlier process wrote them.
    """
    try:
        with log.open("rb") as file:
            file.seek(begin)
            return "\n".join(file.read().decode(errors="replace").splitlines()[-count:])
    except OSError:
        return ""
