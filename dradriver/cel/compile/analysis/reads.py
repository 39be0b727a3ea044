"""Finds the parts of a device that an expression reads. It only reads the syntax tree.

If two devices publish the same names in the same order, and have the same driver and equal values of the parts
that an expression reads, then the expression has the same result on both, or fails on both. A device with a
value that no selector can read is an exception: every selector fails on it.

The finder follows the device through paths, bindings and loops. An expression that uses `device`,
`device.attributes` or all attributes of a domain in any other way may read all attributes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, TypeAlias

from dradriver.cel.compile.routines import Routine, run
from dradriver.cel.compile.syntax import (
    ACCUMULATOR,
    CallExpression,
    Comprehension,
    Ident,
    Select,
    SyntaxNode,
    parts,
)

__all__ = ["Reads", "find_reads"]


@dataclass(frozen=True, slots=True)
class Reads:
    """What an expression reads, besides the driver and the names of attributes.

    Attributes:
        attributes: the names, without domains, of the attributes whose values are read; None: possibly all.
        capacity: whether a capacity may be read.
        allow_multiple_allocations: whether `allowMultipleAllocations` may be read.
    """

    attributes: frozenset[str] | None
    capacity: bool
    allow_multiple_allocations: bool


def find_reads(root: SyntaxNode) -> Reads:
    """Return what a checked expression reads."""
    finder = _Finder()
    run(finder.use(root, {}))
    return Reads(
        None if None in finder.names else frozenset(name for name in finder.names if name is not None),
        finder.reads_capacity,
        finder.reads_sharing,
    )


class _Kind(Enum):
    DEVICE = "device"
    DOMAINS = "device.attributes"
    NAMES = "the attributes of one domain"
    VALUE = "the value of one attribute"


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the device that an expression refers to and has not read yet.

    Attributes:
        kind: which part it is.
        name: for a value, the name of the attribute without its domain; None: possibly any attribute.
        optional: whether the part is in an optional value.
    """

    kind: _Kind
    name: str | None = None
    optional: bool = False


_Scope: TypeAlias = Mapping[str, _Part | None]
"""The variables: the part of the device that a variable refers to; None if it holds no unread part."""

_INDEXES: Final = frozenset({"_[_]", "_[?_]"})
_MAPS: Final = frozenset({_Kind.DOMAINS, _Kind.NAMES})


class _Finder:
    def __init__(self) -> None:
        self.names: set[str | None] = set()
        self.reads_capacity = self.reads_sharing = False

    def use(self, node: SyntaxNode, scope: _Scope) -> Routine[None]:
        """Record what the expression reads if it reads the whole value of `node`."""
        self._read((yield self._part(node, scope)))

    def _read(self, part: _Part | None) -> None:
        if part is None:
            return
        self.names.add(part.name)
        if part.kind is _Kind.DEVICE:
            self.reads_capacity = self.reads_sharing = True

    def _part(self, node: SyntaxNode, scope: _Scope) -> Routine[_Part | None]:
        """Return the part of the device that `node` refers to, and record what is read to find it.

        The result is None if everything on which the value depends is recorded.
        """
        part: _Part | None = None
        if node.constant:
            return None
        if isinstance(node, Ident):
            known = not node.absolute and node.name in scope
            return scope[node.name] if known else _Part(_Kind.DEVICE)
        if isinstance(node, Select):
            part = yield self._select(node, scope)
        elif isinstance(node, CallExpression):
            part = yield self._call(node, scope)
        elif isinstance(node, Comprehension):
            bound = node.accumulator != ACCUMULATOR
            part = yield self._binding(node, scope) if bound else self._loop(node, scope)
        else:
            yield self._use_all(parts(node), scope)
        return part

    def _use_all(self, nodes: list[SyntaxNode], scope: _Scope) -> Routine[None]:
        for node in nodes:
            yield self.use(node, scope)

    def _select(self, node: Select, scope: _Scope) -> Routine[_Part | None]:
        operand: _Part | None = yield self._part(node.operand, scope)
        if operand is None:
            return None
        if node.test and operand.kind is not _Kind.VALUE:
            return None
        if operand.kind is not _Kind.DEVICE:
            return self._member(operand, node.field, optional=node.optional)
        if node.field == "attributes":
            return _Part(_Kind.DOMAINS, optional=node.optional)
        self.reads_capacity |= node.field == "capacity"
        self.reads_sharing |= node.field == "allowMultipleAllocations"
        return None

    def _member(self, container: _Part, name: str | None, *, optional: bool) -> _Part | None:
        """Return the part `container[name]`. The name is None if the index is not a literal."""
        optional = optional or container.optional
        if container.kind is _Kind.DOMAINS:
            return _Part(_Kind.NAMES, optional=optional)
        if container.kind is _Kind.NAMES:
            return _Part(_Kind.VALUE, name, optional=optional)
        self._read(container)
        return None

    # --- calls ----------------------------------------------------------------------------

    def _call(self, node: CallExpression, scope: _Scope) -> Routine[_Part | None]:
        args = node.args
        if node.name in _INDEXES:
            part: _Part | None = yield self._index(node, scope)
            return part
        if node.name in {"or", "orValue", "value", "hasValue"}:
            part = yield self._optional(node, scope)
            return part
        if node.name in {"size", "_in_"}:
            yield self._use_all(args[:-1], scope)
            part = yield self._part(args[-1], scope)
            if part is not None and part.kind not in _MAPS:
                self._read(part)
            return None
        yield self._use_all(args, scope)
        return None

    def _index(self, node: CallExpression, scope: _Scope) -> Routine[_Part | None]:
        container: _Part | None = yield self._part(node.args[0], scope)
        index = node.args[1]
        yield self.use(index, scope)
        if container is None:
            return None
        name = index.value if index.constant and isinstance(index.value, str) else None
        return self._member(container, name, optional=node.name == "_[?_]")

    def _optional(self, node: CallExpression, scope: _Scope) -> Routine[_Part | None]:
        """Find the part in a call of a method of an optional value.

        The alternative of `or` and `orValue` is recorded. So the result may be treated as the part itself.
        """
        part: _Part | None = yield self._part(node.args[0], scope)
        yield self._use_all(node.args[1:], scope)
        if part is None:
            return None
        if not part.optional:
            self._read(part)
            return None
        return None if node.name == "hasValue" else replace(part, optional=node.name == "or")

    # --- variables ------------------------------------------------------------------------

    def _binding(self, node: Comprehension, scope: _Scope) -> Routine[_Part | None]:
        bound: _Part | None = yield self._part(node.initial, scope)
        result: _Part | None = yield self._part(node.result, {**scope, node.accumulator: bound})
        return result

    def _loop(self, node: Comprehension, scope: _Scope) -> Routine[None]:
        source: _Part | None = yield self._part(node.source, scope)
        value: _Part | None = None
        if source is not None and source.kind in _MAPS and not source.optional:
            value = self._member(source, None, optional=False)
        else:
            self._read(source)
        yield self.use(node.initial, scope)
        outer = {**scope, ACCUMULATOR: None}
        inner = {**outer, node.variable: None}
        if node.variable2 is not None:
            inner[node.variable2] = value
        yield self.use(node.condition, inner)
        yield self.use(node.step, inner)
        yield self.use(node.result, outer)
