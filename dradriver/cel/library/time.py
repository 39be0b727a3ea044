"""Timestamps and durations. Functions that return a part of a timestamp use UTC if no time zone is given.

Named time zones are read from the database of the platform with `zoneinfo`.
"""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from dradriver.cel.compile.functions import Overload, function, method
from dradriver.cel.evaluate.digits import parse_digits
from dradriver.cel.evaluate.errors import ErrorValue, excerpt
from dradriver.cel.evaluate.steps import first_work, fixed_work
from dradriver.cel.evaluate.values import Duration, Timestamp, size_of

__all__ = ["OVERLOADS", "checked_duration", "duration_text", "timestamp_text"]

_SECOND: Final = 10**9
_UNITS: Final = {
    "ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3,
    "ms": 10**6, "s": _SECOND, "m": 60 * _SECOND, "h": 3600 * _SECOND,
}  # fmt: skip
_PART: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)")
_MOMENT: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(?:(Z)|([+-])(\d\d):(\d\d))", re.ASCII
)
_OFFSET: Final = re.compile(r"([+-]?[0-9]+):([+-]?[0-9]+)")
_EARLIEST: Final = -62135596800
_LATEST: Final = 253402300799
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


_CALENDAR: Final = fixed_work(30)
_MAX_ZONE_LENGTH: Final = 255
_NAMED_ZONE: Final = 1_000
"""Steps of finding a time zone by its name. They are many, because the database file must be read."""


def _zone_work(args: list[object]) -> int:
    zone = args[1]
    return 60 if not isinstance(zone, str) or ":" in zone[:8] or zone in {"", "UTC"} else _NAMED_ZONE


def _duration_work(args: list[object]) -> int:
    """Return the steps of reading a duration.

    The text has at most one unit for every two characters, and each unit is parsed separately.
    """
    return 30 + 3 * size_of(args[0])


def checked_duration(nanos: int) -> Duration:
    """Return a duration of `nanos`.

    Raises:
        ErrorValue: the duration does not fit 64 bits.
    """
    if -(2**63) <= nanos < 2**63:
        return Duration(nanos)
    raise ErrorValue("duration overflow")


def _checked_timestamp(nanos: int, offset: int = 0) -> Timestamp:
    if _EARLIEST <= nanos // _SECOND <= _LATEST:
        return Timestamp(nanos, offset)
    raise ErrorValue("timestamp overflow: it must lie in the years 1 to 9999")


def _duration(text: str) -> Duration:
    sign, body = (
        (-1 if text[:1] == "-" else 1),
        text.removeprefix("-") if text[:1] == "-" else text.removeprefix("+"),
    )
    if body == "0":
        return Duration(0)
    total = position = 0
    while position < len(body):
        part = _PART.match(body, position)
        if part is None or not (part[1] or part[2]):
            break
        unit, fraction = _UNITS[part[3]], part[2] or ""
        total += parse_digits(part[1] or "0") * unit + parse_digits(fraction or "0") * unit // 10 ** len(
            fraction
        )
        position = part.end()
    if not body or position < len(body):
        raise ErrorValue(f"{excerpt(text)} is not a duration", "write it like 1h30m or 1.5s")
    return checked_duration(sign * total)


def _timestamp(text: str) -> Timestamp:
    match = _MOMENT.fullmatch(text)
    if match is None:
        raise ErrorValue(f"{excerpt(text)} is not a timestamp", "write it like 2030-01-31T10:00:00Z")
    offset = 0 if match[8] else (int(match[10]) * 3600 + int(match[11]) * 60) * (-1 if match[9] == "-" else 1)
    if match[8] is None and (int(match[10]) > 24 or int(match[11]) > 60):
        raise ErrorValue(f"{excerpt(text)} is not a timestamp", "no such zone")
    try:
        moment = datetime(*map(int, match.groups()[:6]), tzinfo=UTC)  # type: ignore[misc,arg-type]
    except ValueError as error:
        raise ErrorValue(f"{excerpt(text)} is not a timestamp", "no such day or time") from error
    seconds = (moment - _EPOCH) // timedelta(seconds=1) - offset
    fraction = int((match[7] or "").ljust(9, "0")[:9])
    return _checked_timestamp(seconds * _SECOND + fraction, offset)


def timestamp_text(moment: Timestamp) -> str:
    """Return the timestamp in RFC 3339, in the time zone of the original text."""
    seconds, fraction = divmod(moment.nanos, _SECOND)
    local = _EPOCH + timedelta(seconds=seconds + moment.offset)
    digits = f".{fraction:09d}".rstrip("0") if fraction else ""
    return f"{local:%Y-%m-%dT%H:%M:%S}".rjust(19, "0") + digits + _zone_text(moment.offset)


def _zone_text(offset: int) -> str:
    if not offset:
        return "Z"
    minutes = abs(offset) // 60
    return f"{'-' if offset < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"


def duration_text(duration: Duration) -> str:
    """Return the duration in seconds, as text: `5400s`."""
    seconds = duration.nanos / _SECOND
    text = f"{seconds:.9f}".rstrip("0").rstrip(".")
    return f"{text}s"


@lru_cache(maxsize=64)
def _zone(name: str) -> tzinfo:
    if len(name) > _MAX_ZONE_LENGTH:
        raise ErrorValue(f"unknown time zone {excerpt(name)}")
    if ":" in name:
        match = _OFFSET.fullmatch(name)
        if match is None or not 0 <= parse_digits(match[2]) <= 59:
            raise ErrorValue(f"{excerpt(name)} is not an offset from UTC")
        hours, minutes = parse_digits(match[1]), parse_digits(match[2])
        offset = hours * 60 - minutes if name[0] == "-" else hours * 60 + minutes
        if abs(offset) >= 24 * 60:
            raise ErrorValue(f"{excerpt(name)} is not an offset from UTC")
        return timezone(timedelta(minutes=offset))
    if name in {"", "UTC"}:
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ErrorValue(f"unknown time zone {excerpt(name)}") from error


def _local(moment: Timestamp, zone: str) -> datetime:
    try:
        return (_EPOCH + timedelta(seconds=moment.nanos // _SECOND)).astimezone(_zone(zone))
    except OverflowError as error:
        raise ErrorValue("in that zone the timestamp is not in the years 1 to 9999") from error


def _getters(name: str, part: Callable[[datetime], int]) -> tuple[Overload, Overload]:
    return (
        method(f"{name}(timestamp): int", lambda moment: part(_local(moment, "")), work=_CALENDAR),
        method(
            f"{name}(timestamp, string): int", lambda moment, zone: part(_local(moment, zone)), work=_zone_work
        ),
    )


def _milliseconds(moment: Timestamp, zone: str = "") -> int:
    _zone(zone)
    return moment.nanos % _SECOND // 10**6


def _truncate_to(unit: int) -> Callable[[Duration], int]:
    return lambda duration: abs(duration.nanos) // unit * (-1 if duration.nanos < 0 else 1)


def _add(moment: Timestamp, nanos: int) -> Timestamp:
    return _checked_timestamp(moment.nanos + nanos, moment.offset)


_PARTS: Final = (
    ("getFullYear", lambda moment: moment.year),
    ("getMonth", lambda moment: moment.month - 1),
    ("getDayOfYear", lambda moment: (moment.date() - date(moment.year, 1, 1)).days),
    ("getDayOfMonth", lambda moment: moment.day - 1),
    ("getDate", lambda moment: moment.day),
    ("getDayOfWeek", lambda moment: moment.isoweekday() % 7),
    ("getHours", lambda moment: moment.hour),
    ("getMinutes", lambda moment: moment.minute),
    ("getSeconds", lambda moment: moment.second),
)

OVERLOADS: Final[tuple[Overload, ...]] = (
    function("timestamp(timestamp): timestamp", lambda moment: moment),
    function("timestamp(int): timestamp", lambda seconds: _checked_timestamp(seconds * _SECOND)),
    function("timestamp(string): timestamp", _timestamp, work=first_work(4, base=40)),
    function("duration(duration): duration", lambda duration: duration),
    function("duration(string): duration", _duration, work=_duration_work),
    function("string(timestamp): string", timestamp_text, work=_CALENDAR),
    function("string(duration): string", duration_text, work=_CALENDAR),
    function("_+_(duration, duration): duration", lambda a, b: checked_duration(a.nanos + b.nanos)),
    function("_+_(duration, timestamp): timestamp", lambda a, b: _add(b, a.nanos)),
    function("_+_(timestamp, duration): timestamp", lambda a, b: _add(a, b.nanos)),
    function("_-_(duration, duration): duration", lambda a, b: checked_duration(a.nanos - b.nanos)),
    function("_-_(timestamp, duration): timestamp", lambda a, b: _add(a, -b.nanos)),
    function("_-_(timestamp, timestamp): duration", lambda a, b: checked_duration(a.nanos - b.nanos)),
    *(overload for name, part in _PARTS for overload in _getters(name, part)),
    method("getMilliseconds(timestamp): int", _milliseconds),
    method("getMilliseconds(timestamp, string): int", _milliseconds, work=_zone_work),
    method("getHours(duration): int", _truncate_to(3600 * _SECOND)),
    method("getMinutes(duration): int", _truncate_to(60 * _SECOND)),
    method("getSeconds(duration): int", _truncate_to(_SECOND)),
    method("getMilliseconds(duration): int", _truncate_to(10**6)),
)
"""All functions of this module; `compile.environment` collects them."""
