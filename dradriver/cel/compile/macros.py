"""Expands macros: calls that the parser replaces with loops, tests and bindings before types are checked."""

from collections.abc import Callable
from typing import Final, TypeAlias

from dradriver.cel.compile.syntax import (
    ACCUMULATOR,
    CallExpression,
    Comprehension,
    Ident,
    ListLiteral,
    Literal,
    Select,
    SyntaxNode,
)
from dradriver.cel.compile.types import BOOL, INT
from dradriver.cel.evaluate.errors import ErrorValue

__all__ = ["expand_call", "expand_method"]

_Variables: TypeAlias = tuple[str, str | None]
_Expander: TypeAlias = Callable[[int, SyntaxNode, list[SyntaxNode]], SyntaxNode | None]


def expand_call(offset: int, name: str, args: list[SyntaxNode]) -> SyntaxNode | None:
    """Return the expansion of a global call; None if it is not a macro.

    Raises:
        ErrorValue: the arguments are wrong for the macro.
    """
    if name != "has" or len(args) != 1:
        return None
    target = args[0]
    if not isinstance(target, Select) or target.optional or target.test:
        raise ErrorValue("has() needs a field", 'write has(device.attributes["domain"].name)', offset)
    return Select(offset, target.operand, target.field, test=True)


def expand_method(offset: int, name: str, target: SyntaxNode, args: list[SyntaxNode]) -> SyntaxNode | None:
    """Return the expansion of a method call; None if it is not a macro.

    Raises:
        ErrorValue: the arguments are wrong for the macro.
    """
    expander = _METHODS.get((name, len(args)))
    return expander(offset, target, args) if expander else None


def _variable(node: SyntaxNode) -> str:
    if not isinstance(node, Ident) or node.absolute:
        raise ErrorValue("the variable of a macro must be a simple name", offset=node.offset)
    return node.name


def _one_variable(args: list[SyntaxNode]) -> _Variables:
    return _variable(args[0]), None


def _two_variables(args: list[SyntaxNode]) -> _Variables:
    first, second = _variable(args[0]), _variable(args[1])
    if first == second:
        raise ErrorValue(f"the variable {first} is declared twice", offset=args[1].offset)
    return first, second


def _accumulator(offset: int) -> SyntaxNode:
    return Ident(offset, ACCUMULATOR)


def _true(offset: int) -> SyntaxNode:
    return Literal(offset, value=True, literal_type=BOOL)


def _false(offset: int) -> SyntaxNode:
    return Literal(offset, value=False, literal_type=BOOL)


def _all(offset: int, target: SyntaxNode, variables: _Variables, body: SyntaxNode) -> SyntaxNode:
    accumulator = _accumulator(offset)
    condition = CallExpression(offset, "@not_strictly_false", [accumulator])
    step = CallExpression(offset, "_&&_", [accumulator, body])
    parts = (_true(offset), condition, step, accumulator)
    return Comprehension(offset, target, variables, ACCUMULATOR, parts)


def _exists(offset: int, target: SyntaxNode, variables: _Variables, body: SyntaxNode) -> SyntaxNode:
    accumulator = _accumulator(offset)
    condition = CallExpression(offset, "@not_strictly_false", [CallExpression(offset, "!_", [accumulator])])
    step = CallExpression(offset, "_||_", [accumulator, body])
    parts = (_false(offset), condition, step, accumulator)
    return Comprehension(offset, target, variables, ACCUMULATOR, parts)


def _exists_one(offset: int, target: SyntaxNode, variables: _Variables, body: SyntaxNode) -> SyntaxNode:
    accumulator = _accumulator(offset)
    one = Literal(offset, 1, INT)
    step = CallExpression(
        offset, "_?_:_", [body, CallExpression(offset, "_+_", [accumulator, one]), accumulator]
    )
    result = CallExpression(offset, "_==_", [accumulator, one])
    parts = (Literal(offset, 0, INT), _true(offset), step, result)
    return Comprehension(offset, target, variables, ACCUMULATOR, parts)


def _collect(
    offset: int,
    target: SyntaxNode,
    variables: _Variables,
    step: SyntaxNode,
    empty: str,
    only: SyntaxNode | None,
) -> SyntaxNode:
    """Return a loop that builds a list or map, starting from the empty one that the function `empty` makes.

    Each round sets the accumulator to the value of `step`. If `only` is given, a round in which it is false
    changes nothing.
    """
    accumulator = _accumulator(offset)
    if only is not None:
        step = CallExpression(offset, "_?_:_", [only, step, accumulator])
    parts = (CallExpression(offset, empty, []), _true(offset), step, accumulator)
    return Comprehension(offset, target, variables, ACCUMULATOR, parts)


def _list_of(
    offset: int, target: SyntaxNode, variables: _Variables, body: SyntaxNode, only: SyntaxNode | None
) -> SyntaxNode:
    step = CallExpression(offset, "@append", [_accumulator(offset), body])
    return _collect(offset, target, variables, step, "@new_list", only)


def _filter(offset: int, target: SyntaxNode, args: list[SyntaxNode]) -> SyntaxNode:
    return _list_of(offset, target, _one_variable(args), args[0], args[1])


def _map(offset: int, target: SyntaxNode, args: list[SyntaxNode]) -> SyntaxNode:
    return _list_of(offset, target, _one_variable(args), args[-1], args[1] if len(args) == 3 else None)


def _transform_list(offset: int, target: SyntaxNode, args: list[SyntaxNode]) -> SyntaxNode:
    return _list_of(offset, target, _two_variables(args), args[-1], args[2] if len(args) == 4 else None)


def _transform_map(offset: int, target: SyntaxNode, args: list[SyntaxNode]) -> SyntaxNode:
    variables = _two_variables(args)
    step = CallExpression(offset, "@insert", [_accumulator(offset), Ident(offset, variables[0]), args[-1]])
    return _collect(offset, target, variables, step, "@new_map", args[2] if len(args) == 4 else None)


def _transform_map_entry(offset: int, target: SyntaxNode, args: list[SyntaxNode]) -> SyntaxNode:
    step = CallExpression(offset, "@insert_all", [_accumulator(offset), args[-1]])
    return _collect(offset, target, _two_variables(args), step, "@new_map", args[2] if len(args) == 4 else None)


def _bind_name(offset: int, name: str, value: SyntaxNode, body: SyntaxNode) -> SyntaxNode:
    """Return `body` with `name` bound to `value`. The node is a loop without elements, as in cel-go."""
    never = ListLiteral(offset, [], [])
    parts = (value, _false(offset), Ident(offset, name), body)
    return Comprehension(offset, never, ("#unused", None), name, parts)


def _bind(offset: int, target: SyntaxNode, args: list[SyntaxNode]) -> SyntaxNode | None:
    if not isinstance(target, Ident) or target.name != "cel":
        return None
    return _bind_name(offset, _variable(args[0]), args[1], args[2])


def _sort_by(offset: int, target: SyntaxNode, args: list[SyntaxNode]) -> SyntaxNode:
    source = "@sort_source"
    keys = _map(offset, Ident(offset, source), args)
    ordered = CallExpression(offset, "@sort_by", [Ident(offset, source), keys], is_method=True)
    return _bind_name(offset, source, target, ordered)


def _opt_map(offset: int, target: SyntaxNode, args: list[SyntaxNode]) -> SyntaxNode:
    body = _optional_body(offset, target, args)
    return _when_present(offset, target, CallExpression(offset, "optional.of", [body]))


def _opt_flat_map(offset: int, target: SyntaxNode, args: list[SyntaxNode]) -> SyntaxNode:
    return _when_present(offset, target, _optional_body(offset, target, args))


def _optional_body(offset: int, target: SyntaxNode, args: list[SyntaxNode]) -> SyntaxNode:
    value = CallExpression(offset, "value", [target], is_method=True)
    return _bind_name(offset, _variable(args[0]), value, args[1])


def _when_present(offset: int, target: SyntaxNode, present: SyntaxNode) -> SyntaxNode:
    has_value = CallExpression(offset, "hasValue", [target], is_method=True)
    return CallExpression(offset, "_?_:_", [has_value, present, CallExpression(offset, "optional.none", [])])


_METHODS: Final[dict[tuple[str, int], _Expander]] = {
    ("all", 2): lambda offset, target, args: _all(offset, target, _one_variable(args), args[1]),
    ("all", 3): lambda offset, target, args: _all(offset, target, _two_variables(args), args[2]),
    ("exists", 2): lambda offset, target, args: _exists(offset, target, _one_variable(args), args[1]),
    ("exists", 3): lambda offset, target, args: _exists(offset, target, _two_variables(args), args[2]),
    ("exists_one", 2): lambda offset, target, args: _exists_one(offset, target, _one_variable(args), args[1]),
    ("exists_one", 3): lambda offset, target, args: _exists_one(offset, target, _two_variables(args), args[2]),
    ("existsOne", 3): lambda offset, target, args: _exists_one(offset, target, _two_variables(args), args[2]),
    ("filter", 2): _filter,
    ("map", 2): _map,
    ("map", 3): _map,
    ("transformList", 3): _transform_list,
    ("transformList", 4): _transform_list,
    ("transformMap", 3): _transform_map,
    ("transformMap", 4): _transform_map,
    ("transformMapEntry", 3): _transform_map_entry,
    ("transformMapEntry", 4): _transform_map_entry,
    ("sortBy", 2): _sort_by,
    ("optMap", 2): _opt_map,
    ("optFlatMap", 2): _opt_flat_map,
    ("bind", 3): _bind,
}
