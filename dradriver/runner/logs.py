"""The log of a driver's process on stderr, as text for people or as JSON for collectors.

A line has the context of its task: the kubelet's call, its claim and pods. `docs/observe.md` lists the fields.
"""

import json
import logging
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

__all__ = ["JsonFormatter", "TextFormatter", "carry", "start_log"]

_OWN: Final = frozenset(vars(logging.makeLogRecord({})))
"""Attributes that every record has. All others were given with `extra=`."""

_HIDDEN: Final = _OWN | {"message", "asctime", "carried", "constant"}

_NOTHING: Final[Mapping[str, object]] = MappingProxyType({})


class _Carrier(logging.Filter):
    """Adds the context of the logging thread and task to each record."""

    def __init__(self) -> None:
        super().__init__()
        self.constant = _NOTHING
        self.current: Callable[[], Mapping[str, object]] = lambda: _NOTHING

    def filter(self, record: logging.LogRecord) -> bool:
        record.constant = self.constant
        record.carried = self.current()
        return True


_carrier = _Carrier()


def carry(constant: Mapping[str, object], current: Callable[[], Mapping[str, object]]) -> None:
    """Add fields to each line from now on.

    Args:
        constant: the same for all lines; in JSON only, because a reader of the text knows the process.
        current: called for each line.
    """
    _carrier.constant, _carrier.current = constant, current


class TextFormatter(logging.Formatter):
    """One line: time, level, logger, message, and the context in brackets; a traceback below."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
        self._second, self._told = 0, ""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802 - logging's name
        """Return the time in logging's format; the part that is equal within a second is cached."""
        if int(record.created) != self._second or datefmt is not None:
            self._second, self._told = int(record.created), super().formatTime(record, datefmt)[:-3]
        return f"{self._told}{int(record.msecs):03}"

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Return the line without the traceback; characters that are not printable are escaped."""
        line = super().formatMessage(record)
        if carried := _carried(record):
            line += f" [{' '.join(f'{key}={_text(value)}' for key, value in carried.items())}]"
        if line.isprintable():
            return line
        return "".join(each if each.isprintable() else repr(each)[1:-1] for each in line)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, context, fields of `extra=`, traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line for one record."""
        fields: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields |= vars(record).get("constant", _NOTHING)
        fields |= _carried(record)
        fields |= {key: value for key, value in vars(record).items() if key not in _HIDDEN}
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str, ensure_ascii=False)


def start_log(form: str, level: str) -> None:
    """Send the process's log to stderr; libraries' lines below WARNING only at level debug."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    handler.addFilter(_carrier)
    wanted = getattr(logging, level.upper())
    # They are looked up for each line, and no line contains them.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None  # noqa: SLF001 - so logging's manual says it is not asked which line of code logs
    logging.basicConfig(handlers=[handler], level=max(wanted, logging.WARNING), force=True)
    if wanted == logging.DEBUG:
        logging.getLogger().setLevel(logging.INFO)
    logging.getLogger("dradriver").setLevel(wanted)


def _carried(record: logging.LogRecord) -> Mapping[str, object]:
    carried: Mapping[str, object] = vars(record).get("carried", _NOTHING)
    return carried


def _text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
