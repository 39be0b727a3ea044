"""Write the log of a driver's process to stderr, as text for people or as JSON for log collectors.

Each line contains the context of its task: the kubelet's call, the claim and its pods. `docs/observe.md` lists
the fields.
"""

import json
import logging
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

__all__ = ["JsonFormatter", "TextFormatter", "set_log_context", "start_log"]

_RECORD_FIELDS: Final = frozenset(vars(logging.makeLogRecord({})))
"""Attributes that every log record has; all other attributes were passed with `extra=`."""

_HIDDEN: Final = _RECORD_FIELDS | {"message", "asctime", "log_context", "constant"}

_NO_FIELDS: Final[Mapping[str, object]] = MappingProxyType({})


class _ContextFilter(logging.Filter):
    """Adds the context of the current thread and task to each log record."""

    def __init__(self) -> None:
        super().__init__()
        self.constant = _NO_FIELDS
        self.current: Callable[[], Mapping[str, object]] = lambda: _NO_FIELDS

    def filter(self, record: logging.LogRecord) -> bool:
        record.constant = self.constant
        record.log_context = self.current()
        return True


_context_filter = _ContextFilter()


def set_log_context(constant: Mapping[str, object], current: Callable[[], Mapping[str, object]]) -> None:
    """Set fields that are added to each line from now on.

    Args:
        constant: fields with equal values in all lines. They are written only to JSON, because readers of the
            text know the process.
        current: returns the other fields. It is called for each line.
    """
    _context_filter.constant, _context_filter.current = constant, current


class TextFormatter(logging.Formatter):
    """Formats a record as one line: time, level, logger, message, context in brackets; a traceback follows."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
        self._second, self._prefix = 0, ""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802 - logging's name
        """Return the time in the format of `logging`; all but the milliseconds is cached for a second."""
        if int(record.created) != self._second or datefmt is not None:
            self._second, self._prefix = int(record.created), super().formatTime(record, datefmt)[:-3]
        return f"{self._prefix}{int(record.msecs):03}"

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Return the line without the traceback; unprintable characters are escaped."""
        line = super().formatMessage(record)
        if log_context := _context_of(record):
            line += f" [{' '.join(f'{key}={_text(value)}' for key, value in log_context.items())}]"
        if line.isprintable():
            return line
        return "".join(each if each.isprintable() else repr(each)[1:-1] for each in line)


class JsonFormatter(logging.Formatter):
    """Formats a record as JSON: time, level, logger, message, context, fields of `extra=`, traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line for one record."""
        fields: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields |= vars(record).get("constant", _NO_FIELDS)
        fields |= _context_of(record)
        fields |= {key: value for key, value in vars(record).items() if key not in _HIDDEN}
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str, ensure_ascii=False)


def start_log(form: str, level: str) -> None:
    """Send the process's log to stderr; lines of libraries below WARNING are logged only at level debug."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    handler.addFilter(_context_filter)
    wanted = getattr(logging, level.upper())
    # `logging` would look up these values for each line, and no line contains them.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None  # noqa: SLF001 - documented in logging's manual: do not look up the line of code
    logging.basicConfig(handlers=[handler], level=max(wanted, logging.WARNING), force=True)
    if wanted == logging.DEBUG:
        logging.getLogger().setLevel(logging.INFO)
    logging.getLogger("dradriver").setLevel(wanted)


def _context_of(record: logging.LogRecord) -> Mapping[str, object]:
    log_context: Mapping[str, object] = vars(record).get("log_context", _NO_FIELDS)
    return log_context


def _text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
