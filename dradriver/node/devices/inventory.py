"""The driver's last discovered devices, for lookups, and their counter sets, for checks.

It also keeps pools that a driver of the same name publishes from the control plane, if a claim needed them.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from dradriver.driver.code_places import at, raised_at
from dradriver.errors import DraError, DriverError, InvalidObjectError
from dradriver.model.encoding.codec import encode, from_builtins
from dradriver.model.resource.counters import CounterSet
from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool
from dradriver.node.state.device_holds import CounterSets

__all__ = ["DiscoveredDevices", "as_pools"]

_SHORT: Final = 80
"""Maximum length of a value in a message, in characters."""

_SHARED_POOLS: Final = 100
"""Maximum of shared pools that are kept: each claim looks its pools up again, and names may change forever."""


def as_pools(discovered: Iterable[object], node: str | None, what: str, place: str = "") -> list[Pool]:
    """Convert the result of `discover()` or `fallback()` to pools with names.

    Args:
        discovered: pools, or the devices of the node's own pool.
        node: the node's name, which is the name of that pool. None in the control plane, which accepts only
            pools.
        what: the method, for messages.
        place: the method's file and line, for messages.

    Raises:
        DriverError: the result is something else, or both kinds, or has values of wrong types. The message
            names the device, or the index of an item that is not a device, and the field.
    """

    def wrong(told: str) -> DriverError:
        return DriverError(f"{what} returned {told}{at(place)}")

    if isinstance(discovered, str | bytes | Mapping) or not isinstance(discovered, Iterable):
        raise wrong(f"{_shown(discovered)}: a list of devices or pools is wanted")
    try:
        items: list[object] = list(discovered)
    except Exception as error:  # the author's code creates the items, possibly only now
        told = f"devices that can't be listed: {type(error).__name__}: {error}{at(raised_at(error))}"
        raise DriverError(f"{what} returned {told}") from error
    for index, item in enumerate(items):
        if not isinstance(item, Pool | Device):
            raise wrong(f"{_shown(item)} at index {index}: devices or pools are wanted")
    pools = [item for item in items if isinstance(item, Pool)]
    devices = [item for item in items if isinstance(item, Device)]
    if pools and devices:
        raise wrong("both pools and devices: put the devices into a pool")
    if node is None and devices:
        raise wrong("devices: without a node, put them into pools that have a name")
    # An empty pool tells schedulers that there is no device. Without a pool, discovery might still be pending.
    found = pools or ([] if node is None else [Pool(name=node, devices=tuple(devices))])
    for pool in found:
        if mistake := _wrong_type(pool):
            raise wrong(f"a value of a wrong type: {mistake}")
    return [pool if pool.name or node is None else msgspec.structs.replace(pool, name=node) for pool in found]


def _shown(value: object) -> str:
    """Return a value for a message: its type, and the value if it is short."""
    text = " ".join(repr(value).splitlines())
    kind = type(value).__name__
    return f"{text} ({kind})" if len(text) <= _SHORT else f"{kind} {text[:_SHORT]}..."


def _wrong_type(pool: Pool) -> str:
    """Return the first value that does not fit its field; authors' code may ignore type hints.

    A wrong value would otherwise fail later, on its way to the API server.
    """
    if not (mistake := _mistake(Pool, pool)):
        return ""
    where = f"pool {pool.name!r}"
    for field, kind in (("devices", Device), ("counter_sets", CounterSet)):
        for index, item in enumerate(getattr(pool, field)):
            name = f"device {item.name!r}" if isinstance(item, Device) else f"{field}[{index}]"
            if not isinstance(item, kind):
                return f"{where}: {field}[{index}]: {_shown(item)} is no {kind.__name__}"
            if found := _mistake(kind, item):
                return f"{where}: {name}: {found}"
    return f"{where}: {mistake}"


def _mistake(kind: type[Pool | Device | CounterSet], value: Pool | Device | CounterSet) -> str:
    try:
        from_builtins(kind, value)
    except InvalidObjectError as error:
        return "; ".join(map(str, error.problems))
    except (TypeError, ValueError, NotImplementedError):
        return next((found for name in kind.__struct_fields__ if (found := _unencodable(value, name))), "")
    return ""


def _unencodable(value: object, field: str) -> str:
    given = getattr(value, field)
    try:
        encode(given)
    except (TypeError, ValueError, NotImplementedError):
        return f"{field}: {_shown(given)} has no JSON form"
    return ""


class DiscoveredDevices:
    """The pools that the driver returned last; empty and unknown until the first result."""

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
        """Store the pools that the driver offers instead while the API server drops fields."""
        self._fallback = pools
        self._index()

    def set_shared(self, pools: Iterable[Pool]) -> None:
        """Add pools that are published elsewhere; earlier ones stay until there are too many newer ones."""
        new = {pool.name: pool for pool in pools}
        shared = {name: pool for name, pool in self._shared.items() if name not in new} | new
        for name in list(shared)[:-_SHARED_POOLS]:
            del shared[name]
        if shared != self._shared:
            self._shared = shared
            self._index()

    def elsewhere(self, pools: Iterable[str]) -> Collection[str]:
        """Return those of the pools that this driver does not offer itself."""
        return frozenset(pools) - {pool.name for pool in (*self._fallback, *self._discovered)}

    def failed(self, error: DraError) -> None:
        """Record a failed discovery; the known pools stay."""
        self._failure = error

    @property
    def failure(self) -> str:
        """Return why the last discovery failed; empty if it succeeded or there was none."""
        return "" if self._failure is None else str(self._failure)

    @property
    def known(self) -> bool:
        """Return whether the driver has discovered once."""
        return self._known.is_set()

    async def ready(self, seconds: float) -> None:
        """Wait until the driver has discovered once; before that, counter sets are unknown.

        Raises:
            DraError: it has not discovered in time. The message has the driver's error, if there is one.
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
        """Return every device as the driver last returned it, by pool and name; a new mapping in each call."""
        return self._devices

    def _index(self) -> None:
        # For equal names, discovered pools win over the fallback, and own pools win over shared ones.
        pools = [*self._shared.values(), *self._fallback, *self._discovered]
        self.counter_sets = {
            (pool.name, counter_set.name): counter_set for pool in pools for counter_set in pool.counter_sets
        }
        # Assigned last: a thread that reads these devices also reads their counter sets.
        self._devices = {(pool.name, device.name): device for pool in pools for device in pool.devices}
