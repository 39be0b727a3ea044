"""Parses a JSONPath template into nodes."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from dradriver.errors import UsageError

__all__ = [
    "Constant",
    "Descend",
    "Every",
    "FieldStep",
    "Filter",
    "Node",
    "Path",
    "Range",
    "Root",
    "Slice",
    "Text",
    "Union",
    "parse_template",
    "relax_expression",
]

_FIELD: Final = re.compile(r"(?:\\.|[^\s\\.\[\]{}()=!<>|,&?@*'\"])+")
_SLICE: Final = re.compile(r"(-?\d*)(?::(-?\d*))?(?::(-?\d*))?")
_NUMBER: Final = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_OPERATOR: Final = re.compile(r"\s*(==|!=|<=|>=|<|>)\s*")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}


@dataclass(frozen=True, slots=True)
class Text:
    """Text outside of braces, or a quoted text inside."""

    text: str


@dataclass(frozen=True, slots=True)
class Root:
    """`$` (the whole object) or `@` (the present value)."""

    whole: bool


@dataclass(frozen=True, slots=True)
class FieldStep:
    """`.name` or `['name']`; an empty name is the value itself."""

    name: str


@dataclass(frozen=True, slots=True)
class Every:
    """`.*` or `[*]`."""


@dataclass(frozen=True, slots=True)
class Descend:
    """`..`: the value and everything in it."""


@dataclass(frozen=True, slots=True)
class Slice:
    """`[start:end:step]`. An index `[i]` has `is_index`."""

    start: int | None
    end: int | None
    step: int | None
    is_index: bool


@dataclass(frozen=True, slots=True)
class Constant:
    """A number, a text or a truth value in a filter."""

    value: object


@dataclass(frozen=True, slots=True)
class Filter:
    """`[?(left operator right)]`; the operator `exists` has no right side."""

    left: "Path"
    operator: str
    right: "Path | None"


@dataclass(frozen=True, slots=True)
class Union:
    """`[a,b]`."""

    parts: "tuple[Path, ...]"


@dataclass(frozen=True, slots=True)
class Path:
    """Nodes that are applied one after the other."""

    nodes: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Range:
    """`{range path}body{end}`."""

    path: Path
    body: "tuple[Node, ...]"


Node: TypeAlias = Text | Root | FieldStep | Every | Descend | Slice | Constant | Filter | Union | Path | Range


def relax_expression(text: str) -> str:
    """Return an expression in braces, as kubectl completes `.metadata.name` and `metadata.name`.

    Args:
        text: an expression with or without braces and leading dot.
    """
    inner = text[1:-1] if text.startswith("{") and text.endswith("}") else text
    return "{" + (inner if inner.startswith((".", "[", "$", "@")) else f".{inner}") + "}"


def parse_template(text: str) -> tuple[Node, ...]:
    """Return the nodes of a template.

    Args:
        text: the template, such as `{.items[*].metadata.name}`.

    Raises:
        UsageError: the template is invalid.
    """
    parser = _Parser(text)
    nodes, ended = parser.template()
    if ended:
        raise UsageError(f"jsonpath {text!r}: {{end}} without {{range}}")
    return nodes


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def template(self) -> tuple[tuple[Node, ...], bool]:
        nodes: list[Node] = []
        while self._at < len(self._text):
            brace = self._text.find("{", self._at)
            plain = self._text[self._at : brace if brace >= 0 else None]
            if plain:
                nodes.append(Text(plain))
            if brace < 0:
                self._at = len(self._text)
                break
            self._at = brace + 1
            for node in self._action():
                if node is None:
                    return tuple(nodes), True
                nodes.append(node)
        return tuple(nodes), False

    def _action(self) -> Iterator[Node | None]:
        """Yield the nodes of one pair of braces. None is `end`."""
        while True:
            self._skip_blanks()
            if self._take("}"):
                return
            if self._at >= len(self._text):
                raise self._error("a brace { is not closed")
            if self._keyword("end"):
                self._skip_blanks()
                self._expect("}")
                yield None
                return
            if self._keyword("range"):
                self._skip_blanks()
                path = self._path()
                self._skip_blanks()
                self._expect("}")
                body, _ = self.template()  # as in kubectl, the end of the template also ends the range
                yield Range(path, body)
                return
            if self._peek() in "'\"":
                yield Text(self._quoted())
            else:
                yield self._path()

    def _path(self) -> Path:  # noqa: C901 - one branch for each token
        nodes: list[Node] = []
        start = self._at
        while self._at < len(self._text):
            if self._take("$"):
                nodes.append(Root(whole=True))
            elif self._take("@"):
                nodes.append(Root(whole=False))
            elif self._take(".."):
                nodes.append(Descend())
                if self._peek() not in ("[", "*"):
                    nodes.append(FieldStep(self._name()))
                elif self._take("*"):
                    nodes.append(Every())
            elif self._take("."):
                nodes.append(Every() if self._take("*") else FieldStep(self._name(optional=True)))
            elif self._take("["):
                nodes.append(self._brackets())
            elif not nodes and _FIELD.match(self._text, self._at):
                nodes.append(FieldStep(self._name()))
            else:
                break
        if self._at == start:
            raise self._error(f"unexpected {self._peek() or 'end'!r}")
        return Path(tuple(nodes))

    def _name(self, *, optional: bool = False) -> str:
        found = _FIELD.match(self._text, self._at)
        if found is None:
            if optional:
                return ""
            raise self._error("a field name is missing")
        self._at = found.end()
        return re.sub(r"\\(.)", r"\1", found[0])

    def _brackets(self) -> Node:
        parts: list[Path] = []
        while True:
            self._skip_blanks()
            parts.append(Path((self._bracket_part(),)))
            self._skip_blanks()
            if self._take("]"):
                break
            self._expect(",")
        return parts[0].nodes[0] if len(parts) == 1 else Union(tuple(parts))

    def _bracket_part(self) -> Node:
        if self._take("*"):
            return Every()
        if self._take("?("):
            node = self._filter()
            self._skip_blanks()
            self._expect(")")
            return node
        if self._peek() in ("'", '"'):
            return FieldStep(self._quoted())
        if (found := _SLICE.match(self._text, self._at)) and found[0]:
            self._at = found.end()
            start, end, step = (int(each) if each not in {None, "", "-"} else None for each in found.groups())
            return Slice(start, end, step, is_index=":" not in found[0])
        return self._path()

    def _filter(self) -> Filter:
        self._skip_blanks()
        left = self._operand()
        operator = _OPERATOR.match(self._text, self._at)
        if operator is None:
            return Filter(left, "exists", None)
        self._at = operator.end()
        return Filter(left, operator[1], self._operand())

    def _operand(self) -> Path:
        if self._peek() in ("'", '"'):
            return Path((Constant(self._quoted()),))
        if found := _NUMBER.match(self._text, self._at):
            self._at = found.end()
            value = float(found[0]) if set(found[0]) & set(".eE") else int(found[0])
            return Path((Constant(value),))
        for word, value in (("true", True), ("false", False)):
            if self._keyword(word):
                return Path((Constant(value),))
        return self._path()

    def _quoted(self) -> str:
        quote = self._text[self._at]
        parts: list[str] = []
        self._at += 1
        while self._at < len(self._text):
            character = self._text[self._at]
            self._at += 1
            if character == quote:
                return "".join(parts)
            if character == "\\" and self._at < len(self._text):
                escaped = self._text[self._at]
                self._at += 1
                parts.append(_ESCAPES.get(escaped, escaped))
            else:
                parts.append(character)
        raise self._error("a quoted text is not closed")

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, token: str) -> bool:
        found = self._text.startswith(token, self._at)
        self._at += len(token) if found else 0
        return found

    def _keyword(self, word: str) -> bool:
        following = self._text[self._at + len(word) : self._at + len(word) + 1]
        if not self._text.startswith(word, self._at) or (
            following and (following.isalnum() or following in "._[")
        ):
            return False
        self._at += len(word)
        return True

    def _skip_blanks(self) -> None:
        while self._peek().isspace():
            self._at += 1

    def _expect(self, token: str) -> None:
        if not self._take(token):
            raise self._error(f"expected {token!r}, found {self._peek() or 'end'!r}")

    def _error(self, problem: str) -> UsageError:
        return UsageError(f"jsonpath {self._text!r}, character {self._at + 1}: {problem}")
