"""Shared counters of a pool, and their consumption by devices (KEP-4815, KEP-5963)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import force_setattr

from dradriver.model.encoding.codec import Value
from dradriver.model.encoding.plain_input import as_tuple, convert_values, wrap_field_error
from dradriver.model.quantity import InvalidQuantityError, Quantity, QuantityLike

__all__ = [
    "FULL_SIZE",
    "MAX_COMPATIBILITY_GROUPS",
    "MAX_CONSUMPTIONS",
    "MAX_COUNTERS",
    "MAX_COUNTER_SETS",
    "MAX_SLICE_COUNTERS",
    "Counter",
    "CounterConsumption",
    "CounterSet",
    "compute_size",
    "connect_sets",
]

FULL_SIZE: Final = 10**6
"""The size of a device that takes all counters (`compute_size`)."""
MAX_COUNTER_SETS: Final = 8
"""Maximum number of counter sets in one slice (`ResourceSliceMaxCounterSets`)."""
MAX_COUNTERS: Final = 32
"""Maximum number of counters in one counter set, and in one consumption of a counter set."""
MAX_CONSUMPTIONS: Final = 2
"""Maximum number of counter sets from which one device may consume."""
MAX_COMPATIBILITY_GROUPS: Final = 2
"""Maximum number of compatibility groups of one consumption (KEP-5963)."""
MAX_SLICE_COUNTERS: Final = 2048
"""Maximum number of consumed counters in one slice (KEP-4815, Limits; Kubernetes 1.37 does not enforce it)."""


class Counter(Value, frozen=True):
    """The amount of one counter."""

    value: Quantity

    if TYPE_CHECKING:
        # msgspec builds an __init__ with the types of the fields, but __post_init__ also accepts plain amounts.
        def __init__(self, value: QuantityLike) -> None: ...

    def __post_init__(self) -> None:
        """Turn a plain amount into a quantity.

        Raises:
            InvalidQuantityError: the amount is not a quantity.
        """
        force_setattr(self, "value", Quantity(self.value))


def _counter(given: Counter | QuantityLike) -> Counter:
    return given if isinstance(given, Counter) else Counter(given)


class CounterSet(Value, frozen=True):
    """A named set of counters that the devices of one pool share (`sharedCounters`).

    Attributes:
        name: a DNS label, unique in the pool.
        counters: the amount of each counter by name (a DNS label).
    """

    name: str
    counters: dict[str, Counter] = {}

    if TYPE_CHECKING:
        # msgspec builds an __init__ with the types of the fields, but __post_init__ also accepts plain amounts.
        def __init__(self, name: str, counters: "Mapping[str, Counter | QuantityLike]" = ...) -> None: ...

    def __post_init__(self) -> None:
        """Turn plain amounts into counters.

        Raises:
            InvalidQuantityError: an amount is not a quantity. The message names counter set and counter.
            TypeError: `counters` is not a mapping.
        """
        try:
            force_setattr(self, "counters", convert_values(self.counters, _counter))
        except (TypeError, InvalidQuantityError) as error:
            raise wrap_field_error(f"counter set {self.name!r}", "counters", error) from None


class CounterConsumption(Value, frozen=True):
    """The consumption of one counter set by an allocated device (`consumesCounters`).

    Attributes:
        counter_set: the name of a counter set of the device's pool.
        counters: the amount that the device takes of each counter.
        compatibility_groups: the compatibility groups of the device. All devices that consume from one counter
            set at the same time must have at least one group in common (KEP-5963). A device without groups is
            compatible only with other devices without groups.
    """

    counter_set: str
    counters: dict[str, Counter] = {}
    compatibility_groups: tuple[str, ...] = ()

    if TYPE_CHECKING:

        def __init__(
            self,
            counter_set: str,
            counters: "Mapping[str, Counter | QuantityLike]" = ...,
            compatibility_groups: Iterable[str] = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        """Turn plain amounts into counters, and an iterable of groups into a tuple.

        Raises:
            InvalidQuantityError: an amount is not a quantity. The message names counter set and counter.
            TypeError: `counters` is not a mapping, or `compatibility_groups` is not a list.
        """
        field = "counters"
        try:
            force_setattr(self, field, convert_values(self.counters, _counter))
            field = "compatibility_groups"
            force_setattr(self, field, as_tuple(self.compatibility_groups))
        except (TypeError, InvalidQuantityError) as error:
            raise wrap_field_error(f"consumption of counter set {self.counter_set!r}", field, error) from None


def compute_size(taken: Iterable[tuple[int, int]], counters: int) -> int:
    """Return the size of a device: the part of its component's counters that it takes, in millionths.

    Args:
        taken: (amount that the device takes, total of the counter) for each counter that the device takes.
        counters: the number of counters of the component (`connect_sets`).
    """
    return sum(part * FULL_SIZE // total for part, total in taken if total > 0) // max(1, counters)


def connect_sets(names: Iterable[str], consumed: Iterable[Sequence[str]]) -> list[list[str]]:
    """Return the names of the counter sets, grouped by component.

    Args:
        names: the names of all counter sets of a pool.
        consumed: for each device, the counter sets from which it consumes. These sets belong to one component.
    """
    group = {name: [name] for name in sorted(names)}
    for first, *others in filter(None, consumed):
        for other in others:
            if group[first] is not group[other]:
                merged = sorted(group[first] + group[other])
                group.update(dict.fromkeys(merged, merged))
    return list({id(members): members for members in group.values()}.values())
