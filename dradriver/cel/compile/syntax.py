"""The syntax tree of an expression."""

from typing import Final

from dradriver.cel.compile.functions import Overload
from dradriver.cel.compile.types import DYN, CelType

__all__ = [
    "ACCUMULATOR",
    "MAX_DEPTH",
    "CallExpression",
    "Comprehension",
    "Ident",
    "ListLiteral",
    "Literal",
    "MapLiteral",
    "Select",
    "SyntaxNode",
    "parts",
]

MAX_DEPTH: Final = 250
"""Maximum nesting depth that Kubernetes' parser accepts."""

ACCUMULATOR: Final = "@result"
"""The variable in which a comprehension collects its result. A user can't write this name."""


class SyntaxNode:
    """Any part of an expression.

    Attributes:
        offset: the position of the node in the expression.
        depth: the depth of the tree below the node, as Kubernetes' parser counts it.
        type: the type. The checker sets it.
        constant: whether the value is known without a device. It is then in `value`.
    """

    __slots__ = ("constant", "depth", "offset", "type", "value")

    def __init__(self, offset: int, depth: int = 0) -> None:
        self.offset = offset
        self.depth = depth
        self.type: CelType = DYN
        self.constant = False
        self.value: object = None


class Literal(SyntaxNode):
    """A number, text, bytes, true, false or null."""

    __slots__ = ()

    def __init__(self, offset: int, value: object, literal_type: CelType) -> None:
        super().__init__(offset)
        self.type = literal_type
        self.constant = True
        self.value = value


class Ident(SyntaxNode):
    """A name. With a leading dot (`absolute`) it does not refer to a variable of a comprehension."""

    __slots__ = ("absolute", "name")

    def __init__(self, offset: int, name: str, *, absolute: bool = False) -> None:
        super().__init__(offset)
        self.name = name
        self.absolute = absolute


class Select(SyntaxNode):
    """`operand.field`, `operand.?field` (optional) or `has(operand.field)` (test)."""

    __slots__ = ("field", "operand", "optional", "test")

    def __init__(
        self, offset: int, operand: SyntaxNode, field: str, *, optional: bool = False, test: bool = False
    ) -> None:
        super().__init__(offset, operand.depth + 1)
        self.operand = operand
        self.field = field
        self.optional = optional
        self.test = test


class CallExpression(SyntaxNode):
    """A call of a function, method or operator. The checker puts the overloads that fit into `overloads`."""

    __slots__ = ("args", "is_method", "name", "overloads")

    def __init__(self, offset: int, name: str, args: list[SyntaxNode], *, is_method: bool = False) -> None:
        super().__init__(offset, max((arg.depth for arg in args), default=0))
        self.name = name
        self.args = args
        self.is_method = is_method
        self.overloads: tuple[Overload, ...] = ()


class ListLiteral(SyntaxNode):
    """`[a, ?b]`. `optional` marks the elements that are omitted if they have no value."""

    __slots__ = ("elements", "optional")

    def __init__(self, offset: int, elements: list[SyntaxNode], optional: list[bool]) -> None:
        super().__init__(offset, max((element.depth for element in elements), default=0))
        self.elements = elements
        self.optional = optional


class MapLiteral(SyntaxNode):
    """`{a: b, ?c: d}`."""

    __slots__ = ("keys", "optional", "values")

    def __init__(
        self, offset: int, keys: list[SyntaxNode], values: list[SyntaxNode], optional: list[bool]
    ) -> None:
        super().__init__(offset, max((part.depth for part in [*keys, *values]), default=0))
        self.keys = keys
        self.values = values
        self.optional = optional


class Comprehension(SyntaxNode):
    """The expansion of a macro: a loop over `source` that collects its result in `accumulator`."""

    __slots__ = ("accumulator", "condition", "initial", "result", "source", "step", "variable", "variable2")

    def __init__(
        self,
        offset: int,
        source: SyntaxNode,
        variables: tuple[str, str | None],
        accumulator: str,
        parts: tuple[SyntaxNode, SyntaxNode, SyntaxNode, SyntaxNode],
    ) -> None:
        super().__init__(offset, max(node.depth for node in (source, *parts)) + 1)
        self.source = source
        self.variable, self.variable2 = variables
        self.accumulator = accumulator
        self.initial, self.condition, self.step, self.result = parts


def parts(node: SyntaxNode) -> list[SyntaxNode]:
    """Return the nodes directly below a node."""
    if isinstance(node, CallExpression):
        return node.args
    if isinstance(node, Select):
        return [node.operand]
    if isinstance(node, ListLiteral):
        return node.elements
    if isinstance(node, MapLiteral):
        return node.keys + node.values
    if isinstance(node, Comprehension):
        return [node.source, node.initial, node.condition, node.step, node.result]
    return []
