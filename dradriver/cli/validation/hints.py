"""Proposed corrections for frequent errors, most of which come from the examples in KEPs.

The examples in KEP-4815, KEP-5963 and KEP-5004 are older than the API of Kubernetes 1.37, which rejects many of
them. Each row of the table covers one such difference by field and rule.
"""

import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import Final, TypeAlias

from dradriver.cli.files import Document
from dradriver.errors import Problem

__all__ = ["hint_for"]

_Hint: TypeAlias = Callable[[Document, re.Match[str], re.Match[str]], str]
"""Returns a hint from the document and the matches in the field's path and in the rule."""

_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_NO_FIELD: Final = r".* has no such field"


def hint_for(document: Document, problem: Problem) -> str:
    """Return a proposed correction; empty if there is none."""
    for path, rule, hint in _HINTS:
        where, what = re.fullmatch(path, problem.path), re.match(rule, problem.rule, re.DOTALL)
        if where and what and (said := hint(document, where, what)):
            return said
    return ""


def _plain(text: str) -> _Hint:
    return lambda _document, _path, _rule: text


def _operator(_document: Document, _path: re.Match[str], rule: re.Match[str]) -> str:
    right = next((each for each in _OPERATORS if each.lower() == rule[1].lower()), None)
    return f"write {right}" if right else f"one of {', '.join(_OPERATORS)}"


def _label(_document: Document, _path: re.Match[str], rule: re.Match[str]) -> str:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Za-z])(?=\d+$)", "-", rule[1])
    label = re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")
    return f"write {label}" if label and label != rule[1] else ""


def _closest(_document: Document, _path: re.Match[str], rule: re.Match[str]) -> str:
    return _like(rule[1], rule[2])


def _closest_counter(_document: Document, path: re.Match[str], rule: re.Match[str]) -> str:
    return _like(path[1], rule[1])


def _like(name: str, known: str) -> str:
    found = get_close_matches(name, known.split(", "), n=1)
    return f"write {found[0]}" if found else ""


def _quantity(_document: Document, path: re.Match[str], _rule: re.Match[str]) -> str:
    return f"the amount stands in `value`: {path[1]}: {{value: ...}}"


def _inside_exactly(document: Document, path: re.Match[str], _rule: re.Match[str]) -> str:
    if (document.api_version or "").endswith("v1beta1"):
        return ""
    return f"since v1beta2 it stands one level deeper: exactly: {{{path[1]}: ...}}"


def _misspelt(document: Document, path: re.Match[str], _rule: re.Match[str]) -> str:
    from dradriver.cluster.rules import known_fields  # noqa: PLC0415 - slow to import

    known = known_fields(document.kind, path[0])
    found = get_close_matches(path[0].rpartition(".")[2], known, n=1)
    return f"did you mean {found[0]}?" if found else ""


_REQUEST: Final = r"spec(?:\.spec)?\.devices\.requests\[\d+\]"
_HINTS: Final[tuple[tuple[str, str, _Hint], ...]] = (
    (
        r"spec",
        r"Required value: exactly one of `nodeName`",
        _plain("a slice that holds counter sets only needs one too: the same as the slices of its devices"),
    ),
    (r".*\.operator", r'Invalid value: "(\w+)": not a valid selector operator', _operator),
    (r".*\.devices\[\d+\]\.name", r'Invalid value: "([^"]+)": must not contain dots', _label),
    (
        r".*(?:counters|sharedCounters|counterSet|compatibilityGroups|name).*",
        r'[^"]*"([^"]+)": a lowercase RFC 1123 label',
        _label,
    ),
    (r".*", r".*the pool has no counter set '([^']*)' \(it has: (.*)\)", _closest),
    (r".*\.counters\[(.*)\]", r".*counter set '[^']*' has no such counter \(it has: (.*)\)", _closest_counter),
    (
        r".*(?:capacity|counters)\.([^.]+)",
        r"cannot unmarshal .* of type v1\.(?:DeviceCapacity|Counter)",
        _quantity,
    ),
    (
        r".*\.devices\[\d+\]\.basic",
        _NO_FIELD,
        _plain("that was v1beta1: since v1beta2 its fields stand in the device itself"),
    ),
    (
        rf"{_REQUEST}\.(deviceClassName|selectors|allocationMode|count|adminAccess|tolerations|capacity)",
        _NO_FIELD,
        _inside_exactly,
    ),
    (
        r"spec\.spec",
        r"ResourceClaim " + _NO_FIELD,
        _plain("a ResourceClaimTemplate has spec.spec; what a ResourceClaim wants stands in spec.devices"),
    ),
    (
        r"spec\.devices",
        r"ResourceClaimTemplate " + _NO_FIELD,
        _plain("what the claims of a template want stands in spec.spec.devices"),
    ),
    (r".*", _NO_FIELD, _misspelt),
)
