"""Line numbers of an object's fields, for messages.

A path has the form that messages use: `spec.devices[0].attributes[model].string`. Instead of its index, a list
item can be identified by its `name`. If a field of the path is missing, the line of the innermost existing
object is used.
"""

import json
import re
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Final

import yaml

from dradriver.cli.files.yaml_text import BrokenDocument, compose_yaml, iter_documents

__all__ = ["FieldLines", "json_field_lines", "yaml_field_lines"]

_STEPS: Final = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")
_OPTIONAL_LEVELS: Final = ("basic", "exactly")
"""Levels that exist only in some versions of an object."""
_TOKENS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


@dataclass
class FieldLines:
    """The line of a value, and the lines of the values that it contains.

    Attributes:
        first: the line, from 1.
        children: the contained values, by key or index.
        names: the items of a list, by their `name`.
    """

    first: int
    children: dict[str, "FieldLines"] = field(default_factory=dict)
    names: dict[str, "FieldLines"] = field(default_factory=dict)

    def line(self, path: str) -> int:
        """Return the line of the innermost existing part of the path."""
        at = self
        for bracketed, plain in _STEPS.findall(path):
            child = at._child(plain or bracketed.strip("\"'"))
            if child is None and plain in _OPTIONAL_LEVELS:
                continue
            if child is None:
                break
            at = child
        return at.first

    def _child(self, key: str) -> "FieldLines | None":
        here = self.children.get(key) or self.names.get(key)
        optional = (self.children[level] for level in _OPTIONAL_LEVELS if level in self.children)
        return here or next((child for each in optional if (child := each.children.get(key))), None)


def yaml_field_lines(content: bytes) -> list[FieldLines]:
    """Return the lines of each non-empty document of a YAML file.

    For a broken document, only its line is known.
    """
    return [
        FieldLines(parsed.mark.line + 1 if parsed.mark else 1)
        if isinstance(parsed, BrokenDocument)
        else _of_node(parsed, parsed.start_mark.line + 1, {})
        for parsed in iter_documents(content, compose_yaml)
    ]


def _of_node(node: yaml.Node, line: int, known: dict[int, FieldLines]) -> FieldLines:
    """Return the lines of a node.

    An alias shares the lines of its anchor. The anchor may contain the alias itself.

    Args:
        node: the node.
        line: line of the node, or of the key before it.
        known: lines of the nodes seen so far, by `id`.
    """
    if (anchor := known.get(id(node))) is not None:
        return FieldLines(line, anchor.children, anchor.names)
    here = known[id(node)] = FieldLines(line)
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            here.children[str(key.value)] = _of_node(value, key.start_mark.line + 1, known)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            children = here.children[str(index)] = _of_node(item, item.start_mark.line + 1, known)
            for key, value in item.value if isinstance(item, yaml.MappingNode) else ():
                if key.value == "name":
                    here.names[str(value.value)] = children
    return here


def json_field_lines(content: bytes) -> list[FieldLines]:
    """Return the lines of the one object of a well-formed JSON file."""
    ends = [match.start() for match in re.finditer(rb"\n", content)]
    reader = _JsonReader()
    for match in _TOKENS.finditer(content):
        reader.read(match.group(), bisect_right(ends, match.start()) + 1)
    return [reader.root.children["0"]]


class _JsonReader:
    """Collects lines token by token.

    The stack is explicit because files can be nested more deeply than Python calls.
    """

    def __init__(self) -> None:
        self.root = FieldLines(1)
        self._stack = [(self.root, False)]
        self._key, self._key_line = "0", 1
        self._expects_key = False

    def read(self, token: bytes, line: int) -> None:
        """Process one token of well-formed JSON."""
        owner, is_object = self._stack[-1]
        if token in {b"}", b"]"}:
            self._stack.pop()
            self._expects_key = False
        elif token == b",":
            self._expects_key = is_object
            self._key = str(len(owner.children))
        elif token == b":":
            self._expects_key = False
        elif self._expects_key:
            self._key, self._key_line = json.loads(token), line
        else:
            self._value(token, line, owner, is_object=is_object)

    def _value(self, token: bytes, line: int, owner: FieldLines, *, is_object: bool) -> None:
        here = owner.children[self._key] = FieldLines(self._key_line if is_object else line)
        if is_object and self._key == "name" and token.startswith(b'"'):
            self._stack[-2][0].names[json.loads(token)] = owner
        if token in {b"{", b"["}:
            self._stack.append((here, token == b"{"))
            self._expects_key, self._key = token == b"{", "0"
