"""The fast path: most selectors as one Python expression, without cost or error values.

Only parts that can't become expensive are translated, and only if Python's result equals that of CEL. If the
fast path raises, gives no bool, or sees an unusually large device, the machine decides again, and its verdict
counts. So this module can make a verdict faster but never different.

The generated text contains operators and names chosen by this module. It contains no text of the user:
constants and functions are bound by name.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from dradriver.cel.compile.functions import Overload
from dradriver.cel.compile.syntax import (
    ACCUMULATOR,
    CallExpression,
    Comprehension,
    Ident,
    Select,
    SyntaxNode,
    parts,
)
from dradriver.cel.compile.types import BOOL, DEVICE, INT, STRING
from dradriver.cel.evaluate import steps
from dradriver.cel.evaluate.cost import LIMIT, expression_size, tenth
from dradriver.cel.evaluate.equality import compare, equal, is_same
from dradriver.cel.evaluate.errors import ErrorValue
from dradriver.cel.evaluate.regex import pattern_size, searching_steps
from dradriver.cel.evaluate.values import accepts

__all__ = ["LARGEST_DEVICE", "FastProgram", "fast_program"]

FastProgram: TypeAlias = Callable[[object], object]

LARGEST_DEVICE: Final = 256
"""Maximum size of a text, list or map in a device for which the cost is bounded at compile time."""

_HIGHEST: Final = 24
_ORDERS: Final = {"_<_": "<", "_<=_": "<=", "_>_": ">", "_>=_": ">="}
_CHEAP: Final = frozenset({
    "startsWith", "endsWith", "contains", "matches", "size", "lowerAscii", "upperAscii", "includes",
    "isGreaterThan", "isLessThan", "compareTo", "asInteger", "isInteger", "asApproximateFloat", "sign",
    "quantity", "semver", "isSemver", "isQuantity", "major", "minor", "patch",
})  # fmt: skip
_PURE: Final = frozenset({"quantity", "semver"})


_DEEP: Final = frozenset({"map", DEVICE.name})
"""Types of parts of a device that can hold more than one list."""


class _NotFastError(Exception):
    """The expression contains a part that only the machine supports."""


def fast_program(root: SyntaxNode, order: list[SyntaxNode]) -> FastProgram | None:
    """Return the fast path of a checked and folded tree; None if there is none."""
    if _height(order) > _HIGHEST or _most_cost(order) > LIMIT or _most_steps(order) > steps.LIMIT:
        return None
    translator = _Translator()
    try:
        source = translator.value(root)
    except _NotFastError:
        return None
    names = translator.names
    code = compile(f"def program(device):\n    return {source}", "<selector>", "exec")
    exec(code, names)  # noqa: S102 - the text is made here, of fixed pieces
    return names["program"]  # type: ignore[no-any-return]


def _height(order: list[SyntaxNode]) -> int:
    """Return the height of the tree, because Python's own compiler recurses."""
    heights: dict[int, int] = {}
    for node in order:
        heights[id(node)] = 1 + max((heights.get(id(part), 0) for part in parts(node)), default=0)
    return max(heights.values())


def _most_steps(order: list[SyntaxNode]) -> int:
    """Return the maximum number of steps on a device that is not unusually large."""
    total = 0
    for node in order:
        longest = max(LARGEST_DEVICE, *(_length(part) for part in parts(node)), 0)
        if isinstance(node, CallExpression) and node.name == "matches":
            pattern = node.args[1].value
            total += searching_steps(pattern_size(pattern) if isinstance(pattern, str) else 0, longest)
        elif isinstance(node, CallExpression) and node.name == "contains":
            total += steps.searching(longest, longest)
        elif isinstance(node, CallExpression) and node.name in _READING:
            total += _EACH + longest
        elif isinstance(node, CallExpression) and _walks(node):
            total += _EACH + _ELEMENT * longest
        else:
            total += _EACH
    return total


def _walks(node: CallExpression) -> bool:
    """Return whether a call may read each element of a list."""
    if node.name in {"_==_", "_!=_"}:
        return not any(arg.constant and not isinstance(arg.value, tuple | dict) for arg in node.args)
    return node.name == "includes"


_EACH: Final = 50
"""An upper bound for the steps of a node whose work does not depend on sizes."""

_ELEMENT: Final = 10
_READING: Final = frozenset({
    "lowerAscii", "upperAscii", "startsWith", "endsWith", "quantity", "semver", "isSemver", "isQuantity",
})  # fmt: skip
"""Functions that read a text."""


def _most_cost(order: list[SyntaxNode]) -> int:
    """Return the maximum cost on a device that is not unusually large."""
    total = 0
    for node in order:
        longest = max(LARGEST_DEVICE, *(_length(part) for part in parts(node)), 0)
        if isinstance(node, CallExpression) and node.name == "matches":
            total += expression_size(longest, longest)
        elif isinstance(node, CallExpression) and node.name == "contains":
            total += tenth(longest) ** 2
        else:
            total += 30 + longest
    return total


def _length(node: SyntaxNode) -> int:
    return len(node.value) if isinstance(node.value, str | bytes | tuple) else 0


def _fail() -> object:
    raise ErrorValue("the machine decides")


class _Translator:
    def __init__(self) -> None:
        self.names: dict[str, Any] = {"equal": equal, "same": is_same, "order": compare, "fail": _fail}
        self._variables: list[tuple[str, str]] = []
        self._count = 0

    def _name(self, value: object) -> str:
        self._count += 1
        name = f"n{self._count}"
        self.names[name] = value
        return name

    def _local(self) -> str:
        self._count += 1
        return f"v{self._count}"

    def value(self, node: SyntaxNode) -> str:
        """Return the text of a Python expression with the value of `node`."""
        if node.constant:
            return self._constant(node.value)
        if isinstance(node, Ident):
            return self._ident(node)
        if isinstance(node, Select):
            return self._test(node) if node.test else self._field(node)
        if isinstance(node, CallExpression):
            return self._call(node)
        if isinstance(node, Comprehension) and node.accumulator != ACCUMULATOR:
            return self._binding(node)
        raise _NotFastError

    def _constant(self, value: object) -> str:
        return repr(value) if value is True or value is False else self._name(value)

    def _ident(self, node: Ident) -> str:
        if not node.absolute:
            for name, local in reversed(self._variables):
                if name == node.name:
                    return local
        return "device"

    def _field(self, node: Select) -> str:
        if node.optional:
            raise _NotFastError
        # With a text as key, Python's subscript works only on a dict.
        return f"{self.value(node.operand)}[{self._name(node.field)}]"

    def _test(self, node: Select) -> str:
        """Return `has()` as Python's `in`, which is possible for the names of one domain."""
        if node.operand.type.name != "map" or node.operand.type.params[1].name == "map":
            raise _NotFastError
        if not _reads_device(node.operand):
            raise _NotFastError
        return f"({self._name(node.field)} in {self.value(node.operand)})"

    def _truth(self, node: SyntaxNode) -> str:
        """Return the same as `value`, but for an expression that is certainly a bool."""
        text = self.value(node)
        if (node.type == BOOL and isinstance(node, CallExpression | Select)) or (
            node.constant and isinstance(node.value, bool)
        ):
            return text
        local = self._local()
        return f"({local} if ({local} := {text}).__class__ is bool else fail())"

    def _call(self, node: CallExpression) -> str:
        name, args = node.name, node.args
        if name in {"_&&_", "_||_"}:
            joined = (" and " if name == "_&&_" else " or ").join(map(self._truth, args))
            return f"({joined})"
        if name == "!_":
            return f"(not {self._truth(args[0])})"
        if name == "_?_:_":
            return f"({self.value(args[1])} if {self._truth(args[0])} else {self.value(args[2])})"
        if name in {"_==_", "_!=_"}:
            return self._equality(name, args)
        if name in _ORDERS:
            return self._order(name, args)
        if name == "_[_]":
            return self._element(args)
        if name == "_in_":
            return self._membership(args)
        if name in _CHEAP:
            return self._function(node)
        raise _NotFastError

    def _equality(self, name: str, args: list[SyntaxNode]) -> str:
        left, right = map(self.value, args)
        if any(arg.type.name in _DEEP for arg in args):
            raise _NotFastError
        exact = "equal" if name == "_==_" else "not same"
        sign = name.strip("_")
        kind = _plain_kind(args[1])
        if kind is None:
            return f"({exact}({left}, {right}))"
        if args[0].type == args[1].type:
            return f"({left} {sign} {right})"
        local = self._local()
        test = f"({local} := {left}).__class__ is {kind}"
        return f"({local} {sign} {right} if {test} else {exact}({local}, {right}))"

    def _order(self, name: str, args: list[SyntaxNode]) -> str:
        left, right = map(self.value, args)
        sign = _ORDERS[name]
        kind = _plain_kind(args[1])
        if kind is None or kind == "bool":
            raise _NotFastError
        if args[0].type == args[1].type:
            return f"({left} {sign} {right})"
        local = self._local()
        return f"({local} {sign} {right} if ({local} := {left}).__class__ is {kind} else fail())"

    def _element(self, args: list[SyntaxNode]) -> str:
        if not args[1].constant or not isinstance(args[1].value, str):
            raise _NotFastError
        return f"{self.value(args[0])}[{self._name(args[1].value)}]"

    def _membership(self, args: list[SyntaxNode]) -> str:
        item, container = args
        if (
            item.constant
            and isinstance(item.value, str)
            and container.type.name == "map"
            and _reads_device(container)
        ):
            return f"({self._name(item.value)} in {self.value(container)})"
        texts = container.constant and isinstance(container.value, tuple)
        if texts and all(isinstance(member, str) for member in container.value):  # type: ignore[attr-defined]
            local = self._local()
            members = self._name(frozenset(container.value))  # type: ignore[call-overload]
            return f"({local} in {members} if ({local} := {self.value(item)}).__class__ is str else fail())"
        raise _NotFastError

    def _function(self, node: CallExpression) -> str:
        if node.name in _PURE and all(arg.constant for arg in node.args):
            return self._precomputed(node)
        if node.name == "matches" and not node.args[1].constant:
            raise _NotFastError
        args = ", ".join(map(self.value, node.args))
        overloads = node.overloads
        known = len(overloads) == 1 and [arg.type for arg in node.args] == list(overloads[0].params)
        return f"{self._name(overloads[0].call if known else _dispatch(overloads))}({args})"

    def _precomputed(self, node: CallExpression) -> str:
        try:
            return self._name(node.overloads[0].call(*(arg.value for arg in node.args)))
        except ErrorValue as fault:
            raise _NotFastError from fault

    def _binding(self, node: Comprehension) -> str:
        local = self._local()
        initial = self.value(node.initial)
        self._variables.append((node.accumulator, local))
        body = self.value(node.result)
        self._variables.pop()
        return f"(({local} := {initial}), {body})[1]"


def _reads_device(node: SyntaxNode) -> bool:
    """Return whether a value is a part of the device.

    The maps of a device are plain dicts with texts as keys.
    """
    while not isinstance(node, Ident):
        if isinstance(node, Select) and not node.test and not node.optional:
            node = node.operand
        elif isinstance(node, CallExpression) and node.name == "_[_]":
            node = node.args[0]
        else:
            return False
    return True


def _plain_kind(node: SyntaxNode) -> str | None:
    """Return the Python class of a node that is certainly a text, int or bool."""
    return {STRING: "str", INT: "int", BOOL: "bool"}.get(node.type)


def _dispatch(overloads: tuple[Overload, ...]) -> Callable[..., object]:
    choices = [(overload.params, overload.call) for overload in overloads]

    def call(*args: object) -> object:
        for params, function in choices:
            if all(map(accepts, params, args)):
                return function(*args)
        return _fail()

    return call
