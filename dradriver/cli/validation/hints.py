"""Proposes corrections for frequent errors. Most of these errors occur in the examples of KEPs.

The examples in KEP-4815, KEP-5963 and KEP-5004 are older than the API of Kubernetes 1.37, which rejects many of
them. Each row of the table is one difference between the examples and the API. Field and rule identify the row.
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
    """Return a proposed correction; empty if no correction is known.

    Args:
        document: the object.
        problem: a violated rule.
    """
    for path, rule, hint in _HINTS:
        where, what = re.fullmatch(path, problem.path), re.match(rule, problem.rule, re.DOTALL)
        if where and what and (hint_text := hint(document, where, what)):
            return hint_text
    return ""


def _fixed(text: str) -> _Hint:
    return lambda _document, _path, _rule: text


def _operator(_document: Document, _path: re.Match[str], rule: re.Match[str]) -> str:
    correct = next((each for each in _OPERATORS if each.lower() == rule[1].lower()), None)
    return f"write {correct}" if correct else f"one of {', '.join(_OPERATORS)}"


def _label(_document: Document, _path: re.Match[str], rule: re.Match[str]) -> str:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Za-z])(?=\d+$)", "-", rule[1])
    label = re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")
    return f"write {label}" if label and label != rule[1] else ""


def _closest(_document: Document, _path: re.Match[str], rule: re.Match[str]) -> str:
    return _write_closest(rule[1], rule[2])


def _closest_counter(_document: Document, path: re.Match[str], rule: re.Match[str]) -> str:
    return _write_closest(path[1], rule[1])


def _write_closest(name: str, known: str) -> str:
    similar = get_close_matches(name, known.split(", "), n=1)
    return f"write {similar[0]}" if similar else ""


def _quantity(_document: Document, path: re.Match[str], _rule: re.Match[str]) -> str:
    return f"write the amount in the field value: {path[1]}: {{value: ...}}"


def _inside_exactly(document: Document, path: re.Match[str], _rule: re.Match[str]) -> str:
    if (document.api_version or "").endswith("v1beta1"):
        return ""
    return f"since v1beta2 the field is one level deeper: exactly: {{{path[1]}: ...}}"


def _closest_field(document: Document, path: re.Match[str], _rule: re.Match[str]) -> str:
    from dradriver.cluster.rules import list_known_fields  # noqa: PLC0415 - slow to import

    known = list_known_fields(document.kind, path[0])
    similar = get_close_matches(path[0].rpartition(".")[2], known, n=1)
    return f"did you mean {similar[0]}?" if similar else ""


_REQUEST: Final = r"spec(?:\.spec)?\.devices\.requests\[\d+\]"
_HINTS: Final[tuple[tuple[str, str, _Hint], ...]] = (
    (
        r"spec",
        r"Required value: exactly one of `nodeName`",
        _fixed("a slice with only counter sets needs one too: the same as the slices of the pool's devices"),
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
        _fixed("only v1beta1 has it: since v1beta2 its fields are directly in the device"),
    ),
    (
        rf"{_REQUEST}\.(deviceClassName|selectors|allocationMode|count|adminAccess|tolerations|capacity)",
        _NO_FIELD,
        _inside_exactly,
    ),
    (
        r"spec\.spec",
        r"ResourceClaim " + _NO_FIELD,
        _fixed("only a ResourceClaimTemplate has spec.spec; a ResourceClaim has spec.devices"),
    ),
    (
        r"spec\.devices",
        r"ResourceClaimTemplate " + _NO_FIELD,
        _fixed("the requests of a ResourceClaimTemplate are in spec.spec.devices"),
    ),
    (r".*", _NO_FIELD, _closest_field),
)
