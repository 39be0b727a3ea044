"""YAML with JSON's types only, quickly where that is safe.

libyaml reads seven times faster than Python does, but where a file is nested deeply it ends the process. So the
depth is looked at first.
"""

from collections.abc import Hashable, Iterator
from typing import Final

import yaml

__all__ = ["compose_yaml", "load_yaml"]

_DEEP: Final = 200
"""Objects of Kubernetes are not nested by far as deeply."""


class _JsonTypes(yaml.constructor.SafeConstructor):
    """No dates, and no key twice, which would hide the first."""

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
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} is written twice", mark)
            seen.add(key)
        return dict(super().construct_mapping(node, deep))


class _Loader(_JsonTypes, yaml.SafeLoader):
    pass


_Quick: Final = getattr(yaml, "CSafeLoader", None)


if _Quick is not None:

    class _QuickLoader(_JsonTypes, _Quick):  # type: ignore[misc, valid-type]
        pass


def load_yaml(content: bytes) -> Iterator[object]:
    """The values of all documents, as far as the first that can't be read.

    Raises:
        yaml.YAMLError, RecursionError, ValueError: it can't be read.
    """
    if _is_shallow(content):
        try:
            found = list(yaml.load_all(content, _QuickLoader))
        except (yaml.YAMLError, ValueError):
            pass  # Python's reader says better what is wrong
        else:
            return iter(found)
    return yaml.load_all(content, _Loader)


def compose_yaml(content: bytes) -> Iterator[yaml.Node]:
    """The same as nodes, which know their lines."""
    return yaml.compose_all(content, _QuickLoader if _is_shallow(content) else _Loader)


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
