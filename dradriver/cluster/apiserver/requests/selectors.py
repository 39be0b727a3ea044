"""Parses label selectors and field selectors into predicates."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dradriver.cluster.apiserver.formats.values import Object, dig
from dradriver.cluster.apiserver.status import bad_request

_REQUIREMENT = re.compile(
    r"^\s*(?:(?P<absent>!)\s*(?P<nokey>[^\s,=!()]+)"
    r"|(?P<key>[^\s,=!()<>]+)\s*(?:(?P<op>==|=|!=)\s*(?P<value>[^\s,=!()]*)"
    r"|\s+(?P<setop>in|notin)\s*\((?P<values>[^)]*)\))?)\s*$"
)
_CLAUSE = re.compile(r"(?:\([^)]*\)?|[^,(])+")
_SPACES = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class LabelRequirement:
    """One clause of a label selector."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether an object's labels satisfy the clause."""
        present = self.key in labels
        if self.operator == "exists":
            return present
        if self.operator == "absent":
            return not present
        if self.operator == "in":
            return present and labels[self.key] in self.values
        return not present or labels[self.key] not in self.values


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    """One clause of a field selector."""

    path: str
    equal: bool
    value: str


def _split_clauses(text: str) -> list[str]:
    # Commas separate clauses, except inside the parentheses of a set.
    return [part for part in _CLAUSE.findall(text) if part.strip()]


def parse_labels(text: str) -> tuple[LabelRequirement, ...]:
    """Parse a label selector.

    Raises:
        StatusError: 400 if the selector is invalid.
    """
    return tuple(_parse_label_clause(clause) for clause in _split_clauses(text))


def _parse_label_clause(clause: str) -> LabelRequirement:
    # Several spaces become one space. Otherwise, the pattern would try every way to split the spaces.
    match = _REQUIREMENT.match(_SPACES.sub(" ", clause))
    if match is None:
        raise bad_request(f"unable to parse requirement: found {clause!r}, expected: identifier")
    if match["absent"]:
        return LabelRequirement(match["nokey"], "absent")
    if match["setop"]:
        values = frozenset(value.strip() for value in match["values"].split(","))
        return LabelRequirement(match["key"], match["setop"], values)
    if match["op"]:
        operator = "notin" if match["op"] == "!=" else "in"
        return LabelRequirement(match["key"], operator, frozenset({match["value"]}))
    return LabelRequirement(match["key"], "exists")


def parse_fields(text: str, supported: Iterable[str], kind: str) -> tuple[FieldRequirement, ...]:
    """Parse a field selector.

    Args:
        text: `metadata.name=a,spec.nodeName!=b`.
        supported: the fields that selectors may use.
        kind: `group/version, Kind=Name`, for the error.

    Raises:
        StatusError: 400 if selectors do not support a field.
    """
    allowed = {"metadata.name", *supported}
    found = []
    for clause in filter(None, text.split(",")):
        path, equal, value = _parse_field_clause(clause)
        if path not in allowed:
            raise bad_request(_describe_unsupported(path, text, allowed, kind))
        found.append(FieldRequirement(path, equal, value))
    return tuple(found)


def _describe_unsupported(path: str, text: str, allowed: set[str], kind: str) -> str:
    if allowed <= {"metadata.name", "metadata.namespace"}:
        return f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"'
    return (
        f'Unable to find "{kind}" that match label selector "", field selector "{text}": '
        f"field label not supported: {path}"
    )


def _parse_field_clause(clause: str) -> tuple[str, bool, str]:
    for operator, equal in (("!=", False), ("==", True), ("=", True)):
        path, found, value = clause.partition(operator)
        if found:
            return path.strip(), equal, value.strip()
    raise bad_request(f"invalid selector: '{clause}'; can't understand '{clause}'")


def _to_text(value: object) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True, slots=True)
class Selection:
    """The selection of a list or watch: namespace ("" for all namespaces), labels and fields."""

    namespace: str = ""
    labels: tuple[LabelRequirement, ...] = ()
    fields: tuple[FieldRequirement, ...] = ()

    def matches(self, obj: Object) -> bool:
        """Return whether an object is selected."""
        metadata = obj["metadata"]
        if self.namespace and metadata.get("namespace", "") != self.namespace:
            return False
        labels = metadata.get("labels") or {}
        if not all(requirement.matches(labels) for requirement in self.labels):
            return False
        return all(
            (_to_text(dig(obj, *each.path.split("."))) == each.value) == each.equal for each in self.fields
        )
