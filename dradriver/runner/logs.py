"""The log of a driver's process, on stderr, as text for people or as JSON for collectors."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Final

__all__ = ["JsonFormatter", "start_log"]

_OWN: Final = frozenset(vars(logging.makeLogRecord({})))
"""Attributes that every record has; all others were given with `extra=`."""


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, what came with `extra=`, and the traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """The line for one record."""
        fields: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields |= {
            key: value
            for key, value in vars(record).items()
            if key not in _OWN and key not in {"message", "asctime"}
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str, ensure_ascii=False)


def start_log(form: str, level: str) -> None:
    """Sends the process's log to stderr; a library's chatter below WARNING only at level debug."""
    handler = logging.StreamHandler(sys.stderr)
    text = logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    handler.setFormatter(JsonFormatter() if form == "json" else text)
    wanted = getattr(logging, level.upper())
    logging.basicConfig(handlers=[handler], level=max(wanted, logging.WARNING), force=True)
    if wanted == logging.DEBUG:
        logging.getLogger().setLevel(logging.INFO)
    logging.getLogger("dradriver").setLevel(wanted)
