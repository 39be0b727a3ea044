"""Reads files and returns their documents, and defines the option that names files."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import click
import msgspec
import yaml

from dradriver.cli.files.documents import Document, Source
from dradriver.cli.files.yaml_text import BrokenDocument, iter_documents, load_yaml
from dradriver.errors import InvalidObjectError, NotFoundError, Problem

__all__ = ["Reading", "UnreadableError", "file_options", "read_files", "read_valid_files"]

F = TypeVar("F", bound=Callable[..., object])

STDIN: Final = "-"
SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})


@dataclass(frozen=True, slots=True)
class Reading:
    """Result of reading files.

    Attributes:
        documents: all objects in order. Each item of a list is a separate object.
        errors: files or documents that are not YAML or JSON objects, and given names for which no object was
            found.
    """

    documents: list[Document]
    errors: list["UnreadableError"]


class UnreadableError(InvalidObjectError):
    """A document that cannot be read.

    Attributes:
        file, document: the file, and the number of the document in the file; 0 for the whole file.
        line: the line; None if unknown.
    """

    def __init__(self, file: str, document: int, rule: str, line: int | None = None) -> None:
        self.file = file
        self.document = document
        self.line = line
        location = f"{file}:{line}" if line else f"{file}: document {document}" if document else file
        super().__init__(location, [Problem("", rule)])


def file_options(*, required: bool = True) -> Callable[[F], F]:
    """Return a decorator that adds the option `-f/--filename`.

    Args:
        required: whether the user must give at least one file. If not, the command reads the cluster by
            default.

    Returns:
        The decorator. The command gets the argument `files`: the names in the given order.
    """
    help_text = "File, folder with *.yaml, *.yml and *.json files, or - for stdin; can be repeated."
    if not required:
        help_text += "  [default: read the cluster]"
    return click.option("-f", "--filename", "files", multiple=True, required=required, help=help_text)


def read_files(names: Sequence[str]) -> Reading:
    """Read files, the *.yaml, *.yml and *.json files of folders, and the standard input (`-`).

    Args:
        names: paths in the order of reading.

    Returns:
        All objects, and an error for each part that cannot be read.

    Raises:
        NotFoundError: a file does not exist or cannot be opened.
    """
    reading = Reading([], [])
    for name in names:
        before = len(reading.documents) + len(reading.errors)
        for file, content in _contents(name):
            _read(file, content, reading)
        if before == len(reading.documents) + len(reading.errors):
            rule = f"no objects: there is no {', '.join(sorted(SUFFIXES))} file, or the files are empty"
            reading.errors.append(UnreadableError(name, 0, rule))
    return reading


def read_valid_files(names: Sequence[str]) -> list[Document]:
    """Read files, and fail if any part cannot be read.

    Args:
        names: as in `read_files`.

    Returns:
        All objects in their order.

    Raises:
        NotFoundError: a file does not exist or cannot be opened.
        UnreadableError: the first part that cannot be read.
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
    for index, loaded in enumerate(iter_documents(content, load_yaml), 1):
        if isinstance(loaded, BrokenDocument):
            line = loaded.mark.line + 1 if loaded.mark else None
            reading.errors.append(UnreadableError(file, index, _describe_error(loaded), line))
            continue
        for key, line in loaded.repeated:
            reading.errors.append(UnreadableError(file, index, f"duplicate key {key!r}", line))
        try:
            _add(Document(source, index, _to_json(loaded.body)), reading)
        except (TypeError, ValueError) as error:
            field_lines = source.field_lines
            line = field_lines[index - 1].first if index <= len(field_lines) else None
            reading.errors.append(UnreadableError(file, index, str(error), line))


def _to_json(body: object) -> bytes:
    """Return the JSON text of a document.

    Raises:
        TypeError, ValueError: the document contains values that JSON does not have, or is not an object. The
            message gives the reason.
    """
    try:
        compact = json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
    except (TypeError, ValueError) as error:
        raise ValueError(f"not YAML with JSON's types: {error}") from error
    if not isinstance(body, dict):
        raise TypeError(_not_an_object(compact))
    return compact


def _add(document: Document, reading: Reading) -> None:
    for each in _objects(document):
        if isinstance(each, Document):
            reading.documents.append(each)
        else:
            line = document.line(each.path)
            reading.errors.append(UnreadableError(document.file, document.index, str(each), line))


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
    """Return whether the file is one JSON object. A file with a flow mapping or several documents is YAML."""
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
    """Declares no fields, so msgspec skips all fields of the decoded object."""


def _describe_error(broken: BrokenDocument) -> str:
    error = broken.error
    if isinstance(error, yaml.MarkedYAMLError):
        at = error.context_mark
        where = f" that begins on line {at.line + 1}" if at and error.context else ""
        context = f" {error.context}{where}" if error.context else ""
        return f"not YAML: {error.problem}{context}"
    rest_lost = "; the rest of the file is not read" if broken.is_last else ""
    if isinstance(error, yaml.YAMLError):
        return f"not YAML: {' '.join(str(error).split())}{rest_lost}"
    rule = "nested too deeply" if isinstance(error, RecursionError) else f"not YAML with JSON's types: {error}"
    return rule + rest_lost


def _not_an_object(text: bytes | msgspec.Raw) -> str:
    return f"must be an object, not {bytes(text).decode()[:40]}"


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
            yield Problem(f"items[{number}]", _not_an_object(raw))


def _items(document: Document) -> list[msgspec.Raw] | None:
    try:
        return msgspec.json.decode(document.raw, type=_RawList).items
    except msgspec.ValidationError:
        return None


class _RawList(msgspec.Struct):
    items: list[msgspec.Raw] | None = None
