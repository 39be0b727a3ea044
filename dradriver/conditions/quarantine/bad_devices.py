"""Devices that failed, and the taints that keep new claims away from them.

They are in memory and in the published taints. A new process finds the taints with the times at which they were
added, and removes them when their time is over.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal, get_args

from msgspec.structs import replace

from dradriver.model.resource.device import Device, Taint
from dradriver.model.resource.pool import Pool
from dradriver.model.resource.slices import ResourceSlice

__all__ = ["BadDevices", "Why", "kept_away"]

Why = Literal["attach-failed", "detach-failed"]
"""The failed method, and the taint's key after the driver's name."""

_ALL: Final[tuple[Why, ...]] = get_args(Why)


class BadDevices:
    """The devices that are kept from new claims, with reasons and time limits.

    Args:
        driver: the driver's name.
        hold_off: how long a device is kept away after its last failure.
        now: returns the time.
    """

    def __init__(self, driver: str, hold_off: timedelta, now: Callable[[], datetime]) -> None:
        self._whys = {f"{driver}/{why}": why for why in _ALL}
        self._hold_off = hold_off
        self._now = now
        self._until: dict[tuple[str, str], dict[Why, datetime]] = {}

    def add(self, pool: str, device: str, why: Why) -> None:
        """Record a failure of the device now."""
        self._until.setdefault((pool, device), {})[why] = self._now() + self._hold_off

    def discard(self, pool: str, device: str, why: Why) -> bool:
        """Remove one reason, because the device works; return whether it was recorded."""
        whys = self._until.get((pool, device), {})
        found = whys.pop(why, None) is not None
        if found and not whys:
            del self._until[pool, device]
        return found

    def adopt(self, slices: Iterable[ResourceSlice]) -> None:
        """Adopt the taints that an earlier process published."""
        for item in slices:
            for device in item.spec.devices:
                for taint in device.taints:
                    if why := self._whys.get(taint.key):
                        since = taint.time_added or self._now()
                        whys = self._until.setdefault((item.spec.pool.name, device.name), {})
                        whys.setdefault(why, since + self._hold_off)

    def expire(self) -> timedelta | None:
        """Remove expired entries; return the time until the next one expires."""
        now = self._now()
        for (pool, device), whys in list(self._until.items()):
            for why in [why for why, until in whys.items() if until <= now]:
                self.discard(pool, device, why)
        untils = [until for whys in self._until.values() for until in whys.values()]
        return min(untils) - now if untils else None

    def tainted(self, pools: Sequence[Pool]) -> list[Pool]:
        """Return the pools with the taints of each bad device."""
        bad_pools = {pool for pool, _ in self._until}
        return [self._pool(pool) if pool.name in bad_pools else pool for pool in pools]

    def _pool(self, pool: Pool) -> Pool:
        devices = tuple(
            self._device(device, whys) if (whys := self._until.get((pool.name, device.name))) else device
            for device in pool.devices
        )
        return replace(pool, devices=devices)

    def _device(self, device: Device, whys: Iterable[Why]) -> Device:
        others = [taint for taint in device.taints if taint.key not in self._whys]
        ours = [Taint(key=key, effect="NoSchedule") for key, why in self._whys.items() if why in whys]
        return replace(device, taints=[*others, *ours])


def kept_away(slices: Iterable[ResourceSlice], pool: str, device: str) -> bool:
    """Return whether claims need a toleration to get the device: it is withdrawn or tainted in every slice."""
    return all(
        any(taint.effect in {"NoSchedule", "NoExecute"} for taint in each.taints)
        for item in slices
        if item.spec.pool.name == pool
        for each in item.spec.devices
        if each.name == device
    )
