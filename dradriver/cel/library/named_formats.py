"""Kubernetes' named formats: `format.dns1123Label().validate(text)`.

Source: k8s.io/apiserver library.Format.
"""

import re
from collections.abc import Callable
from typing import Final

from dradriver.cel.compile.functions import Overload, function, method
from dradriver.cel.evaluate.cost import pattern_cost
from dradriver.cel.evaluate.errors import excerpt, succeeds
from dradriver.cel.evaluate.values import NONE, Opaque, Optional, size_of
from dradriver.cel.library.url import check_url

__all__ = ["OVERLOADS"]

_Check = Callable[[str], bool]

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LABEL_1035: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_UUID: Final = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_DATE: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_DATE_TIME: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(\.[0-9]+)?([Zz]|[+-][0-9]{2}:?[0-9]{2})"
)
_DAYS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class _Format(Opaque):
    __slots__ = ("accepts", "pattern_size")

    cel_type = "kubernetes.NamedFormat"
    hashable = False

    def __init__(self, name: str, accepts: _Check, pattern_size: int) -> None:
        super().__init__(name)
        self.accepts = accepts
        self.pattern_size = pattern_size


def _matcher(pattern: "re.Pattern[str]", max_length: int) -> _Check:
    return lambda text: len(text.encode()) <= max_length and pattern.fullmatch(text) is not None


def _prefix_check(accepts: _Check) -> _Check:
    """Return the check for a prefix of a name. A prefix may end in a dash."""
    return lambda text: accepts(text[:-2] + "a" if len(text) > 1 and text.endswith("-") else text)


def _qualified_name(text: str) -> bool:
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix or (slash and not _subdomain(prefix)):
        return False
    return _label_name(name)


def _is_date(match: "re.Match[str] | None") -> bool:
    if match is None:
        return False
    year, month, day = int(match[1]), int(match[2]), int(match[3])
    leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 1 <= month <= 12 and 1 <= day <= _DAYS[month - 1] + leap


def _date(text: str) -> bool:
    return _is_date(_DATE.fullmatch(text))


def _date_time(text: str) -> bool:
    match = _DATE_TIME.fullmatch(text)
    return (
        _is_date(match)
        and match is not None
        and int(match[4]) < 24
        and int(match[5]) < 60
        and int(match[6]) < 60
    )


_subdomain: Final = _matcher(_SUBDOMAIN, 253)
_label_name: Final = _matcher(_NAME, 63)

_FORMATS: Final = {
    name: _Format(name, accepts, size)
    for name, accepts, size in (
        ("dns1123Label", _matcher(_LABEL, 63), 30),
        ("dns1123Subdomain", _subdomain, 60),
        ("dns1035Label", _matcher(_LABEL_1035, 63), 30),
        ("qualifiedName", _qualified_name, 60),
        ("dns1123LabelPrefix", _prefix_check(_matcher(_LABEL, 63)), 30),
        ("dns1123SubdomainPrefix", _prefix_check(_subdomain), 60),
        ("dns1035LabelPrefix", _prefix_check(_matcher(_LABEL_1035, 63)), 30),
        ("labelValue", lambda text: not text or _label_name(text), 40),
        ("uri", lambda text: succeeds(check_url, text), 1104),
        ("uuid", lambda text: _UUID.fullmatch(text) is not None, 72),
        ("byte", lambda text: bool(text) and _BASE64.fullmatch(text) is not None, 84),
        ("date", _date, 72),
        ("datetime", _date_time, 72),
    )
}
"""The formats by name. The length of a pattern determines the cost of checking its format."""


def _validate(wanted: _Format, text: str) -> Optional:
    return NONE if wanted.accepts(text) else Optional.of((f"{excerpt(text)} is not a {wanted.identity}",))


def _validate_work(args: list[object]) -> int:
    return 40 + size_of(args[1])


def _validate_cost(args: list[object], result: object) -> int:  # noqa: ARG001
    wanted = args[0]
    return pattern_cost(size_of(args[1]), wanted.pattern_size) if isinstance(wanted, _Format) else 1


def _find_format(name: str) -> Optional:
    return Optional.of(_FORMATS[name]) if name in _FORMATS else NONE


def _always(format_: _Format) -> Callable[[], _Format]:
    return lambda: format_


OVERLOADS: Final[tuple[Overload, ...]] = (
    method("validate(format, string): optional(list(string))", _validate, _validate_cost, work=_validate_work),
    function("format.named(string): optional(format)", _find_format),
    *(function(f"format.{name}(): format", _always(format_)) for name, format_ in _FORMATS.items()),
)
"""All functions of this module; `compile.environment` collects them."""
