"""CEL's standard functions: operators, sizes, texts and conversions."""

import math
from collections.abc import Callable
from decimal import Decimal
from itertools import permutations
from typing import Final

from dradriver.cel.compile.functions import Overload, function, method, never_called
from dradriver.cel.evaluate.cost import concat_cost, first_cost, no_cost, search_cost, second_cost, smaller_cost
from dradriver.cel.evaluate.digits import parse_digits
from dradriver.cel.evaluate.equality import compare, contains, equal, is_same, require_hashable
from dradriver.cel.evaluate.errors import ErrorValue, excerpt
from dradriver.cel.evaluate.steps import LONG_TEXT, Spend, both_work, first_work, fixed_work, search_steps
from dradriver.cel.evaluate.values import Joined, TypeName, UInt, size_of, to_key, type_name

__all__ = ["OVERLOADS", "checked_int", "checked_uint", "double_text"]

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1


def checked_int(value: int) -> int:
    """Return `value` if it fits an int of CEL.

    Raises:
        ErrorValue: the value does not fit 64 bits.
    """
    if INT_MIN <= value <= INT_MAX:
        return value
    raise ErrorValue("integer overflow")


def checked_uint(value: int) -> UInt:
    """Return `value` as a uint.

    Raises:
        ErrorValue: the value is negative or does not fit 64 bits.
    """
    if 0 <= value < 2**64:
        return UInt(value)
    raise ErrorValue("unsigned integer overflow")


def _divide(left: int, right: int) -> int:
    if right == 0:
        raise ErrorValue("division by zero")
    magnitude = abs(left) // abs(right)
    return magnitude if (left < 0) == (right < 0) else -magnitude


def _remainder(left: int, right: int) -> int:
    if right == 0:
        raise ErrorValue("modulus by zero")
    if left == INT_MIN and right == -1:
        raise ErrorValue("integer overflow")
    return left - right * _divide(left, right)


def _divide_doubles(left: float, right: float) -> float:
    if right != 0.0:
        return left / right
    if left == 0.0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def _multiply_doubles(left: float, right: float) -> float:
    return left * right


def _join(left: tuple[object, ...], right: tuple[object, ...]) -> object:
    if not left:
        return right
    return Joined((*left, *right)) if right else left


_ARITHMETIC: Final = (
    function("_+_(int, int): int", lambda a, b: checked_int(a + b)),
    function("_+_(uint, uint): uint", lambda a, b: checked_uint(int(a) + int(b))),
    function("_+_(double, double): double", lambda a, b: a + b),
    function("_+_(string, string): string", lambda a, b: a + b, concat_cost, work=both_work(32)),
    function("_+_(bytes, bytes): bytes", lambda a, b: a + b, concat_cost, work=both_work(32)),
    function("_+_(list(A), list(A)): list(A)", _join, work=both_work(6)),
    function("_-_(int, int): int", lambda a, b: checked_int(a - b)),
    function("_-_(uint, uint): uint", lambda a, b: checked_uint(int(a) - int(b))),
    function("_-_(double, double): double", lambda a, b: a - b),
    function("_*_(int, int): int", lambda a, b: checked_int(a * b)),
    function("_*_(uint, uint): uint", lambda a, b: checked_uint(int(a) * int(b))),
    function("_*_(double, double): double", _multiply_doubles),
    function("_/_(int, int): int", lambda a, b: checked_int(_divide(a, b))),
    function("_/_(uint, uint): uint", lambda a, b: checked_uint(_divide(int(a), int(b)))),
    function("_/_(double, double): double", _divide_doubles),
    function("_%_(int, int): int", _remainder),
    function("_%_(uint, uint): uint", lambda a, b: checked_uint(_remainder(int(a), int(b)))),
    function("-_(int): int", lambda a: checked_int(-a)),
    function("-_(double): double", lambda a: -a),
    function("!_(bool): bool", lambda a: not a),
)

_ORDERED_PAIRS: Final = (
    *((kind, kind) for kind in ("bool", "int", "uint", "double", "string", "bytes", "timestamp", "duration")),
    *permutations(("int", "uint", "double"), 2),
)


def _compare_work(args: list[object]) -> int:
    return 2 + min(size_of(args[0]), size_of(args[1])) // 64


def _order_overloads(name: str, test: Callable[[int], bool]) -> list[Overload]:
    def call(left: object, right: object) -> bool:
        return test(compare(left, right))

    return [
        function(
            f"{name}({a}, {b}): bool",
            call,
            smaller_cost if a in {"string", "bytes"} else _plain_compare_cost,
            work=_compare_work,
        )
        for a, b in _ORDERED_PAIRS
    ]


def _plain_compare_cost(args: list[object], result: object) -> int:  # noqa: ARG001
    """Return the cost of comparing two values that have no size."""
    return 1


_ORDER: Final = (
    *_order_overloads("_<_", lambda order: order == -1),
    *_order_overloads("_<=_", lambda order: order in {-1, 0}),
    *_order_overloads("_>_", lambda order: order == 1),
    *_order_overloads("_>=_", lambda order: order in {0, 1}),
)


def _in_map(key: object, mapping: dict[object, object]) -> bool:
    if type(mapping) is dict:
        require_hashable(key)
    return to_key(key) in mapping


def _differ(left: object, right: object, *, spend: Spend) -> bool:
    return not is_same(left, right, spend)


_EQUALITY: Final = (
    function("_==_(A, A): bool", equal, smaller_cost, metered=True),
    function("_!=_(A, A): bool", _differ, smaller_cost, metered=True),
    function("_in_(A, list(A)): bool", contains, lambda args, _: size_of(args[1]), metered=True),
    function("_in_(A, map(A, B)): bool", _in_map, work=first_work(LONG_TEXT)),
)

_SIZES: Final = tuple(
    declare(f"size({kind}): int", len)
    for declare in (function, method)
    for kind in ("bytes", "list(A)", "map(A, B)", "string")
)


def _search_work(args: list[object]) -> int:
    return search_steps(size_of(args[0]), size_of(args[1]))


def _part_work(args: list[object]) -> int:
    return size_of(args[1]) // LONG_TEXT


_TEXT: Final = (
    method("contains(string, string): bool", lambda text, part: part in text, search_cost, work=_search_work),
    method(
        "startsWith(string, string): bool",
        lambda text, part: text.startswith(part),
        second_cost,
        work=_part_work,
    ),
    method(
        "endsWith(string, string): bool",
        lambda text, part: text.endswith(part),
        second_cost,
        work=_part_work,
    ),
)


def _to_bool(text: str) -> bool:
    if text in {"1", "t", "T", "TRUE", "true", "True"}:
        return True
    if text in {"0", "f", "F", "FALSE", "false", "False"}:
        return False
    raise ErrorValue(f"{excerpt(text)} is not a bool")


def _truncate(value: float) -> int:
    if math.isnan(value) or math.isinf(value):
        raise ErrorValue("integer overflow")
    return math.trunc(value)


def _double_to_int(value: float) -> int:
    # As in Kubernetes, the bounds themselves are rejected: a double can't distinguish them from nearby
    # integers.
    if not INT_MIN < value < INT_MAX + 1:
        raise ErrorValue("integer overflow")
    return _truncate(value)


def _parse_int(text: str, *, signed: bool) -> int:
    body = text[1:] if signed and text[:1] in {"+", "-"} else text
    if not (body.isascii() and body.isdigit()):
        raise ErrorValue(f"{excerpt(text)} is not a number")
    return parse_digits(text)


def _to_double(text: str) -> float:
    plain = text.lower().lstrip("+-")
    if text != text.strip() or not text.isascii():
        raise ErrorValue(f"{excerpt(text)} is not a double")
    try:
        value = float.fromhex(text) if plain.startswith("0x") and "p" in plain else float(text)
    except (ValueError, OverflowError) as error:
        raise ErrorValue(f"{excerpt(text)} is not a double") from error
    if math.isinf(value) and plain not in _NAMED_DOUBLES:
        raise ErrorValue(f"{excerpt(text)} is too large for a double")
    return value


_NAMED_DOUBLES: Final = frozenset({"inf", "infinity"})


def double_text(value: float) -> str:
    """Return a double as Go prints it.

    The text has as few digits as are needed to read the double back, and an exponent from 1e+06 on.
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    exact = Decimal(repr(value)).normalize()
    exponent = exact.adjusted()
    if exact.is_zero():
        return "-0" if math.copysign(1.0, value) < 0 else "0"
    if -4 <= exponent < _MAX_PLAIN_EXPONENT:
        return f"{exact:f}"
    digits = "".join(map(str, exact.as_tuple().digits))
    mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
    return f"{'-' if value < 0 else ''}{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


_MAX_PLAIN_EXPONENT: Final = 6


def _to_text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ErrorValue("the bytes are not UTF-8") from error


def _identity(value: object) -> object:
    return value


_CONVERSIONS: Final = (
    function("bool(bool): bool", _identity),
    function("bool(string): bool", _to_bool, work=first_work(128)),
    function("bytes(bytes): bytes", _identity),
    function(
        "bytes(string): bytes", lambda text: text.encode(errors="replace"), first_cost, work=first_work(16)
    ),
    function("double(double): double", _identity),
    function("double(int): double", float),
    function("double(string): double", _to_double, work=first_work(4, base=4)),
    function("double(uint): double", float),
    function("dyn(A): dyn", _identity),
    function("int(int): int", _identity),
    function("int(double): int", _double_to_int),
    function("int(duration): int", lambda duration: duration.nanos),
    function("int(string): int", lambda text: checked_int(_parse_int(text, signed=True)), work=first_work(16)),
    function("int(timestamp): int", lambda moment: moment.nanos // 10**9),
    function("int(uint): int", lambda value: checked_int(int(value))),
    function("string(string): string", _identity),
    function("string(bool): string", lambda value: "true" if value else "false"),
    function("string(bytes): string", _to_text, first_cost, work=first_work(16)),
    function("string(double): string", double_text, work=fixed_work(40)),
    function("string(int): string", str),
    function("string(uint): string", lambda value: str(int(value))),
    function("uint(uint): uint", _identity),
    function("uint(double): uint", lambda value: checked_uint(_truncate(value) if not value < 0 else -1)),
    function("uint(int): uint", checked_uint),
    function(
        "uint(string): uint", lambda text: checked_uint(_parse_int(text, signed=False)), work=first_work(16)
    ),
    function("type(A): type(A)", lambda value: TypeName(type_name(value))),
)


_MACRO_PARTS: Final = (
    function("_?_:_(bool, A, A): A", never_called),
    function("@not_strictly_false(bool): bool", never_called),
    function("@new_list(): list(A)", list, no_cost),
    function("@new_map(): map(A, B)", dict, no_cost),
)

OVERLOADS: Final = (*_ARITHMETIC, *_ORDER, *_EQUALITY, *_SIZES, *_TEXT, *_CONVERSIONS, *_MACRO_PARTS)
"""All functions of this module; `compile.environment` collects them."""
