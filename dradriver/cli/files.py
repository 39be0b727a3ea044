"""Documents from files: many in a file, YAML or JSON, each with the place it came from."""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
import yaml

from dradriver.errors import InvalidObjectError, NotFoundError, Problem
from dradriver.model.versions import GROUP, VERSIONS, v1_from_older

__all__ = ["Document", "Reading", "UnreadError", "read_files"]

STDIN: Final = "-"
SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})


@dataclass(frozen=True, slots=True)
class Document:
    """One object of a file.

    Attributes:
        file: the file's name as it was given; `<stdin>` for `-`.
        index: its number in the file, from 1.
        body: the decoded object.
        raw: its JSON text as a client would send it: the file's own bytes for JSON, compact for YAML.
        is_json: whether the file holds JSON.
    """

    file: str
    index: int
    body: dict[str, object]
    raw: bytes
    is_json: bool

    @property
    def kind(self) -> str:
        """Its kind, `CDI spec` for what has a `cdiVersion`, empty when it has none."""
        kind = self.body.get("kind")
        return "CDI spec" if "cdiVersion" in self.body else kind if isinstance(kind, str) else ""

    @property
    def name(self) -> str:
        """`metadata.name`, `generateName` followed by `*`, or the kind of a CDI spec."""
        if "cdiVersion" in self.body:
            return str(self.body.get("kind", ""))
        metadata = self.body.get("metadata")
        if not isinstance(metadata, dict):
            return ""
        return str(metadata.get("name") or (f"{prefix}*" if (prefix := metadata.get("generateName")) else ""))

    def as_v1(self) -> bytes:
        """The JSON text; of an older version of `resource.k8s.io`, that of the v1 object that means the same.

        Raises:
            InvalidObjectError: it is not shaped like an object of that version.
        """
        group, _, version = str(self.body.get("apiVersion", "")).partition("/")
        if group != GROUP or version not in VERSIONS or version == VERSIONS[0]:
            return self.raw
        try:
            return v1_from_older(self.kind, self.raw, version)
        except msgspec.DecodeError as error:
            raise InvalidObjectError(self.place, [Problem("", str(error))]) from None

    @property
    def place(self) -> str:
        """`file: document 2 (ResourceSlice node-1-gpu)`."""
        what = " ".join(part for part in (self.kind, self.name) if part)
        return f"{self.file}: document {self.index}" + (f" ({what})" if what else "")


@dataclass(frozen=True, slots=True)
class Reading:
    """What came out of the files.

    Attributes:
        documents: every object, in order; the items of lists one by one.
        errors: files or documents that are not YAML or JSON objects, and names that hold nothing at all.
    """

    documents: list[Document]
    errors: list["UnreadError"]


class UnreadError(InvalidObjectError):
    """A document that can't be read.

    Attributes:
        file, document: where; the document's number is 0 for the whole file.
    """

    def __init__(self, file: str, document: int, rule: str) -> None:
        self.file = file
        self.document = document
        super().__init__(f"{file}: document {document}" if document else file, [Problem("", rule)])


def read_files(names: Sequence[str]) -> Reading:
    """Reads files, folders (their *.yaml, *.yml and *.json) and `-`, the standard input.

    Raises:
        NotFoundError: a file does not exist or can't be opened.
    """
    reading = Reading([], [])
    for name in names:
        before = len(reading.documents) + len(reading.errors)
        for file, content in _contents(name):
            _read(file, content, reading)
        if before == len(reading.documents) + len(reading.errors):
            rule = f"nothing found: no {', '.join(sorted(SUFFIXES))} file with an object, or an empty one"
            reading.errors.append(UnreadError(name, 0, rule))
    return reading


def _read(file: str, content: bytes, reading: Reading) -> None:
    for index, found in enumerate(_split(content), 1):
        if isinstance(found, str):
            reading.errors.append(UnreadError(file, index, found))
            continue
        for each in _objects(Document(file, index, *found)):
            if isinstance(each, Document):
                reading.documents.append(each)
            else:
                reading.errors.append(UnreadError(file, index, each))


def _contents(name: str) -> Iterator[tuple[str, bytes]]:
    if name == STDIN:
        yield "<stdin>", sys.stdin.buffer.read()
        return
    path = Path(name)
    try:
        files = sorted(p for p in path.iterdir() if p.suffix in SUFFIXES) if path.is_dir() else [path]
        for file in files:
            yield str(file), file.read_bytes()
    except OSError as error:
        raise NotFoundError(f"{error.filename or name}: {error.strerror}") from error


_Found: TypeAlias = tuple[dict[str, object], bytes, bool]


def _split(content: bytes) -> Iterator[_Found | str]:
    """Body, JSON text and whether it was JSON of each document; of one that can't be read, why."""
    if content.lstrip()[:1] == b"{":
        try:
            body = msgspec.json.decode(content)
        except (msgspec.DecodeError, RecursionError):
            pass  # a flow mapping, or several documents: YAML says it better
        else:
            yield body, content, True
            return
    start = 0
    while start >= 0:
        # Line numbers in messages are those of the file.
        rest = b"\n" * start + b"".join(content.splitlines(keepends=True)[start:]) if start else content
        try:
            yield from (_converted(body) for body in yaml.load_all(rest, _Loader) if body is not None)
        except _UNREADABLE as error:
            start = _after(content, error, start)
            yield _why_not(error) + ("" if start >= 0 or not _more(error) else _MORE)
        else:
            return


_UNREADABLE: Final = (yaml.YAMLError, RecursionError, ValueError)  # UnicodeDecodeError is a ValueError
_MORE: Final = "; the rest of the file is not read"


def _why_not(error: Exception) -> str:
    if isinstance(error, yaml.YAMLError):
        return f"not YAML: {' '.join(str(error).split())}"
    return "nested too deeply" if isinstance(error, RecursionError) else f"not YAML of JSON's types: {error}"


def _more(error: Exception) -> bool:
    """Whether something may stand behind the error that is not found again."""
    return not isinstance(error, yaml.MarkedYAMLError)


def _after(content: bytes, error: Exception, start: int) -> int:
    """The line on which the document after the broken one begins; -1 when there is none, or none is found."""
    mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
    if mark is None:
        return -1
    lines = content.splitlines()
    for number in range(max(mark.line, start + 1), len(lines)):
        # At the beginning of a line it ends a document whatever stands before it. With more on its line, and
        # the error there too, it is the broken document's own.
        if lines[number].startswith(b"---") and (number > mark.line or lines[number].strip() == b"---"):
            return number
    return -1


def _converted(body: object) -> _Found | str:
    try:
        compact = json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
    except (TypeError, ValueError) as error:
        return f"not YAML of JSON's types: {error}"
    decoded = msgspec.json.decode(compact)
    return (decoded, compact, False) if isinstance(decoded, dict) else _no_object(decoded)


def _no_object(body: object) -> str:
    return f"an object is wanted, found {json.dumps(body)[:40]}"


def _objects(document: Document) -> Iterator[Document | str]:
    items = document.body.get("items")
    if not (document.kind.endswith("List") and isinstance(items, list)):
        yield document
        return
    raws: list[msgspec.Raw] = msgspec.json.decode(document.raw, type=_RawList).items
    for number, (item, raw) in enumerate(zip(items, raws, strict=True)):
        if isinstance(item, dict):
            yield Document(document.file, document.index, item, bytes(raw), document.is_json)
        else:
            yield f"items[{number}]: {_no_object(item)}"


class _RawList(msgspec.Struct):
    items: list[msgspec.Raw] = []


class _Loader(yaml.SafeLoader):
    """YAML with JSON's types only: no dates, and no key twice, which would hide the first."""

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[object, object]:  # noqa: FBT002 - PyYAML's signature
        """A mapping, checked for repeated keys."""
        seen: set[object] = set()
        for key_node, _ in node.value:
            key, mark = key_node.value, key_node.start_mark
            if not isinstance(key_node, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a text", mark)
            if key in seen and key != "<<":
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} is written twice", mark)
            seen.add(key)
        return dict(super().construct_mapping(node, deep))
