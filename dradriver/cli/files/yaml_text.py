"""YAML with JSON's types only, quickly where that is safe.

libyaml reads seven times faster than Python does, but where a file is nested deeply it ends the process. So the
depth is looked at first.
"""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

import yaml

__all__ = ["Broken", "Loaded", "compose_yaml", "each_document", "load_yaml"]

T = TypeVar("T")

_DEEP: Final = 200
"""Objects of Kubernetes are not nested by far as deeply."""

_MOST_ALIASED: Final = 1_000_000
"""Values that a document may hold when each alias is replaced by what it stands for."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The value of one document.

    Attributes:
        body: the value; of a key that is written twice the last one.
        repeated: the keys that are written twice, with the line on which they are again.
    """

    body: object
    repeated: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Broken:
    """A document that can't be read.

    Attributes:
        error: why.
        is_last: the documents behind it can't be found.
    """

    error: Exception
    is_last: bool

    @property
    def mark(self) -> yaml.Mark | None:
        """Where, as far as that is known."""
        return self.error.problem_mark if isinstance(self.error, yaml.MarkedYAMLError) else None


class _JsonTypes(yaml.constructor.SafeConstructor):
    """No dates; a key that is written twice, which hides the first, is noted."""

    repeated: list[tuple[str, int]]

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, object]:  # noqa: FBT002 - PyYAML's signature
        """A mapping, checked for repeated keys."""
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
    """What `read` makes of each document of a file; behind one that can't be read it goes on.

    Args:
        content: the file.
        read: `load_yaml` or `compose_yaml`; gets the rest of the file behind as many empty lines as were read
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


def load_yaml(content: bytes) -> Iterator[Loaded]:
    """The values of all documents but empty ones, as far as the first that can't be read.

    Raises:
        yaml.YAMLError, RecursionError, ValueError: it can't be read.
    """
    if _is_shallow(content):
        try:
            return iter(list(_loaded(cast(Any, _QuickLoader)(content))))
        except (yaml.YAMLError, ValueError):
            pass  # Python's reader says better what is wrong
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
    """Refuses a document whose aliases multiply: 400 bytes can stand for a billion values.

    Raises:
        ValueError: it holds too many values, most of them from aliases.
    """
    sizes: dict[int, int] = {}
    written = 0

    def size(value: object) -> int:
        nonlocal written
        if not isinstance(value, dict | list):
            return 1
        known = sizes.get(id(value))
        if known is None:
            sizes[id(value)] = 0  # what contains itself is refused when it becomes JSON
            inside = value.values() if isinstance(value, dict) else value
            written += len(value)
            known = sizes[id(value)] = 1 + sum(map(size, inside))
        return known

    if size(body) > max(_MOST_ALIASED, 10 * written):
        raise ValueError("too many values come from aliases (&, *)")


def compose_yaml(content: bytes) -> Iterator[yaml.Node]:
    """The same as nodes, which know their lines."""
    nodes = yaml.compose_all(content, _QuickLoader if _is_shallow(content) else _Loader)
    return (node for node in nodes if not _is_null(node))


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"


def _is_shallow(content: bytes) -> bool:
    """Whether libyaml is there and can be trusted with the text."""
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
