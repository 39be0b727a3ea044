"""Find the slices of each pool of the cluster."""

from collections import defaultdict
from collections.abc import Sequence

from dradriver.allocator.supply.devices_in_use import PoolKey
from dradriver.control.runtime.caches import Caches
from dradriver.kube import ChangeKind
from dradriver.model.resource.slices import ResourceSlice

__all__ = ["PoolIndex"]


class PoolIndex:
    """The slices of each pool. Create the index before the caches are entered."""

    def __init__(self, caches: Caches) -> None:
        self._slices: defaultdict[PoolKey, dict[str, ResourceSlice]] = defaultdict(dict)
        caches.slices.subscribe(self._slice_changed)

    def slices_of(self, key: PoolKey) -> Sequence[ResourceSlice]:
        """Return the slices of a pool, of all generations; empty if the pool does not exist.

        Args:
            key: driver and pool name.
        """
        return list(self._slices[key].values()) if key in self._slices else []

    def _slice_changed(self, _kind: ChangeKind, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        if old is not None:
            key = _key(old)
            self._slices[key].pop(old.metadata.name, None)
            if not self._slices[key]:
                del self._slices[key]
        if new is not None:
            self._slices[_key(new)][new.metadata.name] = new


def _key(source: ResourceSlice) -> PoolKey:
    return source.spec.driver, source.spec.pool.name
