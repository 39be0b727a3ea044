"""The types that a selector is checked against, and which of them fit where.

Types are checked as Kubernetes does it (cel-go): `dyn` fits everything, type parameters are bound by
unification, null fits messages and opaque types. Attributes of a device are `dyn`: their type is known
only when a device is at hand.
"""

from dataclasses import dataclass
from typing import Final

__all__ = [
    "ANY_OBJECT",
    "BOOL",
    "BYTES",
    "CIDR",
    "DEVICE",
    "DOUBLE",
    "DURATION",
    "DYN",
    "ERROR",
    "FORMAT",
    "INT",
    "IP",
    "NAMED",
    "NULL",
    "QUANTITY",
    "SEMVER",
    "STRING",
    "TIMESTAMP",
    "UINT",
    "URL",
    "Bindings",
    "Type",
    "join",
    "list_of",
    "map_of",
    "optional_of",
    "parameter",
    "type_of",
]


@dataclass(frozen=True, slots=True)
class Type:
    """One type.

    Attributes:
        name: `int`, `list`, `kubernetes.Quantity`; of a parameter, its letter.
        params: element, key and value types of containers.
        nullable: whether null may stand in its place.
        is_parameter: whether it stands for a type that is still to be found.
    """

    name: str
    params: tuple["Type", ...] = ()
    nullable: bool = False
    is_parameter: bool = False

    @property
    def is_dyn(self) -> bool:
        """Whether anything may stand here; also true of the type of something already reported."""
        return self.name in {"dyn", "*error*"}

    def __str__(self) -> str:
        if self.is_parameter:
            return "dyn"
        shown = "null" if self.name == "null_type" else self.name
        return f"{shown}({', '.join(map(str, self.params))})" if self.params else shown


BOOL: Final = Type("bool")
INT: Final = Type("int")
UINT: Final = Type("uint")
DOUBLE: Final = Type("double")
STRING: Final = Type("string")
BYTES: Final = Type("bytes")
NULL: Final = Type("null_type")
DYN: Final = Type("dyn")
ERROR: Final = Type("*error*")
TIMESTAMP: Final = Type("google.protobuf.Timestamp", nullable=True)
DURATION: Final = Type("google.protobuf.Duration", nullable=True)
DEVICE: Final = Type("kubernetes.DRADevice", nullable=True)
QUANTITY: Final = Type("kubernetes.Quantity", nullable=True)
SEMVER: Final = Type("kubernetes.Semver", nullable=True)
URL: Final = Type("kubernetes.URL", nullable=True)
FORMAT: Final = Type("kubernetes.NamedFormat", nullable=True)
IP: Final = Type("net.IP", nullable=True)
CIDR: Final = Type("net.CIDR", nullable=True)

ANY_OBJECT: Final = frozenset({DEVICE, QUANTITY, SEMVER, URL, FORMAT, IP, CIDR})

NAMED: Final = {
    "bool": BOOL, "int": INT, "uint": UINT, "double": DOUBLE, "string": STRING, "bytes": BYTES, "dyn": DYN,
    "timestamp": TIMESTAMP, "duration": DURATION, "quantity": QUANTITY, "semver": SEMVER, "url": URL,
    "format": FORMAT, "ip": IP, "cidr": CIDR, "device": DEVICE,
}  # fmt: skip
"""The names that signatures in the libraries use."""


def list_of(element: Type) -> Type:
    """`list(element)`."""
    return Type("list", (element,))


def map_of(key: Type, value: Type) -> Type:
    """`map(key, value)`."""
    return Type("map", (key, value))


def optional_of(value: Type) -> Type:
    """`optional_type(value)`."""
    return Type("optional_type", (value,), nullable=True)


def type_of(instance: Type) -> Type:
    """The type of a type: what `type(x)` gives."""
    return Type("type", (instance,))


def parameter(name: str) -> Type:
    """A type that is still to be found."""
    return Type(name, is_parameter=True)


class Bindings:
    """What is known about type parameters so far.

    `assignable` either binds parameters and says yes, or changes nothing and says no.
    """

    def __init__(self) -> None:
        self._found: dict[Type, Type] = {}
        self._fresh = 0

    def fresh(self) -> Type:
        """A parameter that nothing else uses."""
        self._fresh += 1
        return parameter(f"_{self._fresh}")

    def assignable(self, given: list[Type], wanted: list[Type]) -> bool:
        """Whether each given type may stand where the wanted one is expected."""
        before = dict(self._found)
        if len(given) == len(wanted) and all(map(self._fits, given, wanted)):
            return True
        self._found = before
        return False

    def resolve(self, found: Type) -> Type:
        """`found` with every bound parameter replaced by its type."""
        while found.is_parameter and found in self._found:
            found = self._found[found]
        if not found.params:
            return found
        return Type(found.name, tuple(map(self.resolve, found.params)), found.nullable)

    def _fits(self, given: Type, wanted: Type) -> bool:
        if wanted.is_parameter:
            known = wanted in self._found
            if self._substitutes(given, wanted):
                return True
            if known:
                return False
        if given.is_parameter:
            return self._substitutes(wanted, given)
        if given.is_dyn or wanted.is_dyn:
            return True
        if given is NULL or wanted is NULL:
            return given is wanted or given.nullable or wanted.nullable
        if given.name != wanted.name:
            return False
        if given.name == "type":
            return True
        return len(given.params) == len(wanted.params) and all(map(self._fits, given.params, wanted.params))

    def _substitutes(self, candidate: Type, param: Type) -> bool:
        if candidate == param:
            return True
        bound = self._found.get(param)
        if bound is None:
            if not self._free_of(param, candidate):
                return False
            self._found[param] = candidate
            return True
        if candidate == bound:
            return True
        if not self._fits(candidate, bound):
            return False
        general = join(candidate, bound)
        if self._free_of(param, general):
            self._found[param] = general
        return True

    def _free_of(self, param: Type, within: Type) -> bool:
        """Whether binding `param` to `within` makes no type contain itself."""
        if within == param:
            return False
        if within.is_parameter:
            bound = self._found.get(within)
            return bound is None or self._free_of(param, bound)
        return all(self._free_of(param, inner) for inner in within.params)


def join(first: Type, second: Type) -> Type:
    """The more general of two types that fit each other."""
    return first if _no_more_specific(first, second) else second


def _no_more_specific(first: Type, second: Type) -> bool:
    if first.is_dyn or first.is_parameter:
        return True
    if second.is_dyn or second.is_parameter or first.name != second.name:
        return False
    if first.name == "type":
        return True
    return len(first.params) == len(second.params) and all(map(_no_more_specific, first.params, second.params))
