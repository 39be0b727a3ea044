"""Devices that failed, and the taints that keep new claims away from them.

In memory, and in the published taints themselves: a new process finds them there with the time they were
added, and takes them away when they have been there long enough.
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
"""What failed; the taint's key after the driver's name."""

_ALL: Final[tuple[Why, ...]] = get_args(Why)


class BadDevices:
    """Which devices are kept from new claims, why and until when.

    Args:
        driver: whose devices they are.
        hold_off: how long each is kept away after it failed last.
        now: the time.
    """

    def __init__(self, driver: str, hold_off: timedelta, now: Callable[[], datetime]) -> None:
        self._whys = {f"{driver}/{why}": why for why in _ALL}
        self._hold_off = hold_off
        self._now = now
        self._until: dict[tuple[str, str], dict[Why, datetime]] = {}

    def add(self, pool: str, device: str, why: Why) -> None:
        """The device failed now."""
        self._until.setdefault((pool, device), {})[why] = self._now() + self._hold_off

    def discard(self, pool: str, device: str, why: Why) -> bool:
        """The device works; whether it was thought bad."""
        whys = self._until.get((pool, device), {})
        found = whys.pop(why, None) is not None
        if found and not whys:
            del self._until[pool, device]
        return found

    def adopt(self, slices: Iterable[ResourceSlice]) -> None:
        """Takes over what an earlier process published."""
        for item in slices:
            for device in item.spec.devices:
                for taint in device.taints:
                    if why := self._whys.get(taint.key):
                        since = taint.time_added or self._now()
                        whys = self._until.setdefault((item.spec.pool.name, device.name), {})
                        whys.setdefault(why, since + self._hold_off)

    def expire(self) -> timedelta | None:
        """Forgets what is over; how long until the next one."""
        now = self._now()
        for (pool, device), whys in list(self._until.items()):
            for why in [why for why, until in whys.items() if until <= now]:
                self.discard(pool, device, why)
        untils = [until for whys in self._until.values() for until in whys.values()]
        return min(untils) - now if untils else None

    def tainted(self, pools: Sequence[Pool]) -> list[Pool]:
        """The pools with the taints of each bad device."""
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
    """Whether no claim without a toleration can get the device: it is withdrawn or tainted in every slice."""
    return all(
        any(taint.effect in {"NoSchedule", "NoExecute"} for taint in each.taints)
        for item in slices
        if item.spec.pool.name == pool
        for each in item.spec.devices
        if each.name == device
    )
