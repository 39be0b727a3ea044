"""Splits the text of an expression at its outermost `&&`, without parsing it."""

from typing import Final

from dradriver.cel.compile.lexer import Token, tokenize

__all__ = ["split_text"]

_OPENING: Final = frozenset({"(", "[", "{"})
_CLOSING: Final = frozenset({")", "]", "}"})
_LOOSER: Final = frozenset({"||", "?"})
"""Operators that bind less than `&&`."""


def split_text(expression: str) -> list[str]:
    """Return the texts of the operands that the outermost `&&` joins; the whole text if there is none.

    Parentheses around `&&` are removed: `(a && b) && c` has three operands.

    Args:
        expression: a text that compiles.
    """
    tokens = tokenize(expression)
    partners = _partners(tokens)
    pieces: list[str] = []
    pending = [(0, len(tokens) - 1)]
    while pending:
        start, end = pending.pop()
        while tokens[start].text == "(" and partners[start] == end - 1:
            start, end = start + 1, end - 1
        joints = _joints(tokens, partners, start, end)
        if joints:
            bounds = [start, *(joint + 1 for joint in joints)], [*joints, end]
            pending += reversed(list(zip(*bounds, strict=True)))
        else:
            last = tokens[end - 1]
            pieces.append(expression[tokens[start].offset : last.offset + len(last.text)])
    return pieces


def _partners(tokens: list[Token]) -> dict[int, int]:
    """Return the position of the closing bracket for the position of each opening one."""
    partners: dict[int, int] = {}
    opened: list[int] = []
    for position, token in enumerate(tokens):
        if token.text in _OPENING:
            opened.append(position)
        elif token.text in _CLOSING:
            partners[opened.pop()] = position
    return partners


def _joints(tokens: list[Token], partners: dict[int, int], start: int, end: int) -> list[int]:
    """Return the positions of `&&` outside of brackets; none if a looser operator stands beside them."""
    joints: list[int] = []
    position = start
    while position < end:
        text = tokens[position].text
        if text in _LOOSER and tokens[position - 1].text != ".":
            return []
        if text == "&&":
            joints.append(position)
        position = partners.get(position, position) + 1
    return joints
