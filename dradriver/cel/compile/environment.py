"""The names that a selector can use: `device`, types and functions.

The fields are `device.driver`, `device.attributes[domain].name`, `device.capacity[domain].name` and
`device.allowMultipleAllocations`. A published name without a domain belongs to the driver's domain. An unknown
domain is an empty map. Reading a name that is missing in a map is an error. Source: `CELDeviceSelector` of
resource.k8s.io/v1, KEP-4381, KEP-5075.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from dradriver.cel.compile.functions import Overload
from dradriver.cel.compile.types import (
    BOOL,
    BYTES,
    CIDR,
    DEVICE,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    IP,
    NULL,
    QUANTITY,
    STRING,
    TIMESTAMP,
    UINT,
    CelType,
    list_of,
    map_of,
    optional_of,
    parameter,
    type_of,
)
from dradriver.cel.evaluate import regex
from dradriver.cel.evaluate.errors import ErrorValue
from dradriver.cel.evaluate.values import DomainNames, Domains, size_of
from dradriver.cel.library import (
    lists,
    named_formats,
    network,
    optional,
    quantity,
    semver,
    sets,
    standard,
    strings,
    time,
    url,
)
from dradriver.cel.library.semver import parse_semver
from dradriver.model.quantity import Quantity
from dradriver.model.resource.device import AttributeValue, Scalar, Version

__all__ = ["DEVICE_FIELDS", "FUNCTIONS", "IDENTS", "TYPE_VALUES", "SelectorDevice"]

DEVICE_FIELDS: Final[Mapping[str, CelType]] = {
    "driver": STRING,
    "allowMultipleAllocations": BOOL,
    "attributes": map_of(STRING, map_of(STRING, DYN)),
    "capacity": map_of(STRING, map_of(STRING, QUANTITY)),
}
"""The fields of `device`.

An attribute may be a scalar or a list (KEP-5491), so its type depends on the device.
"""

TYPE_VALUES: Final[Mapping[str, CelType]] = {
    "bool": BOOL,
    "bytes": BYTES,
    "double": DOUBLE,
    "int": INT,
    "string": STRING,
    "uint": UINT,
    "null_type": NULL,
    "list": list_of(DYN),
    "map": map_of(DYN, DYN),
    "type": type_of(DYN),
    "optional_type": optional_of(parameter("V")),
    "google.protobuf.Timestamp": TIMESTAMP,
    "google.protobuf.Duration": DURATION,
    "net.IP": IP,
    "net.CIDR": CIDR,
}
"""The types whose names an expression can use, as in `type(x) == int`."""

IDENTS: Final[Mapping[str, CelType]] = {
    "device": DEVICE,
    **{name: type_of(named) for name, named in TYPE_VALUES.items()},
}
"""The types of all names that an expression can use without declaring them."""


LIBRARIES: Final = (
    standard, time, strings, lists, sets, optional, regex,
    quantity, semver, url, network, named_formats,
)  # fmt: skip
"""The modules whose `OVERLOADS` are the functions of the language."""


def _group_overloads() -> dict[str, tuple[Overload, ...]]:
    by_name: dict[str, list[Overload]] = {}
    for library in LIBRARIES:
        for overload in library.OVERLOADS:
            by_name.setdefault(overload.name, []).append(overload)
    return {name: tuple(overloads) for name, overloads in by_name.items()}


FUNCTIONS: Final[Mapping[str, tuple[Overload, ...]]] = _group_overloads()
"""All functions by name."""


_UNREADABLE: Final = 2**63


@dataclass(frozen=True, slots=True)
class SelectorDevice:
    """A device as selectors see it. It is created once for each device, and all selectors read it.

    Attributes:
        driver: name of the driver. It is also the domain of names without a domain.
        attributes: the attributes by name (`model` or `other.example.com/model`). A list is a tuple.
        capacity: the capacities by name, with names as in `attributes`.
        allow_multiple_allocations: whether several claims may share the device (KEP-5075).
        view: the value of `device` at run time.
        size: the size of the longest text, list or map in the device. It bounds the cost of reading the device.
        fault: the error of an attribute that no selector can read, or None.
    """

    driver: str
    attributes: Mapping[str, AttributeValue]
    capacity: Mapping[str, Quantity] = field(default_factory=dict)
    allow_multiple_allocations: bool = False
    view: dict[object, object] = field(init=False, repr=False, compare=False)
    size: int = field(init=False, repr=False, compare=False)
    fault: ErrorValue | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        fault = None
        attributes, capacity = Domains(), Domains()
        try:
            attributes = _group_by_domain(
                self.driver, {name: _to_runtime(v) for name, v in self.attributes.items()}
            )
            capacity = _group_by_domain(self.driver, self.capacity)
        except ErrorValue as error:
            fault = error
        view: dict[object, object] = {
            "driver": self.driver,
            "allowMultipleAllocations": self.allow_multiple_allocations,
            "attributes": attributes,
            "capacity": capacity,
        }
        object.__setattr__(self, "view", view)
        # The size excludes a device with a fault from the fast path, because only the machine reports the
        # reason.
        object.__setattr__(self, "size", _max_size(view) if fault is None else _UNREADABLE)
        object.__setattr__(self, "fault", fault)


def _to_runtime(value: AttributeValue) -> object:
    return tuple(map(_to_runtime_scalar, value)) if isinstance(value, tuple) else _to_runtime_scalar(value)


def _to_runtime_scalar(value: Scalar) -> object:
    return parse_semver(str(value)) if isinstance(value, Version) else value


def _group_by_domain(driver: str, values: Mapping[str, object]) -> Domains:
    domains = Domains()
    for qualified, value in values.items():
        domain, slash, name = qualified.partition("/")
        if not slash:
            domain, name = driver, qualified
        names = domains.setdefault(domain, DomainNames())
        names[name] = value  # type: ignore[index]
    return domains


def _max_size(view: Mapping[object, object]) -> int:
    sizes = [max(map(len, view)), *map(size_of, view.values())]  # type: ignore[arg-type]
    for domains in (view["attributes"], view["capacity"]):
        for domain, names in domains.items():  # type: ignore[attr-defined]
            sizes += (len(domain), len(names), *map(len, names))
            sizes += [len(value) if type(value) is str else _size_of_scalars(value) for value in names.values()]
    return max(sizes)


def _size_of_scalars(value: object) -> int:
    return max(len(value), *map(size_of, value), 0) if isinstance(value, tuple) else size_of(value)
