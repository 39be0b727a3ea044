"""Devices. Drivers offer them, and claims request them (`resource.k8s.io/v1` Device)."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec
from msgspec.structs import force_setattr

from dradriver.model.core.node_selector import NodeSelector
from dradriver.model.encoding.codec import Value
from dradriver.model.encoding.plain_input import as_tuple, convert_values, wrap_field_error
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
    """A semantic version (semver.org 2.0.0) as an attribute value. A plain `str` is a string attribute."""

    __slots__ = ()


Scalar: TypeAlias = bool | int | str | Version
AttributeValue: TypeAlias = Scalar | tuple[Scalar, ...]
"""The value of an attribute: a bool, int, str or `Version`, or a tuple with values of one of these types."""


class Attribute(Value, frozen=True):
    """One attribute of a device (`DeviceAttribute`). Exactly one field is set."""

    int_value: int | None = msgspec.field(default=None, name="int")
    bool_value: bool | None = msgspec.field(default=None, name="bool")
    string: str | None = None
    version: str | None = None
    ints: list[int] | None = None
    bools: list[bool] | None = None
    strings: list[str] | None = None
    versions: list[str] | None = None

    @property
    def is_list(self) -> bool:
        """Return whether a list field is set."""
        return any(items is not None for items in (self.ints, self.bools, self.strings, self.versions))

    @property
    def value(self) -> AttributeValue:
        """Return the value of the field that is set.

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
"""A value that is accepted as an attribute. A list becomes a list-typed attribute."""


def as_attributes(given: Mapping[str, AttributeLike]) -> dict[str, Attribute]:
    """Return attributes from plain values, by name.

    Raises:
        TypeError: Kubernetes does not support the type of a value. The message names the attribute.
    """
    return convert_values(given, _attribute)


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
        f"{items!r} is not an attribute: must be a bool, int, str or Version, or a list of one of these types"
    )


class CapacityRequestPolicyRange(Value, frozen=True, kw_only=True):
    """The range of amounts that a request may ask for (KEP-5075)."""

    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None

    if TYPE_CHECKING:
        # msgspec builds an __init__ with the types of the fields, but __post_init__ also accepts plain amounts.
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
            InvalidQuantityError: an amount is not a quantity. The message names the field.
        """
        for field in ("min", "max", "step"):
            if (given := getattr(self, field)) is not None:
                try:
                    force_setattr(self, field, Quantity(given))
                except InvalidQuantityError as error:
                    raise wrap_field_error("range of a request policy", field, error) from None


class CapacityRequestPolicy(Value, frozen=True, kw_only=True):
    """The rules by which an amount that a request asks for is rounded and checked (KEP-5075)."""

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
            InvalidQuantityError: an amount is not a quantity. The message names the field.
            TypeError: `valid_values` is not a list.
        """
        field = "default"
        try:
            if self.default is not None:
                force_setattr(self, field, Quantity(self.default))
            field = "valid_values"
            force_setattr(self, field, tuple(map(Quantity, as_tuple(self.valid_values))))
        except (TypeError, InvalidQuantityError) as error:
            raise wrap_field_error("request policy", field, error) from None


class Capacity(Value, frozen=True):
    """A capacity of a device: its amount and its request policy (`DeviceCapacity`)."""

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
    """A mark on a device. A request gets the device only if it tolerates the taint (`DeviceTaint`).

    Attributes:
        key: a qualified name.
        value: a label value. It may be empty.
        effect: `None` only informs, `NoSchedule` keeps new claims away, and `NoExecute` also evicts pods.
        time_added: the time at which the taint was added. The API server sets it, and the publisher keeps it.
    """

    key: str
    effect: Literal["None", "NoSchedule", "NoExecute"]
    value: str = ""
    time_added: datetime | None = None

    def __str__(self) -> str:
        """Return `key=value:effect`, as kubectl prints taints."""
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


def _capacity(given: Capacity | QuantityLike) -> Capacity:
    return given if isinstance(given, Capacity) else Capacity(given)


_TUPLES: Final = ("consumes_counters", "taints", "binding_conditions", "binding_failure_conditions")


class Device(Value, frozen=True):
    """One device of a pool.

    Attributes:
        name: a DNS label, unique in its pool. It must not change at a restart, because claims refer to it.
        attributes: the attributes, which selectors can read. Unqualified names belong to the driver's domain.
        capacity: the capacities, which selectors can read.
        consumes_counters: the amounts that the device takes of the pool's counter sets (KEP-4815).
        node_name, node_selector, all_nodes: the nodes that reach the device. Only for pools with per-device
            node selection.
        taints: the taints of the device.
        binds_to_node: whether an allocation can be used only on the chosen node (KEP-5007).
        binding_conditions: conditions that must be True before a pod is bound (KEP-5007).
        binding_failure_conditions: conditions that mean failure. If one is True, the scheduler gives up the
            allocation.
        allow_multiple_allocations: whether several claims may share the device.
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
        # msgspec builds an __init__ with the types of the fields, but __post_init__ also accepts plain values.
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
                mapping. The message names device and field.
            InvalidQuantityError: a capacity is not a quantity. The message names device and field.
        """
        field = "attributes"
        try:
            force_setattr(self, field, as_attributes(self.attributes))
            field = "capacity"
            force_setattr(self, field, convert_values(self.capacity, _capacity))
            for field in _TUPLES:
                force_setattr(self, field, as_tuple(getattr(self, field)))
        except (TypeError, ValueError) as error:
            raise wrap_field_error(f"device {self.name!r}", field, error) from None

    def attribute(self, name: str, driver: str = "") -> AttributeValue | None:
        """Return the value of an attribute, or None. `driver` is the domain of unqualified names."""
        attribute = self.attributes.get(name)
        if attribute is None and driver:
            wanted = qualify(name, driver)
            attribute = next((a for key, a in self.attributes.items() if qualify(key, driver) == wanted), None)
        return None if attribute is None else attribute.value

    @property
    def shareable(self) -> bool:
        """Return whether several claims may hold the device at the same time."""
        return self.allow_multiple_allocations is True
