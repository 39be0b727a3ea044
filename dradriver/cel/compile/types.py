"""The types of CEL, and the rules that decide whether two types fit.

Types are checked as in Kubernetes (cel-go): `dyn` fits every type, type parameters are bound by unification,
and null fits message types and opaque types. Attributes of a device are `dyn`, because their type depends on
the device.
"""

from dataclasses import dataclass
from typing import Final

from dradriver.cel.compile.routines import Routine, run
from dradriver.cel.evaluate.errors import ErrorValue

__all__ = [
    "BOOL",
    "BYTES",
    "CIDR",
    "DEVICE",
    "DOUBLE",
    "DURATION",
    "DYN",
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
    "CelType",
    "join",
    "list_of",
    "map_of",
    "optional_of",
    "parameter",
    "type_of",
]


@dataclass(frozen=True, slots=True, eq=False)
class CelType:
    """One type. Compared by structure without recursion, because types can nest deeper than Python's stack.

    Attributes:
        name: the name, such as `int`, `list` or `kubernetes.Quantity`. For a type parameter, its letter.
        params: the element type of a list, or the key and value types of a map.
        nullable: whether null is accepted as a value.
        is_parameter: whether the type is a type parameter.
    """

    name: str
    params: tuple["CelType", ...] = ()
    nullable: bool = False
    is_parameter: bool = False

    @property
    def is_dyn(self) -> bool:
        """Return whether the type is `dyn`, which fits every type."""
        return self.name == "dyn"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CelType):
            return NotImplemented
        pending = [(self, other)]
        compared: set[tuple[int, int]] = set()
        while pending:
            a, b = pending.pop()
            if a is b:
                continue
            if a.name != b.name or a.is_parameter != b.is_parameter or len(a.params) != len(b.params):
                return False
            if a.params and _is_new((id(a), id(b)), compared):
                pending.extend(zip(a.params, b.params, strict=True))
        return True

    def __hash__(self) -> int:
        return hash((self.name, len(self.params)))

    def __str__(self) -> str:
        return _to_text(self, _MAX_TEXT_DEPTH)


def _is_new(pair: tuple[int, int], seen: set[tuple[int, int]]) -> bool:
    """Return whether these two types are compared for the first time.

    Types share parts, so a comparison along all paths may take exponential time.
    """
    if pair in seen:
        return False
    seen.add(pair)
    return True


BOOL: Final = CelType("bool")
INT: Final = CelType("int")
UINT: Final = CelType("uint")
DOUBLE: Final = CelType("double")
STRING: Final = CelType("string")
BYTES: Final = CelType("bytes")
NULL: Final = CelType("null_type")
DYN: Final = CelType("dyn")
TIMESTAMP: Final = CelType("google.protobuf.Timestamp", nullable=True)
DURATION: Final = CelType("google.protobuf.Duration", nullable=True)
DEVICE: Final = CelType("kubernetes.DRADevice", nullable=True)
QUANTITY: Final = CelType("kubernetes.Quantity", nullable=True)
SEMVER: Final = CelType("kubernetes.Semver", nullable=True)
URL: Final = CelType("kubernetes.URL", nullable=True)
FORMAT: Final = CelType("kubernetes.NamedFormat", nullable=True)
IP: Final = CelType("net.IP", nullable=True)
CIDR: Final = CelType("net.CIDR", nullable=True)

NAMED: Final = {
    "bool": BOOL, "int": INT, "uint": UINT, "double": DOUBLE, "string": STRING, "bytes": BYTES, "dyn": DYN,
    "timestamp": TIMESTAMP, "duration": DURATION, "quantity": QUANTITY, "semver": SEMVER, "url": URL,
    "format": FORMAT, "ip": IP, "cidr": CIDR, "device": DEVICE,
}  # fmt: skip
"""The type names that signatures in the libraries use."""


def list_of(element: CelType) -> CelType:
    """Return `list(element)`."""
    return CelType("list", (element,))


def map_of(key: CelType, value: CelType) -> CelType:
    """Return `map(key, value)`."""
    return CelType("map", (key, value))


def optional_of(value: CelType) -> CelType:
    """Return `optional_type(value)`."""
    return CelType("optional_type", (value,), nullable=True)


def type_of(instance: CelType) -> CelType:
    """Return the type of a type, which is the type of `type(x)`."""
    return CelType("type", (instance,))


def parameter(name: str) -> CelType:
    """Return a type parameter."""
    return CelType(name, is_parameter=True)


def _to_text(cel_type: CelType, levels: int) -> str:
    if cel_type.is_parameter:
        return "dyn"
    name = "null" if cel_type.name == "null_type" else cel_type.name
    if not cel_type.params:
        return name
    inner = ", ".join(_to_text(param, levels - 1) for param in cel_type.params) if levels else "…"
    return f"{name}({inner})"


_MAX_TEXT_DEPTH: Final = 5
_MAX_STEPS: Final = 80_000


class Bindings:
    """The known bindings of type parameters.

    `assignable` either binds parameters and returns True, or changes nothing and returns False. Types may share
    parts so often that a check takes exponential time, so its steps are limited.
    """

    def __init__(self) -> None:
        self._bound_types: dict[CelType, CelType] = {}
        self._undo_log: list[tuple[CelType, CelType | None]] = []
        self._fresh = 0
        self._steps = 0

    def fresh(self) -> CelType:
        """Return a new, unused type parameter."""
        self._fresh += 1
        return parameter(f"_{self._fresh}")

    def assignable(self, given: list[CelType], wanted: list[CelType]) -> bool:
        """Return whether each given type is accepted where the wanted type is expected.

        Raises:
            ErrorValue: the types are too large for a decision.
        """
        self._undo_log.clear()
        if len(given) == len(wanted) and self._unify_all(list(zip(given, wanted, strict=True))):
            return True
        for param, bound in reversed(self._undo_log):
            if bound is None:
                del self._bound_types[param]
            else:
                self._bound_types[param] = bound
        return False

    def _bind(self, param: CelType, bound: CelType) -> None:
        self._undo_log.append((param, self._bound_types.get(param)))
        self._bound_types[param] = bound

    def resolve(self, cel_type: CelType) -> CelType:
        """Return `cel_type` with every bound parameter replaced by its type.

        Raises:
            ErrorValue: the type is too large.
        """
        cel_type = self._follow(cel_type)
        return run(self._resolve_params(cel_type)) if cel_type.params else cel_type

    def _step(self) -> None:
        self._steps += 1
        if self._steps > _MAX_STEPS:
            raise ErrorValue("the types in the expression are too large")

    def _follow(self, cel_type: CelType) -> CelType:
        while cel_type.is_parameter and cel_type in self._bound_types:
            cel_type = self._bound_types[cel_type]
        return cel_type

    def _resolve_params(self, cel_type: CelType) -> Routine[CelType]:
        self._step()
        params: list[CelType] = []
        for inner in cel_type.params:
            param = self._follow(inner)
            if param.params:
                param = yield self._resolve_params(param)
            params.append(param)
        return CelType(cel_type.name, tuple(params), cel_type.nullable)

    def _unify_all(self, pairs: list[tuple[CelType, CelType]]) -> bool:
        """Return whether all pairs fit. A bound parameter may get a more general type that also fits."""
        pending: list[tuple[CelType, CelType, CelType | None]] = [
            (given, wanted, None) for given, wanted in reversed(pairs)
        ]
        while pending:
            self._step()
            given, wanted, param = pending.pop()
            if param is not None:
                self._generalize(param, given, wanted)
                continue
            more = self._unify(given, wanted)
            if more is None:
                return False
            pending.extend(reversed(more))
        return True

    def _unify(self, given: CelType, wanted: CelType) -> list[tuple[CelType, CelType, CelType | None]] | None:
        """Return the pairs that must also fit or be bound so that these two types fit.

        The result is None if they do not fit.
        """
        if given == wanted:
            return []
        if wanted.is_parameter and (wanted in self._bound_types or self._is_free_of(wanted, given)):
            return self._substitute(wanted, given)
        if given.is_parameter:
            usable = given in self._bound_types or self._is_free_of(given, wanted)
            return self._substitute(given, wanted) if usable else None
        if given.is_dyn or wanted.is_dyn:
            return []
        if given is NULL or wanted is NULL:
            return [] if given.nullable or wanted.nullable else None
        if given.name != wanted.name or len(given.params) != len(wanted.params):
            return None
        if given.name == "type":
            return []
        return [(a, b, None) for a, b in zip(given.params, wanted.params, strict=True)]

    def _substitute(self, param: CelType, candidate: CelType) -> list[tuple[CelType, CelType, CelType | None]]:
        bound = self._bound_types.get(param)
        if bound is None:
            self._bind(param, candidate)
            return []
        return [] if candidate == bound else [(candidate, bound, None), (candidate, bound, param)]

    def _generalize(self, param: CelType, candidate: CelType, bound: CelType) -> None:
        general = join(candidate, bound)
        if self._is_free_of(param, general):
            self._bind(param, general)

    def _is_free_of(self, param: CelType, within: CelType) -> bool:
        """Return whether `param` does not occur in `within`: a type must not contain itself."""
        pending = [within]
        while pending:
            self._step()
            cel_type = pending.pop()
            if cel_type == param:
                return False
            if cel_type.is_parameter and cel_type in self._bound_types:
                pending.append(self._bound_types[cel_type])
            pending.extend(cel_type.params)
        return True


def join(first: CelType, second: CelType) -> CelType:
    """Return the more general of two types that fit each other."""
    pending = [(first, second)]
    joined: set[tuple[int, int]] = set()
    while pending:
        a, b = pending.pop()
        if a is b or a.is_dyn or a.is_parameter:
            continue
        if b.is_dyn or b.is_parameter or a.name != b.name or len(a.params) != len(b.params):
            return second
        if a.name != "type" and _is_new((id(a), id(b)), joined):
            pending.extend(zip(a.params, b.params, strict=True))
    return first
