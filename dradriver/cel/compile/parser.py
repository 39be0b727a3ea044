"""Builds the syntax tree from tokens. Nested parts are parsed with `run`, so they can't exhaust the stack."""

from collections.abc import Callable
from typing import Final

from dradriver.cel.compile.lexer import RESERVED, Token, unescape_bytes, unescape_text
from dradriver.cel.compile.macros import expand_call, expand_method
from dradriver.cel.compile.routines import Routine, run
from dradriver.cel.compile.syntax import (
    MAX_DEPTH,
    CallExpression,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
    SyntaxNode,
)
from dradriver.cel.compile.types import BOOL, BYTES, DOUBLE, INT, NULL, STRING, UINT
from dradriver.cel.evaluate.digits import parse_digits
from dradriver.cel.evaluate.errors import ErrorValue
from dradriver.cel.evaluate.values import UInt

__all__ = ["literal_value", "parse"]

_PRECEDENCE: Final = {
    "||": 1, "&&": 2,
    "==": 3, "!=": 3, "<": 3, "<=": 3, ">": 3, ">=": 3, "in": 3,
    "+": 4, "-": 4,
    "*": 5, "/": 5, "%": 5,
}  # fmt: skip
_RELATION: Final = 3
_VARIADIC: Final = frozenset({"&&", "||"})


def parse(tokens: list[Token]) -> SyntaxNode:
    """Return the tree of an expression, with expanded macros.

    Args:
        tokens: all tokens of the expression.

    Raises:
        ErrorValue: the expression is not CEL, or it is nested deeper than Kubernetes accepts.
    """
    return run(_Parser(tokens).parse_all())


def literal_value(token: Token) -> object:
    """Return the value of a literal.

    Raises:
        ErrorValue: the text of the token does not denote a value of its type.
    """
    return _literal(token, negative=False).value


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._index = 0
        self._nesting = self._arithmetic = self._relations = 0

    # --- tokens ---------------------------------------------------------------------------

    @property
    def _token(self) -> Token:
        return self._tokens[self._index]

    def _advance(self) -> Token:
        token = self._token
        self._index += 1
        return token

    def _at(self, *signs: str) -> bool:
        return self._token.kind == "sign" and self._token.text in signs

    def _accept(self, sign: str) -> bool:
        if self._at(sign):
            self._index += 1
            return True
        return False

    def _expect(self, sign: str) -> Token:
        if not self._at(sign):
            raise self._unexpected(f"expected {sign!r}")
        return self._advance()

    def _unexpected(self, expected: str) -> ErrorValue:
        token = self._token
        found = "end of the expression" if token.kind == "end" else repr(token.text)
        return ErrorValue(f"unexpected {found}: {expected}", offset=token.offset)

    # --- expressions ----------------------------------------------------------------------

    def parse_all(self) -> Routine[SyntaxNode]:
        node: SyntaxNode = yield self._expression()
        if self._token.kind != "end":
            raise self._unexpected("expected an operator or the end")
        return node

    def _expression(self) -> Routine[SyntaxNode]:
        self._nesting += 1
        if self._nesting > MAX_DEPTH:
            raise self._too_deep(self._token.offset)
        node: SyntaxNode = yield self._operation()
        if self._at("?"):
            offset = self._advance().offset
            yes: SyntaxNode = yield self._operation()
            self._expect(":")
            no: SyntaxNode = yield self._expression()
            node = self._deeper(CallExpression(offset, "_?_:_", [node, yes, no]))
        self._nesting -= 1
        return node

    def _operation(self) -> Routine[SyntaxNode]:
        """Parse operands joined by binary operators."""
        operands: list[SyntaxNode] = [(yield self._operand(0, 0))]
        operators: list[Token] = []
        while self._token.kind == "sign" and self._token.text in _PRECEDENCE:
            precedence = _PRECEDENCE[self._token.text]
            while operators and _PRECEDENCE[operators[-1].text] >= precedence:
                self._reduce(operands, operators)
            operators.append(self._advance())
            ranks = [_PRECEDENCE[operator.text] for operator in operators]
            arithmetic, relations = sum(rank > _RELATION for rank in ranks), ranks.count(_RELATION)
            operands.append((yield self._operand(arithmetic, relations)))
        while operators:
            self._reduce(operands, operators)
        return operands[0]

    def _operand(self, arithmetic: int, relations: int) -> Routine[SyntaxNode]:
        """Parse the operand to the right of some operators.

        The arguments are the numbers of arithmetic operators and of relations among these operators. Each of
        them opens a rule of Kubernetes' grammar, and Kubernetes limits how many rules are open at once.
        """
        self._arithmetic += 1 + arithmetic
        self._relations += 1 + relations
        if max(self._arithmetic, self._relations) > MAX_DEPTH:
            raise self._too_deep(self._token.offset)
        node: SyntaxNode = yield self._unary()
        self._arithmetic -= 1 + arithmetic
        self._relations -= 1 + relations
        return node

    def _too_deep(self, offset: int) -> ErrorValue:
        return ErrorValue(f"nested deeper than {MAX_DEPTH} levels", offset=offset)

    def _reduce(self, operands: list[SyntaxNode], operators: list[Token]) -> None:
        operator = operators.pop()
        right, left = operands.pop(), operands.pop()
        name = f"_{operator.text}_"
        if operator.text not in _VARIADIC:
            operands.append(self._deeper(CallExpression(operator.offset, name, [left, right])))
        elif isinstance(left, CallExpression) and left.name == name:
            # A chain of one operator is one node, so a chain of 400 terms is not 400 levels deep.
            left.args.append(right)
            left.depth = max(left.depth, right.depth)
            operands.append(left)
        else:
            operands.append(CallExpression(operator.offset, name, [left, right]))

    def _deeper(self, node: CallExpression) -> SyntaxNode:
        node.depth += 1
        if node.depth > MAX_DEPTH:
            raise self._too_deep(node.offset)
        return node

    def _unary(self) -> Routine[SyntaxNode]:
        if not self._at("!", "-") or self._is_negative_literal():
            member: SyntaxNode = yield self._member()
            return member
        sign = self._token
        count = 0
        while self._accept(sign.text):
            count += 1
        operand: SyntaxNode = yield self._member()
        return CallExpression(sign.offset, f"{sign.text}_", [operand]) if count % 2 else operand

    def _is_negative_literal(self) -> bool:
        return self._at("-") and self._tokens[self._index + 1].kind in {"int", "float"}

    def _member(self) -> Routine[SyntaxNode]:
        node: SyntaxNode = yield self._primary()
        while self._at(".", "[", "{"):
            sign = self._advance()
            if sign.text == "{":
                raise ErrorValue("a selector can't build objects", offset=sign.offset)
            node = yield self._index_of(node, sign) if sign.text == "[" else self._field_of(node, sign)
            if node.depth > MAX_DEPTH:
                raise self._too_deep(node.offset)
        return node

    def _index_of(self, operand: SyntaxNode, sign: Token) -> Routine[SyntaxNode]:
        optional = self._accept("?")
        index: SyntaxNode = yield self._expression()
        self._expect("]")
        return self._deeper(CallExpression(sign.offset, "_[?_]" if optional else "_[_]", [operand, index]))

    def _field_of(self, operand: SyntaxNode, sign: Token) -> Routine[SyntaxNode]:
        optional = self._accept("?")
        if self._token.kind not in {"name", "quoted"}:
            raise self._unexpected("expected the name of a field or method")
        name = self._advance()
        if optional or name.kind == "quoted" or not self._at("("):
            return Select(sign.offset, operand, name.text.strip("`"), optional=optional)
        opening = self._advance().offset
        args: list[SyntaxNode] = yield self._arguments()
        return expand_method(opening, name.text, operand, args) or self._deeper(
            CallExpression(opening, name.text, [operand, *args], is_method=True)
        )

    def _arguments(self) -> Routine[list[SyntaxNode]]:
        args: list[SyntaxNode] = []
        while not self._accept(")"):
            if args:
                self._expect(",")
            args.append((yield self._expression()))
        return args

    # --- primaries ------------------------------------------------------------------------

    def _primary(self) -> Routine[SyntaxNode]:
        token = self._token
        if token.kind in {"sign", "name"}:
            node: SyntaxNode = (
                yield self._bracketed(token) if token.kind == "sign" else self._named(absolute=False)
            )
            return node
        if token.kind in {"end", "quoted"}:
            raise self._unexpected("expected a value")
        return _literal(self._advance(), negative=False)

    def _bracketed(self, token: Token) -> Routine[SyntaxNode]:
        if self._is_negative_literal():
            self._advance()
            return _literal(self._advance(), negative=True)
        if not self._at("(", "[", "{", "."):
            raise self._unexpected("expected a value")
        self._advance()
        if token.text == "(":
            node: SyntaxNode = yield self._expression()
            self._expect(")")
        elif token.text == ".":
            node = yield self._named(absolute=True)
        else:
            node = yield self._list(token) if token.text == "[" else self._map(token)
        return node

    def _named(self, *, absolute: bool) -> Routine[SyntaxNode]:
        if self._token.kind != "name":
            raise self._unexpected("expected a name")
        name = self._advance()
        if name.text in RESERVED:
            raise ErrorValue(f"{name.text} is a reserved word", offset=name.offset)
        if not self._at("("):
            return Ident(name.offset, name.text, absolute=absolute)
        opening = self._advance().offset
        args: list[SyntaxNode] = yield self._arguments()
        return expand_call(opening, name.text, args) or CallExpression(opening, name.text, args)

    def _list(self, opening: Token) -> Routine[SyntaxNode]:
        elements: list[SyntaxNode] = []
        optional: list[bool] = []
        while not self._at("]", ","):
            optional.append(self._accept("?"))
            elements.append((yield self._expression()))
            if not self._accept(","):
                break
        if not elements:
            self._accept(",")
        self._expect("]")
        return ListLiteral(opening.offset, elements, optional)

    def _map(self, opening: Token) -> Routine[SyntaxNode]:
        keys: list[SyntaxNode] = []
        values: list[SyntaxNode] = []
        optional: list[bool] = []
        while not self._at("}", ","):
            optional.append(self._accept("?"))
            keys.append((yield self._expression()))
            self._expect(":")
            values.append((yield self._expression()))
            if not self._accept(","):
                break
        if not keys:
            self._accept(",")
        self._expect("}")
        return MapLiteral(opening.offset, keys, values, optional)


def _literal(token: Token, *, negative: bool) -> Literal:
    try:
        return _LITERALS[token.kind](token, negative)
    except ErrorValue as fault:
        fault.offset = token.offset
        raise


def _int(token: Token, negative: bool) -> Literal:  # noqa: FBT001 - the sign that stood before
    value = parse_digits(token.text, 16 if token.text.startswith("0x") else 10)
    value = -value if negative else value
    if not -(2**63) <= value < 2**63:
        raise ErrorValue("an int has 64 bits", f"{token.text} does not fit")
    return Literal(token.offset, value, INT)


def _uint(token: Token, negative: bool) -> Literal:  # noqa: FBT001, ARG001
    digits = token.text[:-1]
    value = parse_digits(digits, 16 if digits.startswith("0x") else 10)
    if value >= 2**64:
        raise ErrorValue("a uint has 64 bits", f"{token.text} does not fit")
    return Literal(token.offset, UInt(value), UINT)


def _float(token: Token, negative: bool) -> Literal:  # noqa: FBT001
    value = float(token.text)
    if value == float("inf"):
        raise ErrorValue(f"{token.text} is too large for a double")
    return Literal(token.offset, -value if negative else value, DOUBLE)


def _word(token: Token, negative: bool) -> Literal:  # noqa: FBT001, ARG001
    if token.text == "null":
        return Literal(token.offset, None, NULL)
    return Literal(token.offset, token.text == "true", BOOL)


def _string(token: Token, negative: bool) -> Literal:  # noqa: FBT001, ARG001
    return Literal(token.offset, unescape_text(token.text), STRING)


def _bytes(token: Token, negative: bool) -> Literal:  # noqa: FBT001, ARG001
    return Literal(token.offset, unescape_bytes(token.text), BYTES)


_LITERALS: Final[dict[str, Callable[[Token, bool], Literal]]] = {
    "int": _int,
    "uint": _uint,
    "float": _float,
    "literal": _word,
    "string": _string,
    "bytes": _bytes,
}
