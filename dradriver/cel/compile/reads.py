"""Finds the attributes of a device that an expression reads, without a device.

Two devices with equal values of these attributes, equal capacities and an equal driver get the same verdict.
Only plain reads of `device.attributes[domain].name` are recognized, in all spellings. For an expression that
uses the attributes in another way, the result is unknown.
"""

from collections.abc import Iterable
from typing import Final

from dradriver.cel.compile.syntax import CallExpression, Ident, Literal, Select, SyntaxNode, parts

__all__ = ["attributes_read"]

_INDEX: Final = frozenset({"_[_]", "_[?_]"})


def attributes_read(nodes: Iterable[SyntaxNode]) -> frozenset[str] | None:
    """Return the names, without their domains, of the attributes that are read; None: possibly all.

    Args:
        nodes: all nodes of the tree, with expanded macros.
    """
    above: dict[int, SyntaxNode] = {}
    found = set[str]()
    devices = []
    for node in nodes:
        for part in parts(node):
            above[id(part)] = node
        if isinstance(node, Ident) and node.name == "device":
            devices.append(node)
    for device in devices:
        field = above.get(id(device))
        if not isinstance(field, Select):
            return None
        if field.field == "attributes":
            name = _name(field, above)
            if name is None:
                return None
            found.add(name)
    return frozenset(found)


def _name(attributes: SyntaxNode, above: dict[int, SyntaxNode]) -> str | None:
    """Return the name in `attributes[domain].name` or `attributes[domain][name]`."""
    domain = above.get(id(attributes))
    if not (isinstance(domain, CallExpression) and domain.name in _INDEX and domain.args[0] is attributes):
        return None
    reading = above.get(id(domain))
    if isinstance(reading, Select):
        return reading.field
    if isinstance(reading, CallExpression) and reading.name in _INDEX and reading.args[0] is domain:
        name = reading.args[1]
        return name.value if isinstance(name, Literal) and isinstance(name.value, str) else None
    return None
