"""Reads YAML with JSON's types only, with libyaml where it is safe.

libyaml is seven times faster than Python's reader, but it crashes the process on a deeply nested file. The
depth is therefore checked first.
"""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

import yaml

__all__ = ["Broken", "Loaded", "compose_yaml", "each_document", "load_yaml"]

T = TypeVar("T")

_DEEP: Final = 200
"""Depth above which libyaml is not used. Kubernetes objects are far less deeply nested."""

_MOST_ALIASED: Final = 1_000_000
"""Largest number of values in a document after each alias is replaced by its anchor."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The value of one document.

    Attributes:
        body: the value; the last one of a repeated key.
        repeated: repeated keys, with the line of the repetition.
    """

    body: object
    repeated: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Broken:
    """A document that cannot be read.

    Attributes:
        error: the error.
        is_last: whether the documents after it cannot be found.
    """

    error: Exception
    is_last: bool

    @property
    def mark(self) -> yaml.Mark | None:
        """The place of the error, if known."""
        return self.error.problem_mark if isinstance(self.error, yaml.MarkedYAMLError) else None


class _JsonTypes(yaml.constructor.SafeConstructor):
    """Constructs no dates, and records repeated keys, because the last one hides the others."""

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
                raise yaml.constructor.ConstructorError(None, None, "a key must be a text", mark)
            if key in seen and key != "<<":
                self.repeated.append((key, mark.line + 1))
            seen.add(key)
        return dict(super().construct_mapping(node, deep))


class _Loader(_JsonTypes, yaml.SafeLoader):
    pass


_Quick: Final = getattr(yaml, "CSafeLoader", None)


if _Quick is not None:

    class _QuickLoader(_JsonTypes, _Quick):  # type: ignore[misc, valid-type]
        pass


_UNREADABLE: Final = (yaml.YAMLError, RecursionError, ValueError)  # UnicodeDecodeError is a ValueError


def each_document(content: bytes, read: Callable[[bytes], Iterator[T]]) -> Iterator[T | Broken]:
    """Yield the result of `read` for each document of a file. Reading continues after a broken document.

    Args:
        content: the file.
        read: `load_yaml` or `compose_yaml`. It gets the rest of the file after as many empty lines as were read
            before, so line numbers are those of the file.
    """
    start = 0
    while start >= 0:
        rest = b"\n" * start + b"".join(content.splitlines(keepends=True)[start:]) if start else content
        try:
            yield from read(rest)
        except _UNREADABLE as error:
            start = _after(content, error, start)
            yield Broken(error, is_last=start < 0)
        else:
            return


def _after(content: bytes, error: Exception, start: int) -> int:
    """Return the line on which the document after the broken one begins; -1 if none is found."""
    mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
    if mark is None:
        return -1
    lines = content.splitlines()
    for number in range(max(mark.line, start + 1), len(lines)):
        # `---` at the beginning of a line always ends a document. If the line has more text and also the error,
        # it belongs to the broken document.
        if lines[number].startswith(b"---") and (number > mark.line or lines[number].strip() == b"---"):
            return number
    return -1


def load_yaml(content: bytes) -> Iterator[Loaded]:
    """Return the values of all non-empty documents up to the first broken one.

    Raises:
        yaml.YAMLError, RecursionError, ValueError: the document cannot be read.
    """
    if _is_shallow(content):
        try:
            return iter(list(_loaded(cast(Any, _QuickLoader)(content))))
        except (yaml.YAMLError, ValueError):
            pass  # Python's reader gives a better error
    return _loaded(_Loader(content))


def _loaded(loader: Any) -> Iterator[Loaded]:  # noqa: ANN401 - PyYAML's classes have no types
    try:
        while loader.check_data():
            loader.repeated = []
            body: object = loader.get_data()
            _check_aliases(body)
            if body is not None:
                yield Loaded(body, tuple(loader.repeated))
    finally:
        loader.dispose()


def _check_aliases(body: object) -> None:
    """Reject a document whose aliases multiply: 400 bytes can expand to a billion values.

    Raises:
        ValueError: it has too many values, most of them from aliases.
    """
    sizes: dict[int, int] = {}
    written = 0

    def size(value: object) -> int:
        nonlocal written
        if not isinstance(value, dict | list):
            return 1
        known = sizes.get(id(value))
        if known is None:
            sizes[id(value)] = 0  # a value that contains itself is rejected when it becomes JSON
            inside = value.values() if isinstance(value, dict) else value
            written += len(value)
            known = sizes[id(value)] = 1 + sum(map(size, inside))
        return known

    if size(body) > max(_MOST_ALIASED, 10 * written):
        raise ValueError("too many values come from aliases (&, *)")


def compose_yaml(content: bytes) -> Iterator[yaml.Node]:
    """Return the documents as nodes, which have line numbers."""
    nodes = yaml.compose_all(content, _QuickLoader if _is_shallow(content) else _Loader)
    return (node for node in nodes if not _is_null(node))


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"


def _is_shallow(content: bytes) -> bool:
    """Return whether libyaml is installed and safe for this text."""
    if _Quick is None:
        return False
    depth = 0
    try:
        for event in yaml.parse(content, _Quick):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > _DEEP:
                    return False
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
    except (yaml.YAMLError, ValueError):
        return False
    return True
