"""Finds the type of every part of an expression, and the overloads that a call can use.

An error found here occurs on every device, so it is reported when the selector is compiled. Attributes are
`dyn`. A call with a `dyn` argument keeps every overload that may fit, and the choice is made for each device.
Source: cel-go's checker and the validators that Kubernetes enables.
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
_MOST_NODES: Final = 12_000
"""Maximum number of nodes of a checked expression.

An expression of 10 KiB has fewer, unless a macro repeats its target.
"""

_LOGICAL: Final = frozenset({"_&&_", "_||_"})


def check(root: SyntaxNode, *, derives: bool = False) -> list[SyntaxNode]:
    """Check a whole expression and return its nodes, each after its parts.

    Args:
        root: the expression.
        derives: True for a derived attribute, False for a selector.

    Raises:
        ErrorValue: a part can't work on any device, or the result is not a bool (a selector) or not an
            attribute (a derived attribute).
    """
    checker = _Checker()
    run(checker.check(root))
    checker.finish()
    result = checker.bindings.resolve(root.type)
    if derives and not _is_attribute(result):
        raise ErrorValue(
            f"a derived attribute is a bool, int, string, semver or a list of these, this is {result}"
        )
    if not derives and result != BOOL and not _is_unknown(result):
        raise ErrorValue(f"a selector gives a bool, this gives {result}")
    return checker.order


def _is_unknown(found: CelType) -> bool:
    return found.is_dyn or found.is_parameter


def _is_attribute(found: CelType) -> bool:
    if found.name == "list":
        found = found.params[0]
    return found in _SCALARS or _is_unknown(found)


class _Checker:
    def __init__(self) -> None:
        self.bindings = Bindings()
        self.order: list[SyntaxNode] = []
        self._scopes: list[dict[str, CelType]] = []
        self._uniform: list[tuple[list[SyntaxNode], list[bool]]] = []
        self._formatting = 0

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
        if len(self.order) > _MOST_NODES:
            raise ErrorValue(
                "it is too large when its macros are expanded", "optMap() repeats what it is called on"
            )

    def finish(self) -> None:
        """Check that all elements of each literal have one type, which is known only after all types."""
        for parts, optional in self._uniform:
            found_types = [self.bindings.resolve(part.type) for part in parts]
            types = [_settled(_held(t) if o else t) for t, o in zip(found_types, optional, strict=True)]
            for part, found in zip(parts, types, strict=True):
                if found != types[0]:
                    raise ErrorValue(
                        f"expected {types[0]} but found {found}", "a list or map holds one type", part.offset
                    )

    # --- names ----------------------------------------------------------------------------

    def _variable(self, name: str) -> CelType | None:
        return next((scope[name] for scope in reversed(self._scopes) if name in scope), None)

    def _ident(self, node: Ident) -> None:
        found = None if node.absolute else self._variable(node.name)
        if found is not None:
            node.type = found
        elif node.name in IDENTS:
            _settle_name(node, node.name)
        else:
            raise ErrorValue(f"undeclared name {node.name!r}", _unknown_name(node.name), node.offset)

    def _select(self, node: Select) -> Routine[None]:
        name = None if node.test or node.optional else _dotted(node)
        if name is not None and name in IDENTS and self._variable(name.partition(".")[0]) is None:
            _settle_name(node, name)
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
                raise ErrorValue(f"a device has no field {node.field!r}", f"it has {fields}", node.offset)
            result = DEVICE_FIELDS[node.field]
        elif target.is_dyn:
            result = DYN
        else:
            raise ErrorValue(f"a {target} has no fields", _field_hint(target), node.offset)
        return optional_of(result) if is_optional or node.optional else result

    # --- calls ----------------------------------------------------------------------------

    def _call(self, node: CallExpression) -> Routine[None]:
        self._as_namespaced(node)
        exempt = node.name == "format"
        self._formatting += exempt
        # Kubernetes checks the arguments before the receiver; this order decides which types are bound first.
        first = 1 if node.is_method else 0
        for arg in (*node.args[first:], *node.args[:first]):
            yield self.check(arg)
        self._formatting -= exempt
        if node.name in _LOGICAL:
            self._logical(node)
            return
        if node.name not in FUNCTIONS:
            raise ErrorValue(f"there is no function {node.name!r}", offset=node.offset)
        self._resolve(node)
        if exempt:
            self._check_format(node)

    def _as_namespaced(self, node: CallExpression) -> None:
        """Turn `lists.range(3)` into a function call. The parser reads it as a method of `lists`."""
        if not node.is_method:
            return
        prefix = _dotted(node.args[0])
        if prefix is not None and f"{prefix}.{node.name}" in FUNCTIONS:
            node.name = f"{prefix}.{node.name}"
            node.is_method = False
            node.args = node.args[1:]

    def _logical(self, node: CallExpression) -> None:
        for arg in node.args:
            if not self.bindings.assignable([arg.type], [BOOL]):
                shown = self.bindings.resolve(arg.type)
                raise ErrorValue(f"expected bool but found {shown}", offset=arg.offset)
        node.type = BOOL

    def _resolve(self, node: CallExpression) -> None:
        given = [arg.type for arg in node.args]
        fitting: list[Overload] = []
        result: CelType | None = None
        for overload in FUNCTIONS[node.name]:
            if overload.is_method != node.is_method:
                continue
            params, produced = self._instance(overload)
            if not self.bindings.assignable(given, params):
                continue
            fitting.append(overload)
            found = self.bindings.resolve(produced)
            if result is None:
                result = found
            elif not result.is_dyn and found != result:
                result = DYN
        if result is None:
            raise self._no_overload(node)
        node.overloads = tuple(fitting)
        node.type = result

    def _instance(self, overload: Overload) -> tuple[list[CelType], CelType]:
        """Return the signature with its own type parameters, so that two calls do not share them."""
        fresh: dict[CelType, CelType] = {}
        params = [self._instantiated(param, fresh) for param in overload.params]
        return params, self._instantiated(overload.result, fresh)

    def _instantiated(self, declared: CelType, fresh: dict[CelType, CelType]) -> CelType:
        if declared.is_parameter:
            return fresh.setdefault(declared, self.bindings.fresh())
        if not declared.params:
            return declared
        inner = tuple(self._instantiated(param, fresh) for param in declared.params)
        return CelType(declared.name, inner, declared.nullable)

    def _no_overload(self, node: CallExpression) -> ErrorValue:
        shown = [str(self.bindings.resolve(arg.type)) for arg in node.args]
        name = node.name.strip("_@")
        if node.is_method:
            return ErrorValue(f"a {shown[0]} has no method {name}({', '.join(shown[1:])})", None, node.offset)
        return ErrorValue(
            f"{name!r} does not apply to {', '.join(shown) or 'nothing'}", _call_hint(shown), node.offset
        )

    def _check_format(self, node: CallExpression) -> None:
        template, args = node.args
        if isinstance(template, Literal) and isinstance(template.value, str) and isinstance(args, ListLiteral):
            try:
                check_format(template.value, [self._shown_types(element) for element in args.elements])
            except ErrorValue as fault:
                fault.offset = node.offset
                raise

    def _shown_types(self, shown: SyntaxNode) -> list[str]:
        """Return the type of an argument of `format()`, and of each part of it if it is a literal."""
        names: list[str] = []
        pending = [shown]
        while pending:
            node = pending.pop()
            found = self.bindings.resolve(node.type)
            names.append("dyn" if found.is_parameter else found.name)
            if isinstance(node, ListLiteral):
                pending += node.elements
            elif isinstance(node, MapLiteral):
                pending += node.keys + node.values
        return names

    # --- literals -------------------------------------------------------------------------

    def _list(self, node: ListLiteral) -> Routine[None]:
        for element in node.elements:
            yield self.check(element)
        node.type = list_of(self._joined(node.elements, node.optional))
        self._must_be_uniform(node.elements, node.optional)

    def _map(self, node: MapLiteral) -> Routine[None]:
        for key, value in zip(node.keys, node.values, strict=True):
            yield self.check(key)
            yield self.check(value)
        always = [False] * len(node.keys)
        node.type = map_of(self._joined(node.keys, always), self._joined(node.values, node.optional))
        self._must_be_uniform(node.keys, always)
        self._must_be_uniform(node.values, node.optional)

    def _must_be_uniform(self, parts: list[SyntaxNode], optional: list[bool]) -> None:
        if not self._formatting:
            self._uniform.append((parts, optional))

    def _joined(self, parts: list[SyntaxNode], optional: Iterable[bool]) -> CelType:
        joined: CelType | None = None
        for part, may_lack in zip(parts, optional, strict=True):
            found = self.bindings.resolve(part.type) if may_lack else part.type
            if may_lack and found.name == "optional_type":
                found = found.params[0]
            elif may_lack and not found.is_dyn:
                raise ErrorValue(f"expected an optional but found {found}", offset=part.offset)
            if joined is None:
                joined = found
            elif self.bindings.assignable([joined], [found]):
                joined = join(joined, found)
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
        self._must_be(BOOL, node.condition)
        yield self.check(node.step)
        self._must_be(node.initial.type, node.step)
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

    def _must_be(self, wanted: CelType, node: SyntaxNode) -> None:
        if not self.bindings.assignable([wanted], [node.type]):
            shown = self.bindings.resolve(node.type)
            raise ErrorValue(f"expected {self.bindings.resolve(wanted)} but found {shown}", offset=node.offset)


def _dotted(node: SyntaxNode) -> str | None:
    """Return `a.b.c` as text; None if the expression is anything else."""
    fields: list[str] = []
    while isinstance(node, Select) and not node.test and not node.optional:
        fields.append(node.field)
        node = node.operand
    if not isinstance(node, Ident):
        return None
    return ".".join([node.name, *reversed(fields)])


def _settle_name(node: Ident | Select, name: str) -> None:
    node.type = IDENTS[name]
    if name in TYPE_VALUES:
        node.constant = True
        node.value = TypeName(name)


def _unknown_name(name: str) -> str | None:
    """Return a hint for a name that is not declared; None if there is none."""
    if name in DEVICE_FIELDS:
        return f"write device.{name}"
    return None if name.startswith("@") else "strings need quotes"


def _held(found: CelType) -> CelType:
    """Return the value type of an optional type; any other type unchanged."""
    return found.params[0] if found.name == "optional_type" else found


def _settled(found: CelType) -> CelType:
    """Return the type, with `dyn` for a parameter that is still unbound."""
    return DYN if found.is_parameter else run(_settle(found)) if found.params else found


def _settle(found: CelType) -> Routine[CelType]:
    params: list[CelType] = []
    for inner in found.params:
        param = DYN if inner.is_parameter else inner
        if param.params:
            param = yield _settle(param)
        params.append(param)
    return CelType(found.name, tuple(params), found.nullable)


def _field_hint(target: CelType) -> str | None:
    if target == STRING:
        return "attributes are device.attributes[domain].name"
    return (
        "quantities have methods: asInteger(), isGreaterThan(...)" if target.name.endswith("Quantity") else None
    )


def _call_hint(shown: list[str]) -> str | None:
    if "kubernetes.Quantity" in shown:
        return 'compare quantities with isGreaterThan(quantity("1Gi")), isLessThan(...) or compareTo(...)'
    if "kubernetes.Semver" in shown:
        return 'compare versions with isGreaterThan(semver("1.0.0")), isLessThan(...) or compareTo(...)'
    return None
