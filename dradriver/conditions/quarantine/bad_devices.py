"""Devices that failed, and the taints that keep new claims away from them.

The failures are recorded in memory, and in the published taints. A new process finds the taints with the times
at which they were added, and removes each taint when its time is over.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, get_args

from msgspec.structs import replace

from dradriver.model.resource.device import Device, Taint
from dradriver.model.resource.pool import Pool
from dradriver.model.resource.slices import ResourceSlice

__all__ = ["BadDevices", "FailureReason", "is_unavailable"]

FailureReason = Literal["attach-failed", "detach-failed"]
"""The failed method, and the taint's key after the driver's name."""

_NEVER: Final = datetime.max.replace(tzinfo=UTC)
_REASONS: Final[tuple[FailureReason, ...]] = get_args(FailureReason)


class BadDevices:
    """The devices that are kept from new claims, with reasons and time limits.

    Args:
        driver: the driver's name.
        duration: how long a device stays tainted (`quarantine_seconds`).
        now: returns the time.
    """

    def __init__(self, driver: str, duration: timedelta, now: Callable[[], datetime]) -> None:
        self._reasons = {f"{driver}/{reason}": reason for reason in _REASONS}
        self._duration = duration
        self._now = now
        self._until: dict[tuple[str, str], dict[FailureReason, datetime]] = {}

    def add(self, pool: str, device: str, reason: FailureReason, *, expires: bool = True) -> None:
        """Record a failure of the device now. Without `expires`, it has no time limit until the next record."""
        end = self._now() + self._duration if expires else _NEVER
        self._until.setdefault((pool, device), {})[reason] = end

    def discard(self, pool: str, device: str, reason: FailureReason) -> bool:
        """Remove one reason, because the device works; return whether the reason was recorded."""
        reasons = self._until.get((pool, device), {})
        was_recorded = reasons.pop(reason, None) is not None
        if was_recorded and not reasons:
            del self._until[pool, device]
        return was_recorded

    def adopt(self, slices: Iterable[ResourceSlice]) -> None:
        """Adopt the taints that an earlier process published."""
        for item in slices:
            for device in item.spec.devices:
                for taint in device.taints:
                    if reason := self._reasons.get(taint.key):
                        since = taint.time_added or self._now()
                        reasons = self._until.setdefault((item.spec.pool.name, device.name), {})
                        reasons.setdefault(reason, since + self._duration)

    def expire(self) -> timedelta | None:
        """Remove expired entries; return the time until the next one expires."""
        now = self._now()
        for (pool, device), reasons in list(self._until.items()):
            for reason in [reason for reason, end in reasons.items() if end <= now]:
                self.discard(pool, device, reason)
        ends = [end for reasons in self._until.values() for end in reasons.values() if end != _NEVER]
        return min(ends) - now if ends else None

    def add_taints(self, pools: Sequence[Pool]) -> list[Pool]:
        """Return the pools with the taints of each bad device."""
        bad_pools = {pool for pool, _ in self._until}
        return [self._add_to_pool(pool) if pool.name in bad_pools else pool for pool in pools]

    def _add_to_pool(self, pool: Pool) -> Pool:
        devices = tuple(
            self._add_to_device(device, reasons)
            if (reasons := self._until.get((pool.name, device.name)))
            else device
            for device in pool.devices
        )
        return replace(pool, devices=devices)

    def _add_to_device(self, device: Device, reasons: Iterable[FailureReason]) -> Device:
        others = [taint for taint in device.taints if taint.key not in self._reasons]
        added = [
            Taint(key=key, effect="NoSchedule") for key, reason in self._reasons.items() if reason in reasons
        ]
        return replace(device, taints=[*others, *added])


def is_unavailable(slices: Iterable[ResourceSlice], pool: str, device: str) -> bool:
    """Return whether no claim without a toleration can get the device: each slice with it has a taint on it."""
    return all(
        any(taint.effect in {"NoSchedule", "NoExecute"} for taint in each.taints)
        for item in slices
        if item.spec.pool.name == pool
        for each in item.spec.devices
        if each.name == device
    )
