"""Recognizes an expression that compares one attribute with literals.

Such an expression has a result on every device whose attribute has a suitable type. So a caller knows without
evaluating it that it does not fail there.
"""

from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from dradriver.cel.compile.analysis.bounds import MAX_DEVICE_SIZE
from dradriver.cel.compile.environment import SelectorDevice
from dradriver.cel.compile.syntax import CallExpression, Ident, Literal, Select, SyntaxNode
from dradriver.cel.library.semver import Semver

__all__ = ["Comparison", "Plain", "find_comparison"]

Plain: TypeAlias = str | int | bool
_Classes: TypeAlias = frozenset[type]

_PLAIN: Final[_Classes] = frozenset({bool, int, str, tuple})
_ALL: Final = _PLAIN | {Semver}
_ORDERS: Final = frozenset({"_<_", "_<=_", "_>_", "_>=_"})
_TEXT_TESTS: Final = frozenset({"startsWith", "endsWith", "contains"})
_MEMBERS: Final[_Classes] = frozenset({bool, int, str})


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of one attribute with literals.

    Attributes:
        domain: the domain of the attribute.
        attribute: the name of the attribute, without its domain.
        equals: the literal, if the comparison is true for exactly the devices on which the attribute has this
            value; otherwise None. In Python `True == 1`, so a caller that looks up values must compare types.
        classes: the Python classes of values for which the comparison does not fail.
        default: the value that stands for a missing attribute; None if the comparison then fails.
        is_equality: whether the comparison is `==` with a text, int or bool.
    """

    domain: str
    attribute: str
    equals: Plain | None
    classes: frozenset[type]
    default: Plain | None = None
    is_equality: bool = False

    def is_safe(self, device: SelectorDevice) -> bool:
        """Return whether the comparison certainly does not fail on the device.

        It is false for an unusually large device, and for one without the attribute if there is no default.

        Args:
            device: the device.
        """
        if device.size > MAX_DEVICE_SIZE:
            return False
        names = device.view["attributes"].get(self.domain)  # type: ignore[attr-defined]
        if names is None or self.attribute not in names:
            return self.default is not None
        return type(names[self.attribute]) in self.classes

    def with_literal(self, literal: Plain) -> "Comparison":
        """Return this comparison as `==` with a literal.

        Args:
            literal: the literal.
        """
        # If the default equals the literal, a device without the attribute matches too.
        is_default = type(literal) is type(self.default) and literal == self.default
        return replace(self, equals=None if is_default else literal, is_equality=True)


def find_comparison(root: SyntaxNode) -> Comparison | None:
    """Return the comparison that a checked and folded expression makes; None if it has another form.

    Recognized are `==`, `!=`, an order, `in` a list of literals, `startsWith`, `endsWith`, `contains` and the
    attribute itself, also behind `!`, and also for an attribute with `.orValue(literal)`.
    """
    is_negated = False
    while isinstance(root, CallExpression) and root.name == "!_":
        is_negated = True
        root = root.args[0]
    found = _attribute(root, frozenset({bool})) or _call(root)
    if found is not None and is_negated:
        return replace(found, equals=None, is_equality=False)
    return found


def _call(node: SyntaxNode) -> Comparison | None:
    if not isinstance(node, CallExpression) or len(node.args) != 2:
        return None
    left, right = node.args
    if node.name in {"_==_", "_!=_"}:
        return _equality(node.name, left, right)
    if node.name == "_in_":
        members = right.value if right.constant else None
        is_plain = isinstance(members, tuple) and all(type(member) in _MEMBERS for member in members)
        return _attribute(left, _PLAIN) if is_plain else None
    if node.name in _ORDERS:
        kind = type(right.value) if right.constant else None
        return _attribute(left, frozenset({kind})) if kind is int or kind is str else None
    if node.name in _TEXT_TESTS and right.constant and type(right.value) is str:
        return _attribute(left, frozenset({str}))
    return None


def _equality(name: str, left: SyntaxNode, right: SyntaxNode) -> Comparison | None:
    literal, other = (right, left) if isinstance(right, Literal) else (left, right)
    if not isinstance(literal, Literal):
        return None
    # `==` fails only if a version is on its left, and a value of another type on its right.
    may_fail = name == "_==_" and other is left
    found = _attribute(other, _PLAIN if may_fail else _ALL)
    value = literal.value
    if found is not None and name == "_==_" and isinstance(value, str | int) and type(value) in _MEMBERS:
        return found.with_literal(value)
    return found


def _attribute(node: SyntaxNode, classes: _Classes) -> Comparison | None:
    """Return the comparison of an attribute whose domain and name are constant.

    Args:
        node: the attribute, or `.orValue(literal)` of the optional attribute.
        classes: the Python classes of values for which the comparison does not fail.
    """
    default: Plain | None = None
    has_default = isinstance(node, CallExpression) and node.name == "orValue"
    if isinstance(node, CallExpression) and has_default:
        node, alternative = node.args
        value = alternative.value
        if not isinstance(value, str | int) or type(value) not in _MEMBERS & classes:
            return None
        default = value
    name, names = _member(node, optional=has_default)
    domain, domains = _member(names)
    if name is None or domain is None or not isinstance(domains, Select) or domains.field != "attributes":
        return None
    device = domains.operand
    is_device = isinstance(device, Ident) and not domains.test and not domains.optional
    return Comparison(domain, name, None, classes, default) if is_device else None


def _member(node: SyntaxNode | None, *, optional: bool = False) -> tuple[str | None, SyntaxNode | None]:
    """Return the constant name and the operand of `operand.name` or `operand[name]`; None if there is none.

    Args:
        node: any node.
        optional: whether the access is optional: `operand.?name` or `operand[?name]`.
    """
    if isinstance(node, Select) and not node.test and node.optional is optional:
        return node.field, node.operand
    if isinstance(node, CallExpression) and node.name == ("_[?_]" if optional else "_[_]"):
        operand, index = node.args
        return (index.value if isinstance(index.value, str) else None), operand
    return None, None
