"""Finds the type of every part of an expression, and the overloads that each call can use.

An error that the checker finds would occur on every device, so it is reported when the selector is compiled.
Attributes have the type `dyn`. A call with a `dyn` argument keeps every overload that may fit, and the machine
chooses one for each device. Source: cel-go's checker and the validators that Kubernetes enables.
"""

from collections.abc import Iterable
from typing import Final

from dradriver.cel.compile.environment import DEVICE_FIELDS, FUNCTIONS, IDENTS, TYPE_VALUES
from dradriver.cel.compile.functions import Overload
from dradriver.cel.compile.routines import Routine, run
from dradriver.cel.compile.syntax import (
    CallExpression,
    Comprehension,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
    SyntaxNode,
)
from dradriver.cel.compile.types import (
    BOOL,
    DEVICE,
    DYN,
    INT,
    SEMVER,
    STRING,
    Bindings,
    CelType,
    join,
    list_of,
    map_of,
    optional_of,
)
from dradriver.cel.evaluate.errors import ErrorValue
from dradriver.cel.evaluate.values import TypeName
from dradriver.cel.library.formatting import check_format

__all__ = ["check"]

_SCALARS: Final = (BOOL, INT, STRING, SEMVER)
_MAX_NODES: Final = 12_000
"""Maximum number of nodes of a checked expression.

An expression of 10 KiB has fewer nodes, unless a macro repeats its target.
"""

_LOGICAL: Final = frozenset({"_&&_", "_||_"})


def check(root: SyntaxNode, *, derives: bool = False) -> list[SyntaxNode]:
    """Check a whole expression and return all its nodes. Each node comes after its parts.

    Args:
        root: the expression.
        derives: True for a derived attribute, False for a selector.

    Raises:
        ErrorValue: a part fails on every device, or the type of the result is wrong: not bool for a selector,
            or not a type of attributes for a derived attribute.
    """
    checker = _Checker()
    run(checker.check(root))
    checker.finish()
    result = checker.bindings.resolve(root.type)
    if derives and not _is_attribute(result):
        raise ErrorValue(
            f"a derived attribute must be a bool, int, string, semver or a list of these, not {result}"
        )
    if not derives and result != BOOL and not _is_unknown(result):
        raise ErrorValue(f"a selector must return a bool, not {result}")
    return checker.order


def _is_unknown(cel_type: CelType) -> bool:
    return cel_type.is_dyn or cel_type.is_parameter


def _is_attribute(cel_type: CelType) -> bool:
    if cel_type.name == "list":
        cel_type = cel_type.params[0]
    return cel_type in _SCALARS or _is_unknown(cel_type)


class _Checker:
    def __init__(self) -> None:
        self.bindings = Bindings()
        self.order: list[SyntaxNode] = []
        self._scopes: list[dict[str, CelType]] = []
        self._uniform_parts: list[tuple[list[SyntaxNode], list[bool]]] = []
        self._format_depth = 0

    def check(self, node: SyntaxNode) -> Routine[None]:
        if isinstance(node, Ident):
            self._ident(node)
        elif isinstance(node, Select):
            yield self._select(node)
        elif isinstance(node, CallExpression):
            yield self._call(node)
        elif isinstance(node, ListLiteral):
            yield self._list(node)
        elif isinstance(node, MapLiteral):
            yield self._map(node)
        elif isinstance(node, Comprehension):
            yield self._comprehension(node)
        else:
            assert isinstance(node, Literal)  # noqa: S101 - there is no other kind
        self.order.append(node)
        if len(self.order) > _MAX_NODES:
            raise ErrorValue("the expression is too large after macro expansion", "optMap() repeats its target")

    def finish(self) -> None:
        """Check that all elements of each literal have one type. Call this after all types are found."""
        for parts, optional in self._uniform_parts:
            resolved = [self.bindings.resolve(part.type) for part in parts]
            types = [
                _replace_unbound(_value_type(t) if o else t) for t, o in zip(resolved, optional, strict=True)
            ]
            for part, cel_type in zip(parts, types, strict=True):
                if cel_type != types[0]:
                    raise ErrorValue(
                        f"expected {types[0]} but found {cel_type}", "a list or map holds one type", part.offset
                    )

    # --- names ----------------------------------------------------------------------------

    def _variable(self, name: str) -> CelType | None:
        return next((scope[name] for scope in reversed(self._scopes) if name in scope), None)

    def _ident(self, node: Ident) -> None:
        cel_type = None if node.absolute else self._variable(node.name)
        if cel_type is not None:
            node.type = cel_type
        elif node.name in IDENTS:
            _resolve_name(node, node.name)
        else:
            raise ErrorValue(f"undeclared name {node.name!r}", _unknown_name(node.name), node.offset)

    def _select(self, node: Select) -> Routine[None]:
        name = None if node.test or node.optional else _dotted_name(node)
        if name is not None and name in IDENTS and self._variable(name.partition(".")[0]) is None:
            _resolve_name(node, name)
            return
        yield self.check(node.operand)
        result = self._field_type(node)
        node.type = BOOL if node.test else result

    def _field_type(self, node: Select) -> CelType:
        operand = self.bindings.resolve(node.operand.type)
        is_optional = operand.name == "optional_type"
        target = operand.params[0] if is_optional else operand
        if target.is_parameter:
            self.bindings.assignable([DYN], [target])
            result = DYN
        elif target.name == "map":
            result = target.params[1]
        elif target == DEVICE:
            if node.field not in DEVICE_FIELDS:
                fields = ", ".join(DEVICE_FIELDS)
                raise ErrorValue(
                    f"a device has no field {node.field!r}", f"its fields are {fields}", node.offset
                )
            result = DEVICE_FIELDS[node.field]
        elif target.is_dyn:
            result = DYN
        else:
            raise ErrorValue(f"a {target} has no fields", _field_hint(target), node.offset)
        return optional_of(result) if is_optional or node.optional else result

    # --- calls ----------------------------------------------------------------------------

    def _call(self, node: CallExpression) -> Routine[None]:
        self._make_namespaced(node)
        is_format = node.name == "format"
        self._format_depth += is_format
        # Kubernetes checks the arguments before the receiver. The order decides which types are bound first.
        first = 1 if node.is_method else 0
        for arg in (*node.args[first:], *node.args[:first]):
            yield self.check(arg)
        self._format_depth -= is_format
        if node.name in _LOGICAL:
            self._logical(node)
            return
        if node.name not in FUNCTIONS:
            raise ErrorValue(f"there is no function {node.name!r}", offset=node.offset)
        self._resolve(node)
        if is_format:
            self._check_format(node)

    def _make_namespaced(self, node: CallExpression) -> None:
        """Turn a call such as `lists.range(3)` into a function call. The parser made it a method of `lists`."""
        if not node.is_method:
            return
        prefix = _dotted_name(node.args[0])
        if prefix is not None and f"{prefix}.{node.name}" in FUNCTIONS:
            node.name = f"{prefix}.{node.name}"
            node.is_method = False
            node.args = node.args[1:]

    def _logical(self, node: CallExpression) -> None:
        for arg in node.args:
            if not self.bindings.assignable([arg.type], [BOOL]):
                cel_type = self.bindings.resolve(arg.type)
                raise ErrorValue(f"expected bool but found {cel_type}", offset=arg.offset)
        node.type = BOOL

    def _resolve(self, node: CallExpression) -> None:
        given = [arg.type for arg in node.args]
        fitting: list[Overload] = []
        result: CelType | None = None
        for overload in FUNCTIONS[node.name]:
            if overload.is_method != node.is_method:
                continue
            params, produced = self._instantiate(overload)
            if not self.bindings.assignable(given, params):
                continue
            fitting.append(overload)
            cel_type = self.bindings.resolve(produced)
            if result is None:
                result = cel_type
            elif not result.is_dyn and cel_type != result:
                result = DYN
        if result is None:
            raise self._no_overload_error(node)
        node.overloads = tuple(fitting)
        node.type = result

    def _instantiate(self, overload: Overload) -> tuple[list[CelType], CelType]:
        """Return the overload's signature with new type parameters, so that two calls share no parameters."""
        fresh: dict[CelType, CelType] = {}
        params = [self._instantiate_type(param, fresh) for param in overload.params]
        return params, self._instantiate_type(overload.result, fresh)

    def _instantiate_type(self, declared: CelType, fresh: dict[CelType, CelType]) -> CelType:
        if declared.is_parameter:
            return fresh.setdefault(declared, self.bindings.fresh())
        if not declared.params:
            return declared
        inner = tuple(self._instantiate_type(param, fresh) for param in declared.params)
        return CelType(declared.name, inner, declared.nullable)

    def _no_overload_error(self, node: CallExpression) -> ErrorValue:
        types = [str(self.bindings.resolve(arg.type)) for arg in node.args]
        name = node.name.strip("_@")
        if node.is_method:
            return ErrorValue(f"a {types[0]} has no method {name}({', '.join(types[1:])})", None, node.offset)
        return ErrorValue(
            f"{name!r} does not apply to {', '.join(types) or 'nothing'}", _call_hint(types), node.offset
        )

    def _check_format(self, node: CallExpression) -> None:
        template, args = node.args
        if isinstance(template, Literal) and isinstance(template.value, str) and isinstance(args, ListLiteral):
            try:
                check_format(template.value, [self._types_in(element) for element in args.elements])
            except ErrorValue as fault:
                fault.offset = node.offset
                raise

    def _types_in(self, argument: SyntaxNode) -> list[str]:
        """Return the type of an argument of `format()`. For a literal, also return the types of its parts."""
        names: list[str] = []
        pending = [argument]
        while pending:
            node = pending.pop()
            cel_type = self.bindings.resolve(node.type)
            names.append("dyn" if cel_type.is_parameter else cel_type.name)
            if isinstance(node, ListLiteral):
                pending += node.elements
            elif isinstance(node, MapLiteral):
                pending += node.keys + node.values
        return names

    # --- literals -------------------------------------------------------------------------

    def _list(self, node: ListLiteral) -> Routine[None]:
        for element in node.elements:
            yield self.check(element)
        node.type = list_of(self._join_types(node.elements, node.optional))
        self._require_uniform(node.elements, node.optional)

    def _map(self, node: MapLiteral) -> Routine[None]:
        for key, value in zip(node.keys, node.values, strict=True):
            yield self.check(key)
            yield self.check(value)
        never_optional = [False] * len(node.keys)
        node.type = map_of(
            self._join_types(node.keys, never_optional), self._join_types(node.values, node.optional)
        )
        self._require_uniform(node.keys, never_optional)
        self._require_uniform(node.values, node.optional)

    def _require_uniform(self, parts: list[SyntaxNode], optional: list[bool]) -> None:
        if not self._format_depth:
            self._uniform_parts.append((parts, optional))

    def _join_types(self, parts: list[SyntaxNode], optional: Iterable[bool]) -> CelType:
        joined: CelType | None = None
        for part, is_optional in zip(parts, optional, strict=True):
            cel_type = self.bindings.resolve(part.type) if is_optional else part.type
            if is_optional and cel_type.name == "optional_type":
                cel_type = cel_type.params[0]
            elif is_optional and not cel_type.is_dyn:
                raise ErrorValue(f"expected an optional but found {cel_type}", offset=part.offset)
            if joined is None:
                joined = cel_type
            elif self.bindings.assignable([joined], [cel_type]):
                joined = join(joined, cel_type)
            else:
                joined = DYN
        return joined or self.bindings.fresh()

    # --- comprehensions -------------------------------------------------------------------

    def _comprehension(self, node: Comprehension) -> Routine[None]:
        yield self.check(node.source)
        yield self.check(node.initial)
        first, second = self._variables(node)
        self._scopes.append({node.accumulator: node.initial.type})
        variables = {node.variable: first}
        if node.variable2 is not None:
            variables[node.variable2] = second
        self._scopes.append(variables)
        yield self.check(node.condition)
        self._require_type(BOOL, node.condition)
        yield self.check(node.step)
        self._require_type(node.initial.type, node.step)
        self._scopes.pop()
        yield self.check(node.result)
        self._scopes.pop()
        node.type = self.bindings.resolve(node.result.type)

    def _variables(self, node: Comprehension) -> tuple[CelType, CelType]:
        source = self.bindings.resolve(node.source.type)
        two = node.variable2 is not None
        if source.is_parameter:
            self.bindings.assignable([DYN], [source])
            return DYN, DYN
        if source.name == "list":
            return (INT if two else source.params[0]), source.params[0]
        if source.name == "map":
            return source.params[0], source.params[1]
        if source.is_dyn:
            return DYN, DYN
        raise ErrorValue(f"a {source} has no elements", "loops need a list or a map", node.source.offset)

    def _require_type(self, wanted: CelType, node: SyntaxNode) -> None:
        if not self.bindings.assignable([wanted], [node.type]):
            actual = self.bindings.resolve(node.type)
            raise ErrorValue(f"expected {self.bindings.resolve(wanted)} but found {actual}", offset=node.offset)


def _dotted_name(node: SyntaxNode) -> str | None:
    """Return the text `a.b.c` of a dotted name; None if the node is not a dotted name."""
    fields: list[str] = []
    while isinstance(node, Select) and not node.test and not node.optional:
        fields.append(node.field)
        node = node.operand
    if not isinstance(node, Ident):
        return None
    return ".".join([node.name, *reversed(fields)])


def _resolve_name(node: Ident | Select, name: str) -> None:
    node.type = IDENTS[name]
    if name in TYPE_VALUES:
        node.constant = True
        node.value = TypeName(name)


def _unknown_name(name: str) -> str | None:
    """Return a hint for a name that is not declared; None if there is no hint."""
    if name in DEVICE_FIELDS:
        return f"write device.{name}"
    return None if name.startswith("@") else "strings need quotes"


def _value_type(cel_type: CelType) -> CelType:
    """Return the value type of an optional type. Return any other type unchanged."""
    return cel_type.params[0] if cel_type.name == "optional_type" else cel_type


def _replace_unbound(cel_type: CelType) -> CelType:
    """Return the type; `dyn` if it is a type parameter that is still unbound."""
    return DYN if cel_type.is_parameter else run(_replace_in_params(cel_type)) if cel_type.params else cel_type


def _replace_in_params(cel_type: CelType) -> Routine[CelType]:
    params: list[CelType] = []
    for inner in cel_type.params:
        param = DYN if inner.is_parameter else inner
        if param.params:
            param = yield _replace_in_params(param)
        params.append(param)
    return CelType(cel_type.name, tuple(params), cel_type.nullable)


def _field_hint(target: CelType) -> str | None:
    if target == STRING:
        return "attributes are device.attributes[domain].name"
    return (
        "quantities have methods: asInteger(), isGreaterThan(...)" if target.name.endswith("Quantity") else None
    )


def _call_hint(types: list[str]) -> str | None:
    if "kubernetes.Quantity" in types:
        return 'compare quantities with isGreaterThan(quantity("1Gi")), isLessThan(...) or compareTo(...)'
    if "kubernetes.Semver" in types:
        return 'compare versions with isGreaterThan(semver("1.0.0")), isLessThan(...) or compareTo(...)'
    return None
