"""Devices that failed, and the taints that keep new claims away from them.

In memory, and in the published taints themselves: a new process finds them there with the time they were
added, and takes them away when they have been there long enough.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from dradriver.model.device import Device, Taint
from dradriver.model.pool import Pool
from dradriver.model.slices import ResourceSlice

__all__ = ["BadDevices", "kept_away"]


class BadDevices:
    """Which devices are kept from new claims, until when.

    Args:
        driver: whose devices they are.
        hold_off: how long each is kept away.
        now: the time.
    """

    def __init__(self, driver: str, hold_off: timedelta, now: Callable[[], datetime]) -> None:
        self._key = f"{driver}/attach-failed"
        self._hold_off = hold_off
        self._now = now
        self._until: dict[tuple[str, str], datetime] = {}

    def add(self, pool: str, device: str) -> None:
        """The device failed now."""
        self._until[pool, device] = self._now() + self._hold_off

    def discard(self, pool: str, device: str) -> bool:
        """The device works; whether it was thought bad."""
        return self._until.pop((pool, device), None) is not None

    def adopt(self, slices: Iterable[ResourceSlice]) -> None:
        """Takes over what an earlier process published."""
        for item in slices:
            for device in item.spec.devices:
                for taint in device.taints:
                    if taint.key == self._key:
                        since = taint.time_added or self._now()
                        self._until.setdefault((item.spec.pool.name, device.name), since + self._hold_off)

    def expire(self) -> timedelta | None:
        """Forgets whose time is over; how long until the next one."""
        now = self._now()
        for key in [key for key, until in self._until.items() if until <= now]:
            del self._until[key]
        return min(self._until.values()) - now if self._until else None

    def tainted(self, pools: Sequence[Pool]) -> list[Pool]:
        """The pools with a taint on each bad device."""
        bad_pools = {pool for pool, _ in self._until}
        return [self._pool(pool) if pool.name in bad_pools else pool for pool in pools]

    def _pool(self, pool: Pool) -> Pool:
        taint = Taint(key=self._key, effect="NoSchedule")
        devices = tuple(
            replace(device, taints=[*_others(device, self._key), taint])
            if (pool.name, device.name) in self._until
            else device
            for device in pool.devices
        )
        return replace(pool, devices=devices)


def _others(device: Device, key: str) -> list[Taint]:
    return [taint for taint in device.taints if taint.key != key]


def kept_away(slices: Iterable[ResourceSlice], pool: str, device: str) -> bool:
    """Whether no claim without a toleration can get the device: it is withdrawn or tainted in every slice."""
    return all(
        any(taint.effect in {"NoSchedule", "NoExecute"} for taint in each.taints)
        for item in slices
        if item.spec.pool.name == pool
        for each in item.spec.devices
        if each.name == device
    )
