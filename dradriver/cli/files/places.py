"""Line numbers of an object's fields, for messages.

A path has the form that messages use: `spec.devices[0].attributes[model].string`. The `name` of a list item can
replace its index. A path is followed as far as it exists, so a missing field is reported on the line of the
object that lacks it.
"""

import json
import re
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Final

import yaml

from dradriver.cli.files.yaml_text import Broken, compose_yaml, each_document

__all__ = ["FieldPlaces", "json_places", "yaml_places"]

_STEPS: Final = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")
_BETWEEN: Final = ("basic", "exactly")
"""Levels that exist only in some versions of an object."""
_TOKENS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


@dataclass
class FieldPlaces:
    """Line of a value, and the places of the values in it by key or index."""

    first: int
    inside: dict[str, "FieldPlaces"] = field(default_factory=dict)
    names: dict[str, "FieldPlaces"] = field(default_factory=dict)

    def line(self, path: str) -> int:
        """Return the line of the innermost existing part of the path."""
        at = self
        for bracketed, plain in _STEPS.findall(path):
            found = at._step(plain or bracketed.strip("\"'"))
            if found is None:
                break
            at = found
        return at.first

    def _step(self, key: str) -> "FieldPlaces | None":
        here = self.inside.get(key) or self.names.get(key)
        between = (self.inside[level] for level in _BETWEEN if level in self.inside)
        return here or next((found for each in between if (found := each.inside.get(key))), None)


def yaml_places(content: bytes) -> list[FieldPlaces]:
    """Return the places of each non-empty document of a YAML file.

    For a broken document, only a line is known.
    """
    return [
        FieldPlaces(found.mark.line + 1 if found.mark else 1)
        if isinstance(found, Broken)
        else _of_node(found, found.start_mark.line + 1, {})
        for found in each_document(content, compose_yaml)
    ]


def _of_node(node: yaml.Node, line: int, known: dict[int, FieldPlaces]) -> FieldPlaces:
    """Return the places of a node. An alias shares those of its anchor, which may contain the alias itself.

    Args:
        node: the node.
        line: line of the node, or of the key before it.
        known: places of the nodes seen so far, by `id`.
    """
    if (anchor := known.get(id(node))) is not None:
        return FieldPlaces(line, anchor.inside, anchor.names)
    here = known[id(node)] = FieldPlaces(line)
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            here.inside[str(key.value)] = _of_node(value, key.start_mark.line + 1, known)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            inside = here.inside[str(index)] = _of_node(item, item.start_mark.line + 1, known)
            for key, value in item.value if isinstance(item, yaml.MappingNode) else ():
                if key.value == "name":
                    here.names[str(value.value)] = inside
    return here


def json_places(content: bytes) -> list[FieldPlaces]:
    """Return the places of the one object of a well-formed JSON file."""
    ends = [match.start() for match in re.finditer(rb"\n", content)]
    found = (match for match in _TOKENS.finditer(content))
    reader = _Reader()
    for match in found:
        reader.see(match.group(), bisect_right(ends, match.start()) + 1)
    return [reader.root.inside["0"]]


class _Reader:
    """Builds places token by token.

    Its stack is explicit because files can be nested deeper than Python calls.
    """

    def __init__(self) -> None:
        self.root = FieldPlaces(1)
        self._stack = [(self.root, False)]
        self._key, self._key_line = "0", 1
        self._expects_key = False

    def see(self, token: bytes, line: int) -> None:
        """Process one token of well-formed JSON."""
        owner, is_object = self._stack[-1]
        if token in {b"}", b"]"}:
            self._stack.pop()
            self._expects_key = False
        elif token == b",":
            self._expects_key = is_object
            self._key = str(len(owner.inside))
        elif token == b":":
            self._expects_key = False
        elif self._expects_key:
            self._key, self._key_line = json.loads(token), line
        else:
            self._value(token, line, owner, is_object=is_object)

    def _value(self, token: bytes, line: int, owner: FieldPlaces, *, is_object: bool) -> None:
        here = owner.inside[self._key] = FieldPlaces(self._key_line if is_object else line)
        if is_object and self._key == "name" and token.startswith(b'"'):
            self._stack[-2][0].names[json.loads(token)] = owner
        if token in {b"{", b"["}:
            self._stack.append((here, token == b"{"))
            self._expects_key, self._key = token == b"{", "0"
