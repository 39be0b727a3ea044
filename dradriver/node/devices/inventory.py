"""What the driver offers, as it last said: devices to look up and counter sets to check against.

Also what a driver of the same name publishes from the control plane, as far as claims came for it.
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
"""Characters of a value in a message."""

_SHARED_POOLS: Final = 100
"""So many are kept in mind: each claim's are looked up anew, and names of pools may come and go for ever."""


def as_pools(discovered: Iterable[object], node: str | None, what: str, place: str = "") -> list[Pool]:
    """What `discover()` or `fallback()` returned, as pools that all have a name.

    Args:
        discovered: pools, or the devices of the node's own pool.
        node: the node's name, which names that pool; None in the control plane, where only pools will do.
        what: the method, for messages.
        place: the method's file and line, for messages.

    Raises:
        DriverError: something else was returned, or both kinds, or values of wrong types. The message names
            the device, or the index of what is none, and the field.
    """

    def wrong(told: str) -> DriverError:
        return DriverError(f"{what} returned {told}{at(place)}")

    if isinstance(discovered, str | bytes | Mapping) or not isinstance(discovered, Iterable):
        raise wrong(f"{_shown(discovered)}: a list of devices or pools is wanted")
    try:
        items: list[object] = list(discovered)
    except Exception as error:  # the author's code makes the items, maybe only now
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
    # No devices: an empty pool, which tells schedulers that there is nothing, not that nobody looked.
    found = pools or ([] if node is None else [Pool(name=node, devices=tuple(devices))])
    for pool in found:
        if mistake := _wrong_type(pool):
            raise wrong(f"a value of a wrong type: {mistake}")
    return [pool if pool.name or node is None else msgspec.structs.replace(pool, name=node) for pool in found]


def _shown(value: object) -> str:
    """A value for a message: its type, and itself where that is short."""
    text = " ".join(repr(value).splitlines())
    kind = type(value).__name__
    return f"{text} ({kind})" if len(text) <= _SHORT else f"{kind} {text[:_SHORT]}..."


def _wrong_type(pool: Pool) -> str:
    """The first value that is none of its field's; authors' code is not bound to its types.

    A wrong value would fail far from here, on its way to the API server.
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
    """The pools that the driver returned last; empty and not known until it first did."""

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
        """The driver has discovered these pools."""
        self._discovered = pools
        self._failure = None
        self._index()
        self._known.set()

    def set_fallback(self, pools: Sequence[Pool]) -> None:
        """The driver offers these instead, where the API server drops fields."""
        self._fallback = pools
        self._index()

    def set_shared(self, pools: Iterable[Pool]) -> None:
        """These pools are published elsewhere; those told before stay, until there are many newer ones."""
        new = {pool.name: pool for pool in pools}
        shared = {name: pool for name, pool in self._shared.items() if name not in new} | new
        for name in list(shared)[:-_SHARED_POOLS]:
            del shared[name]
        if shared != self._shared:
            self._shared = shared
            self._index()

    def elsewhere(self, pools: Iterable[str]) -> Collection[str]:
        """Those of the pools that this driver offers nothing in."""
        return frozenset(pools) - {pool.name for pool in (*self._fallback, *self._discovered)}

    def failed(self, error: DraError) -> None:
        """The driver could not discover; what is known stays."""
        self._failure = error

    @property
    def failure(self) -> str:
        """Why the driver has not discovered yet, if it tried."""
        return "" if self._failure is None else str(self._failure)

    @property
    def known(self) -> bool:
        """Whether the driver has discovered once."""
        return self._known.is_set()

    async def ready(self, seconds: float) -> None:
        """Waits until the driver has discovered once: before that, nothing is known of counters.

        Raises:
            DraError: it has not in time; with the reason, if it gave one.
        """
        try:
            async with asyncio.timeout(seconds):
                await self._known.wait()
        except TimeoutError:
            reason = f": {self._failure}" if self._failure else ""
            raise DraError(f"the driver has not discovered its devices yet{reason}") from self._failure

    def device(self, pool: str, name: str) -> Device | None:
        """The device as the driver last returned it."""
        return self._devices.get((pool, name))

    @property
    def devices(self) -> Mapping[tuple[str, str], Device]:
        """Every device as the driver last returned it, by pool and name; a new mapping whenever it is asked."""
        return self._devices

    def _index(self) -> None:
        # What was discovered wins over the fallback where both have a name, and our own over what is shared.
        pools = [*self._shared.values(), *self._fallback, *self._discovered]
        self.counter_sets = {
            (pool.name, counter_set.name): counter_set for pool in pools for counter_set in pool.counter_sets
        }
        # Last: whoever sees these devices from another thread sees their counter sets too.
        self._devices = {(pool.name, device.name): device for pool in pools for device in pool.devices}
