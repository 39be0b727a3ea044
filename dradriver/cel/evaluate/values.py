"""The values of expressions, represented as Python values.

| CEL | Python |
|---|---|
| bool, int, double, string, bytes, null | `bool`, `int`, `float`, `str`, `bytes`, `None` |
| uint | `UInt` |
| list | `tuple` or `list`; `Joined` for the sum of two lists |
| map | `dict` with the keys that `to_key` returns |
| optional, type | `Optional`, `TypeName` |
| timestamp, duration | `Timestamp`, `Duration`, both exact to a nanosecond |
| quantity, semver, url, ip, cidr, format | `Quantity`, `Semver` and other classes of the libraries |

A value must not be changed after an expression can read it.
"""

from collections.abc import Iterator
from typing import ClassVar, Final

from dradriver.cel.compile.types import CelType
from dradriver.model.quantity import Quantity

__all__ = [
    "NONE",
    "DerivedQuantity",
    "DomainNames",
    "Domains",
    "Duration",
    "Joined",
    "Opaque",
    "Optional",
    "Timestamp",
    "TypeName",
    "UInt",
    "WrittenQuantity",
    "accepts",
    "from_key",
    "keys_of",
    "size_of",
    "to_key",
    "type_name",
]


class UInt(int):
    """An unsigned integer, which is a separate type in CEL."""

    __slots__ = ()


class Joined(tuple[object, ...]):
    """The sum of two lists. Comparing it raises errors that the comparison of a plain list ignores."""

    __slots__ = ()


class Domains(dict[object, object]):
    """`device.attributes` and `device.capacity`. An unknown domain is an empty map."""

    __slots__ = ()

    def __missing__(self, key: object) -> object:
        return _NO_NAMES


class DomainNames(dict[object, object]):
    """The attributes or capacities of one domain. The keys are texts. A lookup of any other key fails."""

    __slots__ = ()


_NO_NAMES: Final = DomainNames()


class WrittenQuantity(Quantity):
    """A quantity that an expression writes. Kubernetes keeps the written form: `1000m` is not an integer.

    Attributes:
        amount: value and power of ten; None if the value does not fit 64 bits.
    """

    __slots__ = ("amount",)

    amount: tuple[int, int] | None


class DerivedQuantity(WrittenQuantity):
    """A result of `add` or `sub`. As in Kubernetes, `x == result` is false for every `x`."""

    __slots__ = ()


class Timestamp:
    """A point in time.

    Attributes:
        nanos: nanoseconds since 1970-01-01T00:00:00Z.
        offset: seconds by which the time zone of the original text is ahead of UTC. Only conversion to text
            uses it.
    """

    __slots__ = ("nanos", "offset")

    def __init__(self, nanos: int, offset: int = 0) -> None:
        self.nanos = nanos
        self.offset = offset


class Duration:
    """A span of time.

    Attributes:
        nanos: the length in nanoseconds; it may be negative.
    """

    __slots__ = ("nanos",)

    def __init__(self, nanos: int) -> None:
        self.nanos = nanos


class Optional:
    """A value that may be absent.

    Attributes:
        present: whether there is a value.
        value: the value; None if there is none.
    """

    __slots__ = ("present", "value")

    def __init__(self, *, present: bool, value: object) -> None:
        self.present = present
        self.value = value

    @classmethod
    def of(cls, value: object) -> "Optional":
        """Return an optional that has a value."""
        return cls(present=True, value=value)


NONE: Final = Optional(present=False, value=None)


class TypeName:
    """A type as a value, which is the result of `type(x)`."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class Opaque:
    """A value of a library: a semver, URL, IP address, CIDR or format.

    Attributes:
        identity: decides whether two values of one class are equal.
        weight: steps of comparing two values of the class, in addition to the steps of any comparison.
        cel_type: the name of the type in CEL.
        hashable: whether Kubernetes can hash the value.
        size: the size in the cost model.
    """

    __slots__ = ("identity", "weight")

    cel_type: ClassVar[str]
    hashable: ClassVar[bool] = True

    def __init__(self, identity: object, weight: int = 0) -> None:
        self.identity = identity
        self.weight = weight

    @property
    def size(self) -> int:
        """Return the size in the cost model; 1 for a value of constant size."""
        return 1


class _Key:
    """A key of a Python dict, for values that Python compares differently than CEL (`True == 1`)."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


_TRUE_KEY: Final = _Key(value=True)
_FALSE_KEY: Final = _Key(value=False)


def to_key(value: object) -> object:
    """Return `value` as a key of the Python dict that holds a CEL map.

    As in CEL, equal ints, uints and whole doubles have one key. A value that can't be a key gets a new key at
    each call, so a lookup never finds it.
    """
    kind = type(value)
    if kind is str or kind is int or kind is UInt:
        return value
    if kind is bool:
        return _TRUE_KEY if value else _FALSE_KEY
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    return _Key(value)


def from_key(key: object) -> object:
    """Return the CEL value of a key."""
    return key.value if isinstance(key, _Key) else key


def keys_of(mapping: dict[object, object]) -> Iterator[object]:
    """Return the keys of a CEL map as CEL values."""
    return map(from_key, mapping)


_NAMES: Final[dict[type, str]] = {
    bool: "bool", int: "int", UInt: "uint", float: "double", str: "string", bytes: "bytes",
    type(None): "null_type",
    tuple: "list", list: "list", Joined: "list", dict: "map", Domains: "map",
    DomainNames: "map", Optional: "optional_type",
    TypeName: "type", Timestamp: "google.protobuf.Timestamp", Duration: "google.protobuf.Duration",
    Quantity: "kubernetes.Quantity", DerivedQuantity: "kubernetes.Quantity",
    WrittenQuantity: "kubernetes.Quantity",
}  # fmt: skip


def type_name(value: object) -> str:
    """Return the name of a value's type in CEL."""
    return _NAMES.get(type(value)) or value.cel_type  # type: ignore[attr-defined]


def accepts(wanted: CelType, value: object) -> bool:
    """Return whether a value fits a parameter. Of a container, only the first element is checked."""
    while True:
        if wanted.is_parameter or wanted.name == "dyn":
            return True
        if type_name(value) != wanted.name:
            return False
        if not wanted.params or isinstance(value, TypeName | Optional) or not value:
            return True
        if isinstance(value, dict):
            key = next(iter(value))
            if not accepts(wanted.params[0], from_key(key)):
                return False
            wanted, value = wanted.params[1], value[key]
        else:
            wanted, value = wanted.params[0], value[0]  # type: ignore[index]


_SIZED: Final = frozenset({str, bytes, tuple, list, dict, Domains, DomainNames, Joined})


def size_of(value: object) -> int:
    """Return the size of a value in the cost model; 1 for a value without a size."""
    while isinstance(value, Optional) and value.present:
        value = value.value
    if type(value) in _SIZED:
        return len(value)  # type: ignore[arg-type]
    return value.size if isinstance(value, Opaque) else 1
