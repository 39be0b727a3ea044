"""Reads YAML that contains only JSON's types, with libyaml where libyaml is safe.

libyaml is seven times faster than Python's reader, but it crashes the process on a deeply nested file. The
depth of the file is therefore checked first.
"""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

import yaml

__all__ = ["BrokenDocument", "LoadedDocument", "compose_yaml", "iter_documents", "load_yaml"]

T = TypeVar("T")

_MAX_LIBYAML_DEPTH: Final = 200
"""If the nesting is deeper, libyaml is not used. Kubernetes objects are much less deep."""

_MAX_EXPANDED_VALUES: Final = 1_000_000
"""Maximum number of values in a document after each alias is replaced by the value of its anchor."""


@dataclass(frozen=True, slots=True)
class LoadedDocument:
    """The value of one document.

    Attributes:
        body: the value. If a key is repeated, its last value is used.
        repeated: the repeated keys, each with the line of the repetition.
    """

    body: object
    repeated: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class BrokenDocument:
    """A document that cannot be read.

    Attributes:
        error: the error.
        is_last: whether no later document of the file can be found.
    """

    error: Exception
    is_last: bool

    @property
    def mark(self) -> yaml.Mark | None:
        """The position of the error; None if unknown."""
        return self.error.problem_mark if isinstance(self.error, yaml.MarkedYAMLError) else None


class _JsonTypes(yaml.constructor.SafeConstructor):
    """Constructs only JSON's types: no dates.

    Records repeated keys, because the last value hides the others.
    """

    repeated: list[tuple[str, int]]

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, object]:  # noqa: FBT002 - PyYAML's signature
        """Return a mapping, and record its repeated keys."""
        seen: set[object] = set()
        for key_node, _ in node.value:
            key, mark = key_node.value, key_node.start_mark
            if not isinstance(key_node, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a string", mark)
            if key in seen and key != "<<":
                self.repeated.append((key, mark.line + 1))
            seen.add(key)
        return dict(super().construct_mapping(node, deep))


class _Loader(_JsonTypes, yaml.SafeLoader):
    pass


_LIBYAML: Final = getattr(yaml, "CSafeLoader", None)


if _LIBYAML is not None:

    class _LibyamlLoader(_JsonTypes, _LIBYAML):  # type: ignore[misc, valid-type]
        pass


_UNREADABLE: Final = (yaml.YAMLError, RecursionError, ValueError)  # UnicodeDecodeError is a ValueError


def iter_documents(content: bytes, read: Callable[[bytes], Iterator[T]]) -> Iterator[T | BrokenDocument]:
    """Yield the result of `read` for each document of a file. Reading continues after a broken document.

    Args:
        content: the file.
        read: `load_yaml` or `compose_yaml`. `read` gets the rest of the file, with an empty line for each line
            that was already read. Its line numbers are therefore the line numbers of the file.
    """
    start = 0
    while start >= 0:
        rest = b"\n" * start + b"".join(content.splitlines(keepends=True)[start:]) if start else content
        try:
            yield from read(rest)
        except _UNREADABLE as error:
            start = _next_document(content, error, start)
            yield BrokenDocument(error, is_last=start < 0)
        else:
            return


def _next_document(content: bytes, error: Exception, start: int) -> int:
    """Return the line on which the document after the broken document begins; -1 if no document is found."""
    mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
    if mark is None:
        return -1
    lines = content.splitlines()
    for number in range(max(mark.line, start + 1), len(lines)):
        # `---` at the beginning of a line always ends a document. If the line has more text and contains the
        # error, it belongs to the broken document.
        if lines[number].startswith(b"---") and (number > mark.line or lines[number].strip() == b"---"):
            return number
    return -1


def load_yaml(content: bytes) -> Iterator[LoadedDocument]:
    """Return the values of all non-empty documents up to the first broken document.

    Args:
        content: the file.

    Raises:
        yaml.YAMLError, RecursionError, ValueError: a document is broken. The iterator raises the error
            after it has yielded the documents before the broken one.
    """
    if _is_shallow(content):
        try:
            return iter(list(_load_all(cast(Any, _LibyamlLoader)(content))))
        except (yaml.YAMLError, ValueError):
            pass  # the message of Python's reader is better
    return _load_all(_Loader(content))


def _load_all(loader: Any) -> Iterator[LoadedDocument]:  # noqa: ANN401 - PyYAML's classes have no types
    try:
        while loader.check_data():
            loader.repeated = []
            body: object = loader.get_data()
            _check_aliases(body)
            if body is not None:
                yield LoadedDocument(body, tuple(loader.repeated))
    finally:
        loader.dispose()


def _check_aliases(body: object) -> None:
    """Reject a document whose aliases multiply: 400 bytes can expand to a billion values.

    Raises:
        ValueError: the document has too many values, most of them from aliases.
    """
    sizes: dict[int, int] = {}
    own_values = 0

    def size(value: object) -> int:
        nonlocal own_values
        if not isinstance(value, dict | list):
            return 1
        known = sizes.get(id(value))
        if known is None:
            sizes[id(value)] = 0  # a value that contains itself is rejected later, when it is converted to JSON
            children = value.values() if isinstance(value, dict) else value
            own_values += len(value)
            known = sizes[id(value)] = 1 + sum(map(size, children))
        return known

    if size(body) > max(_MAX_EXPANDED_VALUES, 10 * own_values):
        raise ValueError("aliases (&, *) expand to too many values")


def compose_yaml(content: bytes) -> Iterator[yaml.Node]:
    """Yield the documents as nodes, which have line numbers.

    Args:
        content: the file.
    """
    nodes = yaml.compose_all(content, _LibyamlLoader if _is_shallow(content) else _Loader)
    return (node for node in nodes if not _is_null(node))


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"


def _is_shallow(content: bytes) -> bool:
    """Return whether libyaml is installed and can safely read this text."""
    if _LIBYAML is None:
        return False
    depth = 0
    try:
        for event in yaml.parse(content, _LIBYAML):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > _MAX_LIBYAML_DEPTH:
                    return False
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
    except (yaml.YAMLError, ValueError):
        return False
    return True
