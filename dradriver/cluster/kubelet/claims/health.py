"""Stores the device health that drivers report, and converts it for a container's status (KEP-4680)."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

__all__ = ["CachedHealth", "DeviceReport", "HealthCache"]

_DEFAULT_TIMEOUT: Final = 30.0
_MAX_MESSAGE: Final = 1024
_MAX_DEVICES: Final = 16384
"""The maximum number of recorded devices for each driver, so that a broken driver can't fill the memory."""


class DeviceReport(NamedTuple):
    """One device in a driver's report. Its health is `Healthy`, `Unhealthy` or `Unknown`.

    `timeout` is in seconds. If the driver does not report the device again within this time, the health becomes
    `Unknown`.
    """

    pool: str
    device: str
    health: str
    message: str = ""
    timeout: float = 0.0


class CachedHealth(NamedTuple):
    """The current health of a device."""

    health: str
    message: str = ""


UNKNOWN: Final = CachedHealth("Unknown")


@dataclass(frozen=True, slots=True)
class _Entry:
    health: CachedHealth
    timeout: float
    updated: float


class HealthCache:
    """The last report of each driver.

    The health of a device is `Unknown` if the driver has not reported the device, or its next report is
    overdue.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._drivers: dict[str, dict[tuple[str, str], _Entry]] = {}

    def get(self, driver: str, pool: str, device: str) -> CachedHealth:
        """Return the current health of a device."""
        entry = self._drivers.get(driver, {}).get((pool, device))
        if entry is None or self._clock() - entry.updated > entry.timeout:
            return UNKNOWN
        return entry.health

    def update(self, driver: str, reports: Sequence[DeviceReport]) -> set[tuple[str, str]]:
        """Store a complete report. Return the (pool, device) pairs whose health changed."""
        now = self._clock()
        known = self._drivers.setdefault(driver, {})
        changed = set()
        reported = set()
        for report in reports:
            key = (report.pool, report.device)
            reported.add(key)
            if key not in known and len(known) >= _MAX_DEVICES:
                continue
            timeout = report.timeout if report.timeout > 0 else _DEFAULT_TIMEOUT
            entry = _Entry(CachedHealth(report.health, _truncate(report.message)), timeout, now)
            before = known.get(key)
            if before is None or (before.health, before.timeout) != (entry.health, entry.timeout):
                changed.add(key)
            known[key] = entry
        changed |= _remove_overdue(known, reported, now)
        return changed

    def clear(self, driver: str) -> None:
        """Remove the health of a driver whose stream has ended."""
        self._drivers.pop(driver, None)


def _remove_overdue(
    known: dict[tuple[str, str], _Entry], reported: set[tuple[str, str]], now: float
) -> set[tuple[str, str]]:
    """Remove overdue entries that are not in the report. Return the entries whose health changes."""
    overdue = {
        key: entry
        for key, entry in known.items()
        if key not in reported and now - entry.updated > entry.timeout
    }
    for key in overdue:
        del known[key]
    return {key for key, entry in overdue.items() if entry.health.health != UNKNOWN.health}


def _truncate(message: str) -> str:
    return message if len(message) <= _MAX_MESSAGE else message[: _MAX_MESSAGE - 3] + "..."


def to_resource_health(healths: Mapping[str, CachedHealth]) -> list[dict[str, str]]:
    """Return the field `resources` of a ResourceStatus, from resource IDs and their health."""
    return [
        {"resourceID": resource_id, "health": health.health}
        | ({"message": health.message} if health.message else {})
        for resource_id, health in healths.items()
    ]
