"""Turns files into documents."""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import yaml

from dradriver.cli.files.documents import Document, Source
from dradriver.cli.files.yaml_text import Broken, each_document, load_yaml
from dradriver.errors import InvalidObjectError, NotFoundError, Problem

__all__ = ["Reading", "UnreadError", "read_files", "read_sound_files"]

STDIN: Final = "-"
SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})


@dataclass(frozen=True, slots=True)
class Reading:
    """Result of reading files.

    Attributes:
        documents: every object, in order, with the items of lists one by one.
        errors: files or documents that are not YAML or JSON objects, and names without any content.
    """

    documents: list[Document]
    errors: list["UnreadError"]


class UnreadError(InvalidObjectError):
    """A document that cannot be read.

    Attributes:
        file, document: the file and the number of the document; 0 for the whole file.
        line: the line; None if unknown.
    """

    def __init__(self, file: str, document: int, rule: str, line: int | None = None) -> None:
        self.file = file
        self.document = document
        self.line = line
        place = f"{file}:{line}" if line else f"{file}: document {document}" if document else file
        super().__init__(place, [Problem("", rule)])


def read_files(names: Sequence[str]) -> Reading:
    """Read files, folders (their *.yaml, *.yml and *.json) and `-`, the standard input.

    Raises:
        NotFoundError: a file does not exist or cannot be opened.
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


def read_sound_files(names: Sequence[str]) -> list[Document]:
    """Read files, and fail if any part cannot be read.

    Raises:
        NotFoundError: a file does not exist or cannot be opened.
        UnreadError: the first part that cannot be read.
    """
    reading = read_files(names)
    if reading.errors:
        raise reading.errors[0]
    return reading.documents


def _read(file: str, content: bytes, reading: Reading) -> None:
    if _is_json_object(content):
        _add(Document(Source(file, content, is_json=True), 1, content), reading)
        return
    source = Source(file, content, is_json=False)
    for index, found in enumerate(each_document(content, load_yaml), 1):
        if isinstance(found, Broken):
            line = found.mark.line + 1 if found.mark else None
            reading.errors.append(UnreadError(file, index, _why_not(found), line))
            continue
        for key, line in found.repeated:
            reading.errors.append(UnreadError(file, index, f"key {key!r} is written twice", line))
        try:
            _add(Document(source, index, _converted(found.body)), reading)
        except (TypeError, ValueError) as error:
            places = source.places
            line = places[index - 1].first if index <= len(places) else None
            reading.errors.append(UnreadError(file, index, str(error), line))


def _converted(body: object) -> bytes:
    """Return the JSON text of a document.

    Raises:
        TypeError, ValueError: it has none, or is not an object; the message gives the reason.
    """
    try:
        compact = json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
    except (TypeError, ValueError) as error:
        raise ValueError(f"not YAML of JSON's types: {error}") from error
    if not isinstance(body, dict):
        raise TypeError(_no_object(compact))
    return compact


def _add(document: Document, reading: Reading) -> None:
    for each in _objects(document):
        if isinstance(each, Document):
            reading.documents.append(each)
        else:
            line = document.line(each.path)
            reading.errors.append(UnreadError(document.file, document.index, str(each), line))


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


def _is_json_object(content: bytes) -> bool:
    """Return whether the file is one JSON object. A flow mapping or several documents are YAML."""
    if content.lstrip()[:1] != b"{":
        return False
    try:
        # The decoder does not check the text of skipped values.
        _ = content.isascii() or content.decode()
        msgspec.json.decode(content, type=_Skipped)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return False
    return True


class _Skipped(msgspec.Struct):
    """An object without fields, so that all fields are skipped."""


def _why_not(broken: Broken) -> str:
    error = broken.error
    if isinstance(error, yaml.MarkedYAMLError):
        at = error.context_mark
        where = f" that begins on line {at.line + 1}" if at and error.context else ""
        context = f" {error.context}{where}" if error.context else ""
        return f"not YAML: {error.problem}{context}"
    rest_lost = "; the rest of the file is not read" if broken.is_last else ""
    if isinstance(error, yaml.YAMLError):
        return f"not YAML: {' '.join(str(error).split())}{rest_lost}"
    told = "nested too deeply" if isinstance(error, RecursionError) else f"not YAML of JSON's types: {error}"
    return told + rest_lost


def _no_object(text: bytes | msgspec.Raw) -> str:
    return f"an object is wanted, found {bytes(text).decode()[:40]}"


def _objects(document: Document) -> Iterator[Document | Problem]:
    """Yield the document itself, or the items of a list."""
    items = _items(document) if document.kind.endswith("List") else None
    if items is None:
        yield document
        return
    for number, raw in enumerate(items):
        if bytes(memoryview(raw)[:1]) == b"{":
            yield Document(document.source, document.index, raw, number)
        else:
            yield Problem(f"items[{number}]", _no_object(raw))


def _items(document: Document) -> list[msgspec.Raw] | None:
    try:
        return msgspec.json.decode(document.raw, type=_RawList).items
    except msgspec.ValidationError:
        return None


class _RawList(msgspec.Struct):
    items: list[msgspec.Raw] | None = None
