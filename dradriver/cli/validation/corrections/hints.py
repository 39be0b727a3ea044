"""Proposes corrections for frequent errors. Most of these errors occur in the examples of KEPs.

The examples in KEP-4815, KEP-5963 and KEP-5004 are older than the API of Kubernetes 1.37, which rejects many of
them. Each row of the table is one difference between the examples and the API. Field and rule identify the row.
"""

import json
import re
from collections.abc import Callable
from typing import Final, TypeAlias

from dradriver.cli.files import Document
from dradriver.cli.validation.corrections.quantities import nearest_quantities
from dradriver.cli.validation.corrections.spellings import nearest_label, nearest_subdomain, nearest_word
from dradriver.cli.validation.corrections.written_values import written_value
from dradriver.errors import Problem

__all__ = ["hint_for"]

_Hint: TypeAlias = Callable[[Document, re.Match[str], re.Match[str]], str]
"""Returns a hint from the document and the matches in the field's path and in the rule."""

_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_OLDER_LEVELS: Final = ("basic",)
"""Fields of a device that only v1beta1 has."""
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


def _one_of(_document: Document, _path: re.Match[str], rule: re.Match[str]) -> str:
    known = re.findall(r'"([^"]+)"', rule[2])
    nearest = nearest_word(rule[1], known) if rule[1] else ""
    return f"write {nearest}" if nearest else ""


def _operator(_document: Document, _path: re.Match[str], rule: re.Match[str]) -> str:
    nearest = nearest_word(rule[1], _OPERATORS, cutoff=0.99)
    return f"write {nearest}" if nearest else f"one of {', '.join(_OPERATORS)}"


def _label(_document: Document, _path: re.Match[str], rule: re.Match[str]) -> str:
    label = nearest_label(rule[1])
    return f"write {label}" if label else ""


def _subdomain(_document: Document, _path: re.Match[str], rule: re.Match[str]) -> str:
    subdomain = nearest_subdomain(rule[1])
    return f"write {subdomain}" if subdomain else ""


def _closest(_document: Document, _path: re.Match[str], rule: re.Match[str]) -> str:
    return _write_closest(rule[1], rule[2])


def _closest_counter(_document: Document, path: re.Match[str], rule: re.Match[str]) -> str:
    return _write_closest(path[1], rule[1])


def _write_closest(name: str, known: str) -> str:
    nearest = nearest_word(name, known.split(", "))
    return f"write {nearest}" if nearest else ""


def _version(_document: Document, _path: re.Match[str], rule: re.Match[str]) -> str:
    return f"write apiVersion: {rule[1]}"


def _kind(_document: Document, _path: re.Match[str], rule: re.Match[str]) -> str:
    return f"write kind: {rule[1]}"


def _amount(document: Document, path: re.Match[str], _rule: re.Match[str]) -> str:
    value = written_value(document, path[0])
    return _write_amount(value) if isinstance(value, str) else ""


def _amount_in_text(_document: Document, _path: re.Match[str], rule: re.Match[str]) -> str:
    return _write_amount(rule[1])


def _write_amount(text: str) -> str:
    amounts = nearest_quantities(text)
    return f"write {' or '.join(amounts)}" if amounts else ""


def _other_type(document: Document, path: re.Match[str], rule: re.Match[str]) -> str:
    """Return how to write a value of another type, if the text of the value shows what is meant."""
    value, wanted = written_value(document, path[0]), rule[1]
    if isinstance(value, str) and wanted in {"int32", "int64"} and re.fullmatch(r"-?[0-9]+", value):
        return f"write {value} without quotation marks"
    if isinstance(value, str) and wanted == "bool" and value.lower() in {"true", "false"}:
        return f"write {value.lower()} without quotation marks"
    if wanted == "string" and isinstance(value, bool | int | float):
        return f'write "{json.dumps(value).strip()}" with quotation marks'
    if wanted == "string" and isinstance(value, list) and len(value) == 1 and isinstance(value[0], str):
        return f"write {value[0]}"
    return "write a list: each item begins with -" if wanted.startswith("[]") else ""


def _quantity(_document: Document, path: re.Match[str], _rule: re.Match[str]) -> str:
    return f"write the amount in the field value: {path[1]}: {{value: ...}}"


def _inside_exactly(document: Document, path: re.Match[str], _rule: re.Match[str]) -> str:
    if (document.api_version or "").endswith("v1beta1"):
        return ""
    return f"since v1beta2 the field is one level deeper: exactly: {{{path[1]}: ...}}"


def _closest_field(document: Document, path: re.Match[str], _rule: re.Match[str]) -> str:
    from dradriver.cluster.rules import list_known_fields  # noqa: PLC0415 - slow to import

    known = list_known_fields(document.kind, path[0])
    if (document.api_version or "").endswith("v1beta1"):
        known += _OLDER_LEVELS
    nearest = nearest_word(path[0].rpartition(".")[2], known)
    return f"did you mean {nearest}?" if nearest else ""


_REQUEST: Final = r"spec(?:\.spec)?\.devices\.requests\[\d+\]"
_HINTS: Final[tuple[tuple[str, str, _Hint], ...]] = (
    (
        r"spec",
        r"Required value: exactly one of `nodeName`",
        _fixed("a slice with only counter sets needs one too: the same as the slices of the pool's devices"),
    ),
    (r".*\.operator", r'Invalid value: "(\w+)": not a valid selector operator', _operator),
    (r".*\.devices\[\d+\]\.name", r'Invalid value: "([^"]+)": must not contain dots', _label),
    (r".*", r'[^"]*"([^"]+)": a lowercase RFC 1123 label', _label),
    (r".*", r'[^"]*"([^"]+)": a lowercase RFC 1123 subdomain', _subdomain),
    (r".*", r'Unsupported value: "([^"]*)": supported values: (.*)', _one_of),
    (r"apiVersion", r".* (?:one of|must be) ([\w./]+)", _version),
    (r"kind", r".* has no such kind \(similar: (\w+)\)", _kind),
    (r".*", r"quantities must match", _amount),
    (r".*\.expression", r".*quantity\('([^']*)'\) is not a quantity", _amount_in_text),
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
    (r".*", r"cannot unmarshal .* of type ([\w.\[\]]+)$", _other_type),
    (r".*", _NO_FIELD, _closest_field),
)
