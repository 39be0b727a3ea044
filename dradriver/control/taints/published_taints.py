"""Find the taints with the effect NoExecute in the newest slices of each pool, by device.

The newest slices are those with the highest generation in the whole cluster, as in Kubernetes' device taint
eviction controller. The allocator, in contrast, compares only the slices that a node reaches.
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
class _SliceTaints:
    source: ResourceSlice
    taints: _Taints


class PublishedTaints:
    """The evicting taints of published devices; slices of older generations are ignored."""

    def __init__(self) -> None:
        self._pools: dict[_Pool, dict[str, _SliceTaints]] = {}
        self._tainted = 0

    def __bool__(self) -> bool:
        return self._tainted > 0

    def find(self, device: DeviceId) -> tuple[EvictingTaint, ...]:
        """Return the evicting taints of a device that its driver has published."""
        parts = self._newest_slices((device.driver, device.pool))
        return next((part.taints[device.device] for part in parts if device.device in part.taints), ())

    def count_selected(self, rule: DeviceTaintRule) -> int:
        """Return the number of published devices that a rule selects."""
        return sum(
            rule.selects(driver, pool, device.name)
            for driver, pool in self._pools
            for part in self._newest_slices((driver, pool))
            for device in part.source.spec.devices
        )

    def apply(self, old: ResourceSlice | None, new: ResourceSlice | None) -> Iterable[DeviceId]:
        """Add, replace or remove a slice, and return the devices whose evicting taints have changed."""
        pools = {_pool(each) for each in (old, new) if each is not None}
        before = {pool: self._effective(pool) for pool in pools}
        if old is not None:
            self._remove(old)
        if new is not None:
            part = _SliceTaints(new, dict(_evicting_taints(new)))
            self._pools.setdefault(_pool(new), {})[new.metadata.name] = part
            self._tainted += bool(part.taints)
        return [device for pool in pools for device in self._changed(pool, before[pool])]

    def _remove(self, source: ResourceSlice) -> None:
        pool = self._pools.get(_pool(source), {})
        part = pool.pop(source.metadata.name, None)
        self._tainted -= part is not None and bool(part.taints)
        if not pool:
            self._pools.pop(_pool(source), None)

    def _newest_slices(self, pool: _Pool) -> list[_SliceTaints]:
        parts = self._pools.get(pool, {}).values()
        newest = max((part.source.spec.pool.generation for part in parts), default=0)
        return [part for part in parts if part.source.spec.pool.generation == newest]

    def _effective(self, pool: _Pool) -> _Taints:
        return {name: taints for part in self._newest_slices(pool) for name, taints in part.taints.items()}

    def _changed(self, pool: _Pool, before: _Taints) -> Iterator[DeviceId]:
        after = self._effective(pool)
        for name in before.keys() | after.keys():
            if before.get(name) != after.get(name):
                yield DeviceId(*pool, name)


def _pool(source: ResourceSlice) -> _Pool:
    return source.spec.driver, source.spec.pool.name


def _evicting_taints(source: ResourceSlice) -> Iterator[tuple[str, tuple[EvictingTaint, ...]]]:
    for device in source.spec.devices:
        source_name = f"ResourceSlice {source.metadata.name}, device {device.name}"
        taints = tuple(
            EvictingTaint(taint, source_name) for taint in device.taints if taint.effect == "NoExecute"
        )
        if taints:
            yield device.name, taints
