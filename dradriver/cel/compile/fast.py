"""The fast path: translates most selectors to one Python expression without cost and error values.

A selector is translated only if no part of it can become expensive and Python's result equals that of CEL. The
machine evaluates the selector again, and its verdict counts, in these cases: the Python expression raises an
exception, its value is not a bool, or the device is unusually large. So the fast path never changes a verdict.

The generated Python text contains only operators and names that this module chooses. It contains no text of the
selector: constants and functions are passed as variables.
"""

from collections.abc import Callable, Mapping
from types import CodeType, FunctionType
from typing import Any, Final, NamedTuple, TypeAlias

from dradriver.cel.compile.analysis.bounds import is_bounded
from dradriver.cel.compile.functions import Overload
from dradriver.cel.compile.syntax import (
    ACCUMULATOR,
    CallExpression,
    Comprehension,
    Ident,
    Literal,
    Select,
    SyntaxNode,
)
from dradriver.cel.compile.types import BOOL, DEVICE, INT, STRING
from dradriver.cel.evaluate.equality import compare, equal, is_same
from dradriver.cel.evaluate.errors import ErrorValue
from dradriver.cel.evaluate.values import accepts

__all__ = ["FastPath", "FastProgram", "fast_path"]

FastProgram: TypeAlias = Callable[[object], object]


class FastPath(NamedTuple):
    """A translated selector.

    Attributes:
        code: the code of the Python function.
        names: the values of its global variables.
        literals: the variables that hold a literal, with the literal's offset.
    """

    code: CodeType
    names: dict[str, Any]
    literals: Mapping[str, int]

    def program(self) -> FastProgram:
        """Return the Python function."""
        # Python adapts code to the variables of its function. So functions that share code would be slower.
        return FunctionType(self.code.replace(), self.names)

    def with_literals(self, values: Mapping[int, object]) -> "FastPath":
        """Return the path with other literals. `values` has the value of each literal, by its old offset."""
        changed = {name: values[offset] for name, offset in self.literals.items() if offset in values}
        return FastPath(self.code, {**self.names, **changed}, self.literals)


_ORDERS: Final = {"_<_": "<", "_<=_": "<=", "_>_": ">", "_>=_": ">="}
_CHEAP: Final = frozenset({
    "startsWith", "endsWith", "contains", "matches", "size", "lowerAscii", "upperAscii", "includes",
    "isGreaterThan", "isLessThan", "compareTo", "asInteger", "isInteger", "asApproximateFloat", "sign",
    "quantity", "semver", "isSemver", "isQuantity", "major", "minor", "patch",
})  # fmt: skip
_PURE: Final = frozenset({"quantity", "semver"})


_DEEP: Final = frozenset({"map", DEVICE.name})
"""Types of parts of a device that can contain more than one list."""


class _NotFastError(Exception):
    """The expression contains a part that only the machine supports."""


def fast_path(root: SyntaxNode, order: list[SyntaxNode]) -> FastPath | None:
    """Return the fast path of a checked and folded tree; None if the tree can't be translated."""
    if not is_bounded(order):
        return None
    translator = _Translator()
    try:
        source = translator.value(root)
    except _NotFastError:
        return None
    names = translator.names
    code = compile(f"def program(device):\n    return {source}", "<selector>", "exec")
    exec(code, names)  # noqa: S102 - the text is made here, of fixed pieces
    return FastPath(names["program"].__code__, names, translator.literals)


def _fail() -> object:
    raise ErrorValue("the machine decides")


class _Translator:
    def __init__(self) -> None:
        self.names: dict[str, Any] = {"equal": equal, "same": is_same, "order": compare, "fail": _fail}
        self.literals: dict[str, int] = {}
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
            return self._constant(node)
        if isinstance(node, Ident):
            return self._ident(node)
        if isinstance(node, Select):
            return self._presence(node.operand, node.field) if node.test else self._field(node)
        if isinstance(node, CallExpression):
            return self._call(node)
        if isinstance(node, Comprehension) and node.accumulator != ACCUMULATOR:
            return self._binding(node)
        raise _NotFastError

    def _constant(self, node: SyntaxNode) -> str:
        if node.value is True or node.value is False:
            return repr(node.value)
        name = self._name(node.value)
        if isinstance(node, Literal):
            self.literals[name] = node.offset
        return name

    def _ident(self, node: Ident) -> str:
        if not node.absolute:
            for name, local in reversed(self._variables):
                if name == node.name:
                    return local
        return "device"

    def _field(self, node: Select) -> str:
        if node.optional:
            raise _NotFastError
        # The key is a text, so Python's subscript works only if the operand is a dict.
        return f"{self.value(node.operand)}[{self._name(node.field)}]"

    def _presence(self, names: SyntaxNode, name: str) -> str:
        """Translate `has()` and `hasValue()` to Python's `in`. It works only for the names of one domain."""
        _require_names(names)
        return f"({self._name(name)} in {self.value(names)})"

    def _bool(self, node: SyntaxNode) -> str:
        """Return the text of a Python expression for `node`, which must certainly be a bool."""
        text = self.value(node)
        if (node.type == BOOL and isinstance(node, CallExpression | Select)) or (
            node.constant and isinstance(node.value, bool)
        ):
            return text
        local = self._local()
        return f"({local} if ({local} := {text}).__class__ is bool else fail())"

    def _call(self, node: CallExpression) -> str:
        translate = _TRANSLATIONS.get(node.name)
        if translate is None:
            raise _NotFastError
        return translate(self, node)

    def logical(self, node: CallExpression) -> str:
        joined = (" and " if node.name == "_&&_" else " or ").join(map(self._bool, node.args))
        return f"({joined})"

    def negation(self, node: CallExpression) -> str:
        return f"(not {self._bool(node.args[0])})"

    def conditional(self, node: CallExpression) -> str:
        condition, yes, no = node.args
        return f"({self.value(yes)} if {self._bool(condition)} else {self.value(no)})"

    def equality(self, node: CallExpression) -> str:
        name, args = node.name, node.args
        left, right = map(self.value, args)
        if any(arg.type.name in _DEEP for arg in args):
            raise _NotFastError
        exact = "equal" if name == "_==_" else "not same"
        sign = name.strip("_")
        kind = _python_class(args[1])
        if kind is None:
            return f"({exact}({left}, {right}))"
        if args[0].type == args[1].type:
            return f"({left} {sign} {right})"
        local = self._local()
        test = f"({local} := {left}).__class__ is {kind}"
        return f"({local} {sign} {right} if {test} else {exact}({local}, {right}))"

    def order(self, node: CallExpression) -> str:
        args = node.args
        left, right = map(self.value, args)
        sign = _ORDERS[node.name]
        kind = _python_class(args[1])
        if kind is None or kind == "bool":
            raise _NotFastError
        if args[0].type == args[1].type:
            return f"({left} {sign} {right})"
        local = self._local()
        return f"({local} {sign} {right} if ({local} := {left}).__class__ is {kind} else fail())"

    def element(self, node: CallExpression) -> str:
        container, index = node.args
        if not _is_driver(index) and not (index.constant and isinstance(index.value, str)):
            raise _NotFastError
        return f"{self.value(container)}[{self.value(index)}]"

    def has_value(self, node: CallExpression) -> str:
        return self._presence(*_optional_member(node.args[0]))

    def alternative(self, node: CallExpression) -> str:
        """Translate `names.?name.orValue(x)` to Python's `get`."""
        names, name = _optional_member(node.args[0])
        _require_names(names)
        if not node.type.is_dyn and node.type != names.type.params[1]:
            raise _NotFastError
        return f"{self.value(names)}.get({self._name(name)}, {self.value(node.args[1])})"

    def membership(self, node: CallExpression) -> str:
        item, container = node.args
        if (
            item.constant
            and isinstance(item.value, str)
            and container.type.name == "map"
            and _reads_device(container)
        ):
            return f"({self._name(item.value)} in {self.value(container)})"
        items = container.value if container.constant and isinstance(container.value, tuple) else ()
        kinds = {type(each) for each in items}
        if kinds not in ({str}, {int}):
            raise _NotFastError
        (kind,) = kinds
        local, members = self._local(), self._name(frozenset(items))
        test = f"({local} := {self.value(item)}).__class__ is {kind.__name__}"
        return f"({local} in {members} if {test} else fail())"

    def function(self, node: CallExpression) -> str:
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


_TRANSLATIONS: Final[dict[str, Callable[[_Translator, CallExpression], str]]] = {
    "_&&_": _Translator.logical,
    "_||_": _Translator.logical,
    "!_": _Translator.negation,
    "_?_:_": _Translator.conditional,
    "_==_": _Translator.equality,
    "_!=_": _Translator.equality,
    "_[_]": _Translator.element,
    "_in_": _Translator.membership,
    "hasValue": _Translator.has_value,
    "orValue": _Translator.alternative,
    **dict.fromkeys(_ORDERS, _Translator.order),
    **dict.fromkeys(_CHEAP, _Translator.function),
}


def _reads_device(node: SyntaxNode) -> bool:
    """Return whether the value of a node is a part of the device.

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


def _require_names(node: SyntaxNode) -> None:
    """Raise if a node is not certainly the attributes or capacities of one domain."""
    if node.type.name != "map" or node.type.params[1].name == "map" or not _reads_device(node):
        raise _NotFastError


def _optional_member(node: SyntaxNode) -> tuple[SyntaxNode, str]:
    """Return the operand and the name of `operand.?name` or `operand[?name]`."""
    if isinstance(node, Select) and node.optional:
        return node.operand, node.field
    if isinstance(node, CallExpression) and node.name == "_[?_]":
        names, index = node.args
        if index.constant and isinstance(index.value, str):
            return names, index.value
    raise _NotFastError


def _is_driver(node: SyntaxNode) -> bool:
    """Return whether a node is certainly `device.driver`, which is a text on every device."""
    return (
        isinstance(node, Select)
        and node.field == "driver"
        and node.operand.type == DEVICE
        and not (node.test or node.optional)
    )


def _python_class(node: SyntaxNode) -> str | None:
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
