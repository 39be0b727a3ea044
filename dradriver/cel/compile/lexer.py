"""Splits an expression into tokens, by the lexical grammar of CEL as implemented in cel-go."""

import re
from dataclasses import dataclass
from typing import Final

from dradriver.cel.evaluate.errors import ErrorValue

__all__ = ["RESERVED", "Token", "tokenize", "unescape_bytes", "unescape_text"]

RESERVED: Final = frozenset({
    "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "package",
    "namespace", "return", "var", "void", "while",
})  # fmt: skip
"""Words that can name a field but not a variable or function."""

_ESCAPE: Final = r"""\\(?:[abfnrtv"'\\?`]|[0-3][0-7][0-7]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"""
_STRING: Final = rf'''(?:
    [rR]"""[\s\S]*?""" | [rR]\'\'\'[\s\S]*?\'\'\' | [rR]"[^"\n\r]*" | [rR]'[^'\n\r]*'
  | """(?:{_ESCAPE}|[^\\])*?""" | \'\'\'(?:{_ESCAPE}|[^\\])*?\'\'\'
  | "(?:{_ESCAPE}|[^\\"\n\r])*" | '(?:{_ESCAPE}|[^\\'\n\r])*')'''
_TOKEN: Final = re.compile(
    rf"""
    (?P<space>(?:[\t \r\n\f]|//[^\n]*)+)
  | (?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
  | (?P<uint>0x[0-9a-fA-F]+[uU]|[0-9]+[uU])
  | (?P<int>0x[0-9a-fA-F]+|[0-9]+)
  | (?P<bytes>[bB]{_STRING})
  | (?P<string>{_STRING})
  | (?P<name>[A-Za-z_][A-Za-z_0-9]*)
  | (?P<quoted>`[A-Za-z0-9_.\-/ ]+`)
  | (?P<sign>==|!=|<=|>=|&&|\|\||[<>\[\]{{}}().,\-!?:+*/%])
    """,
    re.VERBOSE,
)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_WORD_SIGNS: Final = frozenset({"in"})
_LITERALS: Final = frozenset({"true", "false", "null"})
_UNESCAPE: Final = re.compile(_ESCAPE)
_SINGLE: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    '"': '"', "'": "'", "\\": "\\", "?": "?", "`": "`",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Token:
    """One token.

    Attributes:
        kind: `int`, `uint`, `float`, `string`, `bytes`, `name`, `quoted`, `literal`, `sign` or `end`.
        text: the source text.
        offset: the offset of its first character.
    """

    kind: str
    text: str
    offset: int


def tokenize(expression: str) -> list[Token]:
    """Return all tokens of an expression. The last one is an `end` token.

    Raises:
        ErrorValue: the expression contains a character with which no token can start.
    """
    tokens: list[Token] = []
    offset = 0
    has_surrogate = _SURROGATE.search(expression) is not None
    while offset < len(expression):
        match = _TOKEN.match(expression, offset)
        if match is None:
            hint = "equality is written ==" if expression[offset] == "=" else None
            raise ErrorValue(f"unexpected {expression[offset]!r}", hint, offset)
        if has_surrogate and _SURROGATE.search(match.group()):
            raise ErrorValue("unpaired surrogate: the text is not valid Unicode", offset=offset)
        kind, text = match.lastgroup or "", match.group()
        if kind == "name" and text in _WORD_SIGNS:
            kind = "sign"
        elif kind == "name" and text in _LITERALS:
            kind = "literal"
        if kind != "space":
            tokens.append(Token(kind, text, offset))
        offset = match.end()
    tokens.append(Token("end", "", len(expression)))
    return tokens


def unescape_text(literal: str) -> str:
    """Return the value of a string literal. `literal` includes the quotes and the prefix.

    Raises:
        ErrorValue: an escape sequence is not a character.
    """
    body, raw = _body(literal)
    return body if raw else _UNESCAPE.sub(_character, body)


def unescape_bytes(literal: str) -> bytes:
    r"""Return the value of a bytes literal. `\x` and octal escapes are bytes, all other text is UTF-8.

    Raises:
        ErrorValue: the literal has a Unicode escape, which is not allowed in bytes.
    """
    body, raw = _body(literal[1:])
    if raw:
        return body.encode()
    parts: list[bytes] = []
    end = 0
    for match in _UNESCAPE.finditer(body):
        parts += (body[end : match.start()].encode(), _byte(match.group()))
        end = match.end()
    parts.append(body[end:].encode())
    return b"".join(parts)


def _body(literal: str) -> tuple[str, bool]:
    raw = literal[0] in "rR"
    text = literal[1:] if raw else literal
    quote = 3 if text[:3] in {'"""', "'''"} else 1
    return text[quote:-quote], raw


def _character(match: re.Match[str]) -> str:
    escape = match.group()[1:]
    if escape in _SINGLE:
        return _SINGLE[escape]
    code = int(escape[1:], 16) if escape[0] in "xXuU" else int(escape, 8)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise ErrorValue(f"\\{escape} is not a Unicode character")
    return chr(code)


def _byte(escape: str) -> bytes:
    if escape[1] in "uU":
        raise ErrorValue(f"{escape} is not allowed in bytes")
    if escape[1:] in _SINGLE:
        return _SINGLE[escape[1:]].encode()
    return bytes([int(escape[2:], 16) if escape[1] in "xX" else int(escape[1:], 8)])
