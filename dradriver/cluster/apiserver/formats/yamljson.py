"""Converts YAML to JSON within limits, because a few hundred bytes of YAML can expand to gigabytes of JSON.

libyaml reads the document as a stream of events, so depth and size are known before a value is built. No
function of this module calls itself, so a document that is deeply nested or contains itself cannot exhaust the
stack.
"""

import math
from dataclasses import dataclass, field
from typing import Final

import yaml
from yaml.constructor import ConstructorError, SafeConstructor
from yaml.resolver import Resolver

from dradriver.cluster.apiserver.formats import gojson
from dradriver.cluster.apiserver.formats.values import MAX_DEPTH, JsonValue, Object

__all__ = ["TooLargeError", "YamlError", "to_json"]

_TAG: Final = "tag:yaml.org,2002:"
_INT64: Final = 1 << 63
_UINT64: Final = 1 << 64


class YamlError(ValueError):
    """The text is not YAML, or has no equivalent in JSON. The message is the message of Go's library."""


class TooLargeError(ValueError):
    """The JSON would exceed the size limit of a request."""


def to_json(document: bytes, max_bytes: int) -> bytes:
    """Return the JSON of one YAML document. Blocks for up to a second for each MiB.

    Args:
        document: the YAML text.
        max_bytes: the maximum size of the JSON in bytes.

    Raises:
        YamlError: the document can't be read.
        TooLargeError: the JSON would have more than `max_bytes` bytes.
    """
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    reader = _Reader(max_bytes)
    try:
        for event in yaml.parse(document, loader):
            reader.read_event(event)
    except yaml.YAMLError as error:
        raise YamlError(str(error)) from error
    return gojson.encode(reader.document).encode()


class _Scalars(Resolver, SafeConstructor):
    """Scalars as Go's reader of YAML 1.1 interprets them: dates are strings, `y` and `n` are booleans."""

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in {f"{_TAG}timestamp", f"{_TAG}value"}]
        for first, resolvers in Resolver.yaml_implicit_resolvers.items()
    }

    def __init__(self) -> None:
        Resolver.__init__(self)
        SafeConstructor.__init__(self)

    def parse(self, event: yaml.ScalarEvent) -> JsonValue:
        """Return the value of a scalar; `_MERGE` for the merge key `<<`."""
        text = str(event.value)
        tag = event.tag
        if tag is None or tag == "!":
            if event.implicit[0] and text in _LETTERS:
                return _LETTERS[text]
            tag = self.resolve(yaml.ScalarNode, text, event.implicit)  # type: ignore[no-untyped-call]
        kind = tag.removeprefix(_TAG)
        if kind in {"str", "timestamp"}:
            return text
        if kind == "merge":
            return _MERGE
        if kind == "null":
            return None
        if kind in {"int", "float"}:
            return self._parse_number(kind, yaml.ScalarNode(tag, text))
        if kind in {"bool", "binary"}:
            return self._parse_other(kind, yaml.ScalarNode(tag, text))
        raise YamlError(f"could not determine a constructor for the tag {tag!r}")

    def _parse_other(self, kind: str, node: yaml.ScalarNode) -> JsonValue:
        try:
            if kind == "bool":
                return self.construct_yaml_bool(node)
            return self.construct_yaml_binary(node).decode(errors="replace")
        except (ConstructorError, KeyError) as error:
            raise YamlError(f"cannot decode {kind} {node.value[:40]!r}") from error

    def _parse_number(self, kind: str, node: yaml.ScalarNode) -> JsonValue:
        # If a whole number is too large for an integer, Go reads it as a float. If it is too large for a float,
        # Go reads it as a string. Go does not support numbers to the base of 60.
        text = str(node.value)
        if ":" in text:
            return text
        try:
            number: float = self.construct_yaml_int(node) if kind == "int" else self.construct_yaml_float(node)
            if isinstance(number, int) and not -_INT64 <= number < _UINT64:
                number = float(number)
        except (ValueError, OverflowError):
            return text
        if math.isfinite(number):
            return number
        if text.lstrip("+-").lower() in {".inf", ".nan"}:
            raise YamlError(f"json: unsupported value: {text}")
        return text


_MERGE: Final = object()
_LETTERS: Final = {"y": True, "Y": True, "n": False, "N": False}


@dataclass(slots=True)
class _Anchor:
    """A value with an anchor: the number of values in it, its size in bytes and its height (0 for a scalar).

    While the value is still being read, `complete` is False and the other fields are unset.
    """

    value: JsonValue = None
    count: int = 0
    size: int = 0
    height: int = 0
    complete: bool = False


@dataclass(slots=True)
class _OpenCollection:
    """A list or map that is being read."""

    value: list[JsonValue] | Object
    anchor: str | None
    count: int
    size: int
    height: int = 0
    key: object = None
    has_key: bool = False
    merged: list[Object] = field(default_factory=list)


class _Reader:
    """Processes the events of one document.

    Attributes:
        document: the value of the document, after all its events.
    """

    def __init__(self, max_bytes: int) -> None:
        self.document: JsonValue = None
        self._max_bytes = max_bytes
        self._scalars = _Scalars()
        self._open_collections: list[_OpenCollection] = []
        self._anchors: dict[str, _Anchor] = {}
        self._documents = 0
        self._count = 0
        self._aliased = 0
        self._size = 0

    def read_event(self, event: yaml.Event) -> None:
        """Process the next event of the stream."""
        if isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                raise YamlError("expected a single document in the stream")
        elif isinstance(event, yaml.ScalarEvent):
            self._read_scalar(event)
        elif isinstance(event, yaml.AliasEvent):
            self._read_alias(event.anchor)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._start(event)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._end()

    def _grow(self, count: int, size: int) -> None:
        self._count += count
        self._size += size
        if self._size > self._max_bytes:
            raise TooLargeError

    def _read_scalar(self, event: yaml.ScalarEvent) -> None:
        value = self._scalars.parse(event)
        size = len(event.value) + 1
        self._grow(1, size)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchor(value, 1, size, 0, complete=True)
        self._add(value, 0)

    def _read_alias(self, name: str | None) -> None:
        found = self._anchors.get(name or "")
        if found is None:
            raise YamlError(f"unknown anchor '{name}' referenced")
        if not found.complete:
            raise YamlError(f"anchor '{name}' value contains itself")
        self._aliased += found.count
        self._grow(found.count, found.size)
        if (
            self._aliased > 100
            and self._count > 1000
            and self._aliased > _alias_ratio_limit(self._count) * self._count
        ):
            raise YamlError("document contains excessive aliasing")
        if len(self._open_collections) + found.height > MAX_DEPTH:
            raise YamlError(f"exceeded max depth of {MAX_DEPTH}")
        self._add(found.value, found.height)

    def _start(self, event: yaml.CollectionStartEvent) -> None:
        if len(self._open_collections) >= MAX_DEPTH:
            raise YamlError(f"exceeded max depth of {MAX_DEPTH}")
        above = self._open_collections[-1] if self._open_collections else None
        if above is not None and isinstance(above.value, dict) and not above.has_key:
            raise YamlError("unsupported map key: a key must be a scalar")
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchor()
        value: list[JsonValue] | Object = [] if isinstance(event, yaml.SequenceStartEvent) else {}
        self._open_collections.append(_OpenCollection(value, event.anchor, self._count, self._size))
        self._grow(1, 2)

    def _end(self) -> None:
        done = self._open_collections.pop()
        if isinstance(done.value, dict):
            for merged in done.merged:
                for key, value in merged.items():
                    done.value.setdefault(key, value)
        if done.anchor is not None:
            count, size = self._count - done.count, self._size - done.size
            self._anchors[done.anchor] = _Anchor(done.value, count, size, done.height + 1, complete=True)
        self._add(done.value, done.height + 1)

    def _add(self, value: JsonValue, height: int) -> None:
        """Add a complete value to its container."""
        if not self._open_collections:
            if value is _MERGE:
                value = "<<"
            self.document = value
            return
        parent = self._open_collections[-1]
        parent.height = max(parent.height, height)
        if isinstance(parent.value, list):
            parent.value.append("<<" if value is _MERGE else value)
        elif not parent.has_key:
            parent.key, parent.has_key = value if value is _MERGE else _to_key(value), True
        else:
            parent.has_key = False
            if parent.key is _MERGE:
                parent.merged += _to_maps(value)
            else:
                parent.value[str(parent.key)] = "<<" if value is _MERGE else value


def _to_key(value: JsonValue) -> str:
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, (list, dict)):
        raise YamlError(f"unsupported map key: {value!r}")
    return gojson.encode(value)


def _to_maps(value: JsonValue) -> list[Object]:
    listed = value if isinstance(value, list) else [value]
    if not all(isinstance(each, dict) for each in listed):
        raise YamlError("map merge requires map or sequence of maps as the value")
    return listed


def _alias_ratio_limit(count: int) -> float:
    """Return the maximum share of a document's values that may come from aliases.

    As in Go's library, this limit is lower for large documents.
    """
    low, high = 400_000, 4_000_000
    if count <= low:
        return 0.99
    return 0.10 if count >= high else 0.99 - 0.89 * (count - low) / (high - low)
