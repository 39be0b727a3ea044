"""Devices, which drivers offer and claims request (`resource.k8s.io/v1` Device)."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec
from msgspec.structs import force_setattr

from dradriver.model.core.node_selector import NodeSelector
from dradriver.model.encoding.codec import Value
from dradriver.model.encoding.plain_input import as_mapping, as_tuple, misfit
from dradriver.model.names import qualify
from dradriver.model.quantity import InvalidQuantityError, Quantity, QuantityLike
from dradriver.model.resource.counters import CounterConsumption

__all__ = [
    "MAX_ATTRIBUTES_AND_CAPACITIES",
    "MAX_ATTRIBUTE_LENGTH",
    "MAX_ATTRIBUTE_VALUES",
    "MAX_BINDING_CONDITIONS",
    "MAX_TAINTS",
    "Attribute",
    "AttributeLike",
    "AttributeValue",
    "Capacity",
    "CapacityRequestPolicy",
    "CapacityRequestPolicyRange",
    "Device",
    "Taint",
    "Version",
    "as_attributes",
]

MAX_ATTRIBUTES_AND_CAPACITIES: Final = 32
MAX_ATTRIBUTE_VALUES: Final = 48
MAX_ATTRIBUTE_LENGTH: Final = 64
MAX_TAINTS: Final = 16
MAX_BINDING_CONDITIONS: Final = 4


class Version(str):
    """A semantic version (2.0.0) as an attribute value; a plain `str` is a string attribute."""

    __slots__ = ()


Scalar: TypeAlias = bool | int | str | Version
AttributeValue: TypeAlias = Scalar | tuple[Scalar, ...]
"""An attribute's plain value: a bool, int, str or `Version`, or a tuple of one of these kinds."""


class Attribute(Value, frozen=True):
    """One attribute of a device: exactly one field is set (`DeviceAttribute`)."""

    int_value: int | None = msgspec.field(default=None, name="int")
    bool_value: bool | None = msgspec.field(default=None, name="bool")
    string: str | None = None
    version: str | None = None
    ints: list[int] | None = None
    bools: list[bool] | None = None
    strings: list[str] | None = None
    versions: list[str] | None = None

    @property
    def value(self) -> AttributeValue:
        """Return the plain value.

        Raises:
            ValueError: no field is set.
        """
        for scalar in (self.int_value, self.bool_value, self.string):
            if scalar is not None:
                return scalar
        if self.version is not None:
            return Version(self.version)
        for items in (self.ints, self.bools, self.strings):
            if items is not None:
                return tuple(items)
        if self.versions is not None:
            return tuple(map(Version, self.versions))
        raise ValueError("the attribute has no value")


AttributeLike: TypeAlias = Attribute | Scalar | Iterable[bool] | Iterable[int] | Iterable[str]
"""A value that is accepted as an attribute; a list makes a list-typed attribute."""


def as_attributes(given: Mapping[str, AttributeLike]) -> dict[str, Attribute]:
    """Return attributes from plain values, by name.

    Raises:
        TypeError: Kubernetes does not support the type of a value; the message names the attribute.
    """
    attributes = {}
    for name, value in as_mapping(given).items():
        try:
            attributes[name] = _attribute(value)
        except TypeError as error:
            raise TypeError(f"[{name!r}]: {error}") from None
    return attributes


def _attribute(given: AttributeLike) -> Attribute:
    match given:
        case Attribute():
            return given
        case bool():
            return Attribute(bool_value=given)
        case int():
            return Attribute(int_value=given)
        case Version():
            return Attribute(version=str(given))
        case str():
            return Attribute(string=given)
        case Iterable() if not isinstance(given, Mapping | bytes):
            return _list_attribute(list(given))
        case _:
            return _list_attribute(given)


def _list_attribute(items: object) -> Attribute:
    for kind, field in ((bool, "bools"), (int, "ints"), (Version, "versions"), (str, "strings")):
        if isinstance(items, list) and items and all(isinstance(item, kind) for item in items):
            return msgspec.convert({field: [str(i) if kind is Version else i for i in items]}, Attribute)
    raise TypeError(
        f"{items!r} is no attribute: want a bool, int, str or Version, or a list of one of these kinds"
    )


class CapacityRequestPolicyRange(Value, frozen=True, kw_only=True):
    """The amounts that a request may ask for, as a range (KEP-5075)."""

    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None

    if TYPE_CHECKING:
        # msgspec builds __init__ from the fields; __post_init__ accepts plain amounts too.
        def __init__(
            self,
            *,
            min: QuantityLike | None = ...,  # noqa: A002 - the API's name
            max: QuantityLike | None = ...,  # noqa: A002
            step: QuantityLike | None = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        """Turn plain amounts into quantities.

        Raises:
            InvalidQuantityError: an amount is not a quantity; the message names the field.
        """
        for field in ("min", "max", "step"):
            if (given := getattr(self, field)) is not None:
                try:
                    force_setattr(self, field, Quantity(given))
                except InvalidQuantityError as error:
                    raise misfit("range of a request policy", field, error) from None


class CapacityRequestPolicy(Value, frozen=True, kw_only=True):
    """The rules for rounding and checking a request for a share of a capacity (KEP-5075)."""

    default: Quantity | None = None
    valid_values: tuple[Quantity, ...] = ()
    valid_range: CapacityRequestPolicyRange | None = None

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            default: QuantityLike | None = ...,
            valid_values: Iterable[QuantityLike] = ...,
            valid_range: CapacityRequestPolicyRange | None = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        """Turn plain amounts into quantities.

        Raises:
            InvalidQuantityError: an amount is not a quantity; the message names the field.
            TypeError: `valid_values` is not a list.
        """
        field = "default"
        try:
            if self.default is not None:
                force_setattr(self, field, Quantity(self.default))
            field = "valid_values"
            force_setattr(self, field, tuple(map(Quantity, as_tuple(self.valid_values))))
        except (TypeError, InvalidQuantityError) as error:
            raise misfit("request policy", field, error) from None


class Capacity(Value, frozen=True):
    """An amount that a device has (`DeviceCapacity`)."""

    value: Quantity
    request_policy: CapacityRequestPolicy | None = None

    if TYPE_CHECKING:

        def __init__(self, value: QuantityLike, request_policy: CapacityRequestPolicy | None = ...) -> None: ...

    def __post_init__(self) -> None:
        """Turn a plain amount into a quantity.

        Raises:
            InvalidQuantityError: the amount is not a quantity.
        """
        force_setattr(self, "value", Quantity(self.value))


class Taint(Value, frozen=True, kw_only=True):
    """A mark that keeps claims away unless they tolerate it (`DeviceTaint`).

    Attributes:
        key: a qualified name.
        value: a label value; may be empty.
        effect: `None` informs, `NoSchedule` keeps new claims away, `NoExecute` also evicts pods.
        time_added: set by the API server or kept from the last publication.
    """

    key: str
    effect: Literal["None", "NoSchedule", "NoExecute"]
    value: str = ""
    time_added: datetime | None = None

    def __str__(self) -> str:
        """Return `key=value:effect`, as kubectl prints taints."""
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


def _capacities(given: "Mapping[str, Capacity | QuantityLike]") -> dict[str, Capacity]:
    capacities = {}
    for name, amount in as_mapping(given).items():
        try:
            capacities[name] = amount if isinstance(amount, Capacity) else Capacity(amount)
        except InvalidQuantityError as error:
            raise InvalidQuantityError(f"[{name!r}]: {error}") from None
    return capacities


_TUPLES: Final = ("consumes_counters", "taints", "binding_conditions", "binding_failure_conditions")


class Device(Value, frozen=True):
    """One device of a pool.

    Attributes:
        name: a DNS label, unique in its pool. It must not change at a restart, because claims refer to it.
        attributes: values that selectors read; unqualified names belong to the driver's domain.
        capacity: amounts that selectors read.
        consumes_counters: the amounts that the device takes of the pool's counter sets (KEP-4815).
        node_name, node_selector, all_nodes: the nodes that reach the device, only in pools with per-device node
            selection.
        taints: marks that keep claims away.
        binds_to_node: an allocation is valid only for the chosen node (KEP-5007).
        binding_conditions: conditions that must be True before a pod is bound (KEP-5007).
        binding_failure_conditions: if one of these conditions is True, the allocation is given up.
        allow_multiple_allocations: several claims may share the device.
    """

    name: str
    attributes: dict[str, Attribute] = {}
    capacity: dict[str, Capacity] = {}
    consumes_counters: tuple[CounterConsumption, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: tuple[Taint, ...] = ()
    binds_to_node: bool | None = None
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool | None = None

    if TYPE_CHECKING:
        # msgspec builds __init__ from the fields; __post_init__ accepts plain values too.
        def __init__(  # noqa: PLR0913, PLR0917 - one argument a field of the API
            self,
            name: str,
            attributes: Mapping[str, AttributeLike] = ...,
            capacity: "Mapping[str, Capacity | QuantityLike]" = ...,
            consumes_counters: Iterable[CounterConsumption] = ...,
            node_name: str | None = ...,
            node_selector: NodeSelector | None = ...,
            all_nodes: bool | None = ...,  # noqa: FBT001 - the API's field
            taints: Iterable[Taint] = ...,
            binds_to_node: bool | None = ...,  # noqa: FBT001
            binding_conditions: Iterable[str] = ...,
            binding_failure_conditions: Iterable[str] = ...,
            allow_multiple_allocations: bool | None = ...,  # noqa: FBT001
        ) -> None: ...

    def __post_init__(self) -> None:
        """Turn plain values into `Attribute` and `Capacity`, and iterables into tuples.

        Raises:
            TypeError: Kubernetes does not support the type of an attribute, or a field is not a list or
                mapping; the message names device and field.
            InvalidQuantityError: a capacity is not a quantity; the message names device and field.
        """
        field = "attributes"
        try:
            force_setattr(self, field, as_attributes(self.attributes))
            field = "capacity"
            force_setattr(self, field, _capacities(self.capacity))
            for field in _TUPLES:
                force_setattr(self, field, as_tuple(getattr(self, field)))
        except (TypeError, ValueError) as error:
            raise misfit(f"device {self.name!r}", field, error) from None

    def attribute(self, name: str, driver: str = "") -> AttributeValue | None:
        """Return the plain value of an attribute, or None; `driver` is the domain of unqualified names."""
        found = self.attributes.get(name)
        if found is None and driver:
            wanted = qualify(name, driver)
            found = next((a for key, a in self.attributes.items() if qualify(key, driver) == wanted), None)
        return None if found is None else found.value

    @property
    def shareable(self) -> bool:
        """Return whether several claims may hold the device at once."""
        return self.allow_multiple_allocations is True
