"""Shared counters of a pool, and their consumption by devices (KEP-4815, KEP-5963)."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from msgspec.structs import force_setattr

from dradriver.model.encoding.codec import Value
from dradriver.model.encoding.plain_input import as_mapping, as_tuple, misfit
from dradriver.model.quantity import InvalidQuantityError, Quantity, QuantityLike

__all__ = [
    "MAX_COMPATIBILITY_GROUPS",
    "MAX_CONSUMPTIONS",
    "MAX_COUNTERS",
    "MAX_COUNTER_SETS",
    "MAX_SLICE_COUNTERS",
    "Counter",
    "CounterConsumption",
    "CounterSet",
]

MAX_COUNTER_SETS: Final = 8
"""Maximum number of counter sets in one slice (`ResourceSliceMaxCounterSets`)."""
MAX_COUNTERS: Final = 32
"""Maximum number of counters in one counter set, and in one consumption of it."""
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
        # msgspec builds __init__ from the fields; __post_init__ accepts plain amounts too.
        def __init__(self, value: QuantityLike) -> None: ...

    def __post_init__(self) -> None:
        """Turn a plain amount into a quantity.

        Raises:
            InvalidQuantityError: the amount is not a quantity.
        """
        force_setattr(self, "value", Quantity(self.value))


def _counters(given: "Mapping[str, Counter | QuantityLike]") -> dict[str, Counter]:
    counters = {}
    for name, amount in as_mapping(given).items():
        try:
            counters[name] = amount if isinstance(amount, Counter) else Counter(amount)
        except InvalidQuantityError as error:
            raise InvalidQuantityError(f"[{name!r}]: {error}") from None
    return counters


class CounterSet(Value, frozen=True):
    """A named set of counters that the devices of one pool share (`sharedCounters`).

    Attributes:
        name: a DNS label, unique in the pool.
        counters: each counter's name (a DNS label) and amount.
    """

    name: str
    counters: dict[str, Counter] = {}

    if TYPE_CHECKING:
        # msgspec builds __init__ from the fields; __post_init__ accepts plain amounts too.
        def __init__(self, name: str, counters: "Mapping[str, Counter | QuantityLike]" = ...) -> None: ...

    def __post_init__(self) -> None:
        """Turn plain amounts into counters.

        Raises:
            InvalidQuantityError: an amount is not a quantity; the message names counter set and counter.
            TypeError: `counters` is not a mapping.
        """
        try:
            force_setattr(self, "counters", _counters(self.counters))
        except (TypeError, InvalidQuantityError) as error:
            raise misfit(f"counter set {self.name!r}", "counters", error) from None


class CounterConsumption(Value, frozen=True):
    """The consumption of one counter set by an allocated device (`consumesCounters`).

    Attributes:
        counter_set: the counter set's name, in the same pool.
        counters: the amount taken of each counter.
        compatibility_groups: devices that consume from one counter set at the same time must all share at least
            one of these groups (KEP-5963). A device without groups is compatible only with other devices
            without groups.
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
            InvalidQuantityError: an amount is not a quantity; the message names counter set and counter.
            TypeError: a field is not a mapping or list.
        """
        field = "counters"
        try:
            force_setattr(self, field, _counters(self.counters))
            field = "compatibility_groups"
            force_setattr(self, field, as_tuple(self.compatibility_groups))
        except (TypeError, InvalidQuantityError) as error:
            raise misfit(f"consumption of counter set {self.counter_set!r}", field, error) from None
