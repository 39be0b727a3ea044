"""Store the devices that the driver discovered last, for lookups, and their counter sets, for checks.

The inventory also stores pools that a driver of the same name publishes from the control plane, if a claim has
devices of such a pool.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from dradriver.driver.source_locations import find_raise, format_location
from dradriver.errors import DraError, DriverError, InvalidObjectError
from dradriver.model.encoding.codec import encode, from_builtins
from dradriver.model.resource.counters import CounterSet
from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool
from dradriver.node.state.records import CounterSets

__all__ = ["DiscoveredDevices", "as_pools"]

_MAX_VALUE: Final = 80
"""Maximum length of a value in a message, in characters."""

_SHARED_POOLS: Final = 100
"""Maximum number of shared pools in memory; if a claim needs a removed pool, the pool is looked up again."""


def as_pools(discovered: Iterable[object], node: str | None, subject: str, location: str = "") -> list[Pool]:
    """Convert the result of `discover()` or `fallback()` to pools with names.

    Args:
        discovered: pools, or the devices of the node's own pool.
        node: the node's name, which is also the name of the node's own pool. None if the driver runs in the
            control plane and must return pools.
        subject: the driver and the method, for messages.
        location: the method's file and line, for messages.

    Raises:
        DriverError: the result is neither pools nor devices, is a mixture of both, or has a value of a wrong
            type. The message names the field and the device. For an item that is not a device, the message has
            the item's index instead.
    """

    def wrong(problem: str) -> DriverError:
        return DriverError(f"{subject} returned {problem}{format_location(location)}")

    if isinstance(discovered, str | bytes | Mapping) or not isinstance(discovered, Iterable):
        raise wrong(f"{_format_value(discovered)}: must be a list of devices or pools")
    try:
        items: list[object] = list(discovered)
    except Exception as error:  # the result may be a generator, which runs the author's code
        problem = f"devices that cannot be listed: {type(error).__name__}: {error}"
        raise DriverError(f"{subject} returned {problem}{format_location(find_raise(error))}") from error
    for index, item in enumerate(items):
        if not isinstance(item, Pool | Device):
            raise wrong(f"{_format_value(item)} at index {index}: must be a device or a pool")
    pools = [item for item in items if isinstance(item, Pool)]
    devices = [item for item in items if isinstance(item, Device)]
    if pools and devices:
        raise wrong("both pools and devices: must put the devices into a pool")
    if node is None and devices:
        raise wrong("devices without a pool: a driver without a node must return pools that have a name")
    # An empty pool shows schedulers that the node has no device. Without a pool, discovery may still be
    # pending.
    pools = pools or ([] if node is None else [Pool(name=node, devices=tuple(devices))])
    for pool in pools:
        if type_error := _find_type_error(pool):
            raise wrong(f"a value of a wrong type: {type_error}")
    return [pool if pool.name or node is None else msgspec.structs.replace(pool, name=node) for pool in pools]


def _format_value(value: object) -> str:
    """Format a value for a message: its type, and the value, which is cut if it is long."""
    text = " ".join(repr(value).splitlines())
    kind = type(value).__name__
    return f"{text} ({kind})" if len(text) <= _MAX_VALUE else f"{kind} {text[:_MAX_VALUE]}..."


def _find_type_error(pool: Pool) -> str:
    """Return a message about the first value of a wrong type; authors' code may ignore type hints.

    Without this check, the value would cause an error later, when the pool is published.
    """
    if not (type_error := _describe_type_error(Pool, pool)):
        return ""
    subject = f"pool {pool.name!r}"
    for field, kind in (("devices", Device), ("counter_sets", CounterSet)):
        for index, item in enumerate(getattr(pool, field)):
            name = f"device {item.name!r}" if isinstance(item, Device) else f"{field}[{index}]"
            if not isinstance(item, kind):
                return f"{subject}: {field}[{index}]: {_format_value(item)}: must be a {kind.__name__}"
            if problem := _describe_type_error(kind, item):
                return f"{subject}: {name}: {problem}"
    return f"{subject}: {type_error}"


def _describe_type_error(kind: type[Pool | Device | CounterSet], value: Pool | Device | CounterSet) -> str:
    try:
        from_builtins(kind, value)
    except InvalidObjectError as error:
        return "; ".join(map(str, error.problems))
    except (TypeError, ValueError, NotImplementedError):
        problems = (_describe_unencodable(value, name) for name in kind.__struct_fields__)
        return next(filter(None, problems), "")
    return ""


def _describe_unencodable(value: object, field: str) -> str:
    field_value = getattr(value, field)
    try:
        encode(field_value)
    except (TypeError, ValueError, NotImplementedError):
        return f"{field}: {_format_value(field_value)} has no JSON form"
    return ""


class DiscoveredDevices:
    """The pools that the driver returned last; empty until the first result of `discover()`."""

    def __init__(self, pools: Iterable[Pool] | None = None) -> None:
        self._discovered: Sequence[Pool] = ()
        self._fallback: Sequence[Pool] = ()
        self._shared: Mapping[str, Pool] = {}
        self._devices: Mapping[tuple[str, str], Device] = {}
        self.counter_sets: CounterSets = {}
        self._known = asyncio.Event()
        self._failure: DraError | None = None
        if pools is not None:
            self.set(list(pools))

    def set(self, pools: Sequence[Pool]) -> None:
        """Store the discovered pools."""
        self._discovered = pools
        self._failure = None
        self._index()
        self._known.set()

    def set_fallback(self, pools: Sequence[Pool]) -> None:
        """Store the fallback pools, which the driver offers while the API server drops fields."""
        self._fallback = pools
        self._index()

    def set_shared(self, pools: Iterable[Pool]) -> None:
        """Add shared pools; if there are too many, the pools that were added first are removed."""
        new = {pool.name: pool for pool in pools}
        shared = {name: pool for name, pool in self._shared.items() if name not in new} | new
        for name in list(shared)[:-_SHARED_POOLS]:
            del shared[name]
        if shared != self._shared:
            self._shared = shared
            self._index()

    def select_shared(self, pools: Iterable[str]) -> Collection[str]:
        """Return the given pool names without the pools that this driver offers on the node."""
        return frozenset(pools) - {pool.name for pool in (*self._fallback, *self._discovered)}

    def set_failure(self, error: DraError) -> None:
        """Record that the discovery failed; the stored pools stay."""
        self._failure = error

    @property
    def failure(self) -> str:
        """Return why the last discovery failed or takes too long; empty if there is no such problem."""
        return "" if self._failure is None else str(self._failure)

    @property
    def is_known(self) -> bool:
        """Return whether a discovery has succeeded."""
        return self._known.is_set()

    async def wait_known(self, seconds: float) -> None:
        """Wait until a discovery has succeeded; before that, counter sets are unknown.

        Raises:
            DraError: no discovery has succeeded in time. The message contains the driver's last error, if there
                is one.
        """
        try:
            async with asyncio.timeout(seconds):
                await self._known.wait()
        except TimeoutError:
            reason = f": {self._failure}" if self._failure else ""
            raise DraError(f"the driver has not discovered its devices yet{reason}") from self._failure

    def device(self, pool: str, name: str) -> Device | None:
        """Return the device as the driver last returned it."""
        return self._devices.get((pool, name))

    @property
    def devices(self) -> Mapping[tuple[str, str], Device]:
        """Return every device as the driver last returned it, by pool and name.

        The mapping is never changed: a later result of the driver is a new mapping.
        """
        return self._devices

    def _index(self) -> None:
        # If pools have the same name, a discovered pool replaces a fallback pool, which replaces a shared pool.
        pools = [*self._shared.values(), *self._fallback, *self._discovered]
        self.counter_sets = {
            (pool.name, counter_set.name): counter_set for pool in pools for counter_set in pool.counter_sets
        }
        # Assigned after the counter sets, so that a thread that reads these devices also finds their counter
        # sets.
        self._devices = {(pool.name, device.name): device for pool in pools for device in pool.devices}
