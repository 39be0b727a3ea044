"""The taints with the effect NoExecute in the newest slices of each pool, by device.

Newest means the highest generation anywhere, as in Kubernetes' device taint eviction controller. The allocator
compares generations among the slices that a node reaches.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from dradriver.control.taints.eviction import EvictingTaint
from dradriver.model.resource.claim import DeviceId
from dradriver.model.resource.slices import ResourceSlice
from dradriver.model.resource.taint_rule import DeviceTaintRule

__all__ = ["PublishedTaints"]

_Pool: TypeAlias = tuple[str, str]
_Taints: TypeAlias = Mapping[str, tuple[EvictingTaint, ...]]


@dataclass(frozen=True, slots=True)
class _Part:
    source: ResourceSlice
    taints: _Taints


class PublishedTaints:
    """The evicting taints of published devices. Slices of older generations do not count."""

    def __init__(self) -> None:
        self._pools: dict[_Pool, dict[str, _Part]] = {}
        self._tainted = 0

    def __bool__(self) -> bool:
        return self._tainted > 0

    def of(self, device: DeviceId) -> tuple[EvictingTaint, ...]:
        """Return the evicting taints that its driver has set on a device."""
        parts = self._newest((device.driver, device.pool))
        return next((part.taints[device.device] for part in parts if device.device in part.taints), ())

    def selected(self, rule: DeviceTaintRule) -> int:
        """Return the number of published devices that a rule selects."""
        return sum(
            rule.selects(driver, pool, device.name)
            for driver, pool in self._pools
            for part in self._newest((driver, pool))
            for device in part.source.spec.devices
        )

    def change(self, old: ResourceSlice | None, new: ResourceSlice | None) -> Iterable[DeviceId]:
        """Apply a slice that was added, replaced or deleted. Return the devices whose taints have changed."""
        pools = {_pool(each) for each in (old, new) if each is not None}
        before = {pool: self._effective(pool) for pool in pools}
        if old is not None:
            self._remove(old)
        if new is not None:
            part = _Part(new, dict(_evicting(new)))
            self._pools.setdefault(_pool(new), {})[new.metadata.name] = part
            self._tainted += bool(part.taints)
        return [device for pool in pools for device in self._changed(pool, before[pool])]

    def _remove(self, source: ResourceSlice) -> None:
        pool = self._pools.get(_pool(source), {})
        part = pool.pop(source.metadata.name, None)
        self._tainted -= part is not None and bool(part.taints)
        if not pool:
            self._pools.pop(_pool(source), None)

    def _newest(self, pool: _Pool) -> list[_Part]:
        parts = self._pools.get(pool, {}).values()
        newest = max((part.source.spec.pool.generation for part in parts), default=0)
        return [part for part in parts if part.source.spec.pool.generation == newest]

    def _effective(self, pool: _Pool) -> _Taints:
        return {name: taints for part in self._newest(pool) for name, taints in part.taints.items()}

    def _changed(self, pool: _Pool, before: _Taints) -> Iterator[DeviceId]:
        after = self._effective(pool)
        for name in before.keys() | after.keys():
            if before.get(name) != after.get(name):
                yield DeviceId(*pool, name)


def _pool(source: ResourceSlice) -> _Pool:
    return source.spec.driver, source.spec.pool.name


def _evicting(source: ResourceSlice) -> Iterator[tuple[str, tuple[EvictingTaint, ...]]]:
    for device in source.spec.devices:
        where = f"ResourceSlice {source.metadata.name}, device {device.name}"
        taints = tuple(EvictingTaint(taint, where) for taint in device.taints if taint.effect == "NoExecute")
        if taints:
            yield device.name, taints
