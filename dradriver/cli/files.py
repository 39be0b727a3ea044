"""Documents from files: many in a file, YAML or JSON, each with the place it came from."""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import yaml

from dradriver.errors import InvalidObjectError, NotFoundError, Problem
from dradriver.model.versions import GROUP, VERSIONS, v1_from_older

__all__ = ["Document", "Reading", "read_files"]

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
        errors: files or parts of them that are not YAML or JSON objects.
    """

    documents: list[Document]
    errors: list[InvalidObjectError]


def read_files(names: Sequence[str]) -> Reading:
    """Reads files, folders (their *.yaml, *.yml and *.json) and `-`, the standard input.

    Raises:
        NotFoundError: a file does not exist or can't be opened.
    """
    reading = Reading([], [])
    for file, content in _contents(names):
        try:
            for index, (body, raw, is_json) in enumerate(_split(content), 1):
                reading.documents.extend(_objects(Document(file, index, body, raw, is_json)))
        except _BrokenError as error:
            reading.errors.append(InvalidObjectError(file, [Problem("", str(error))]))
    return reading


def _contents(names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    for name in names:
        if name == STDIN:
            yield "<stdin>", sys.stdin.buffer.read()
            continue
        path = Path(name)
        try:
            files = sorted(p for p in path.iterdir() if p.suffix in SUFFIXES) if path.is_dir() else [path]
            for file in files:
                yield str(file), file.read_bytes()
        except OSError as error:
            raise NotFoundError(f"{error.filename or name}: {error.strerror}") from error


class _BrokenError(Exception):
    """The rest of a file can't be read."""


def _split(content: bytes) -> Iterator[tuple[dict[str, object], bytes, bool]]:
    if content.lstrip()[:1] == b"{":
        try:
            body = msgspec.json.decode(content)
        except (msgspec.DecodeError, RecursionError):
            pass  # a flow mapping, or several documents: YAML says it better
        else:
            yield _mapping(body), content, True
            return
    try:
        for body in yaml.load_all(content, _Loader):
            if body is not None:
                compact = json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
                yield _mapping(msgspec.json.decode(compact)), compact, False
    except yaml.YAMLError as error:
        raise _BrokenError(f"not YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise _BrokenError("nested too deeply") from None
    except (UnicodeDecodeError, TypeError, ValueError) as error:
        raise _BrokenError(f"not YAML of JSON's types: {error}") from None


def _mapping(body: object) -> dict[str, object]:
    if not isinstance(body, dict):
        found = json.dumps(body)[:40]
        raise _BrokenError(f"an object is wanted, found {found}; the rest of the file is not read")
    return body


def _objects(document: Document) -> Iterator[Document]:
    items = document.body.get("items")
    if not (document.kind.endswith("List") and isinstance(items, list)):
        yield document
        return
    raws: list[msgspec.Raw] = msgspec.json.decode(document.raw, type=_RawList).items
    for item, raw in zip(items, raws, strict=True):
        yield Document(document.file, document.index, _mapping(item), bytes(raw), document.is_json)


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
            key = key_node.value
            if key in seen and key != "<<":
                mark = key_node.start_mark
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} is written twice", mark)
            seen.add(key)
        return dict(super().construct_mapping(node, deep))
