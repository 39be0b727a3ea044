"""Finds what expressions with different literals have in common.

A literal beside `==` or `!=` changes nothing about the compiled form of an expression except one constant. All
other literals may change it: they are folded, name attributes and domains, or are patterns, quantities or
versions.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

from dradriver.cel.compile.lexer import Token
from dradriver.cel.compile.syntax import CallExpression, Literal, SyntaxNode, parts

__all__ = ["Skeleton", "find_skeleton", "has_free_literals"]

SkeletonKey: TypeAlias = tuple[str, ...]

_EQUALITIES: Final = frozenset({"==", "!="})
_CALLS: Final = frozenset({"_==_", "_!=_"})
_BEFORE: Final = frozenset({"(", "[", ",", "&&", "||", "?", ":"})
"""Tokens before an expression. A literal between one of them and `==` is the left operand of `==`."""

_TIGHTER: Final = frozenset({".", "[", "{", "+", "-", "*", "/", "%"})
"""Tokens that bind a literal before them more than `==` does."""

_PLACEHOLDERS: Final = {"string": '"', "int": "#"}
"""What stands for a literal in the key. No token has one of these texts."""


class Skeleton(NamedTuple):
    """The tokens of an expression without the literals that may vary.

    Attributes:
        key: equal keys belong to expressions that differ only in the literals that may vary, and in spaces.
        literals: the literals that may vary, in the order of the text.
    """

    key: SkeletonKey
    literals: tuple[Token, ...]


def find_skeleton(tokens: list[Token]) -> Skeleton:
    """Return the skeleton of an expression. The result does not depend on the values of the literals."""
    texts = [token.text for token in tokens]
    key = texts.copy()
    literals: dict[int, Token] = {}
    for position, text in enumerate(texts):
        if text not in _EQUALITIES:
            continue
        left, right = position - 1, position + 1
        if left == 0 or (left > 0 and texts[left - 1] in _BEFORE):
            _remove(tokens, key, left, literals)
        if right < len(texts) - 1 and texts[right + 1] not in _TIGHTER:
            _remove(tokens, key, right, literals)
    return Skeleton(tuple(key), tuple(literals.values()))


def _remove(tokens: list[Token], key: list[str], position: int, literals: dict[int, Token]) -> None:
    placeholder = _PLACEHOLDERS.get(tokens[position].kind)
    if placeholder is not None:
        key[position] = placeholder
        literals[position] = tokens[position]


def has_free_literals(nodes: Iterable[SyntaxNode], offsets: frozenset[int]) -> bool:
    """Return whether each literal at these offsets is only an operand of `==` or `!=`.

    `find_skeleton` guesses this from the neighbors of a token; the tree proves it.

    Args:
        nodes: all nodes of the tree, with expanded macros.
        offsets: the offsets of the literals.
    """
    return all(
        isinstance(node, CallExpression) and node.name in _CALLS
        for node in nodes
        for part in parts(node)
        if isinstance(part, Literal) and part.offset in offsets
    )
