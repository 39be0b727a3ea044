"""The pools of the cluster as scheduling sees them, computed on demand after a change."""

import asyncio

from dradriver.allocator import Inventory
from dradriver.control.pools.ready_pools import ReadyPools
from dradriver.control.runtime.caches import Caches
from dradriver.control.taints.tainted_slices import TaintedSlices
from dradriver.kube import ChangeKind
from dradriver.model.resource.taint_rule import DeviceTaintRule

__all__ = ["PoolIndex"]


class PoolIndex:
    """Slices with the taints of rules, and results that are kept between two calls.

    Create it before the caches are entered. The first `take` after a change computes the pools, in a thread.
    Pools with unchanged slices are not computed again.

    Attributes:
        inventory: all pools, as of the last `take`.
        ready: the places of devices that need no binding conditions, as of the last `take`.
    """

    def __init__(self, caches: Caches) -> None:
        self.inventory = Inventory.of(())
        self.ready = ReadyPools()
        self._caches = caches
        self._tainted = TaintedSlices()
        self._taken = 0
        self._changes = 1
        self._taking = asyncio.Lock()
        caches.slices.subscribe(lambda *_: self._changed())
        caches.rules.subscribe(self._rule_changed)

    async def take(self) -> None:
        """Update `inventory` and `ready` to the current slices."""
        async with self._taking:
            changes = self._changes
            if self._taken == changes:
                return
            published = list(self._caches.slices.items.values())
            rules = list(self._caches.rules.items.values())
            slices = await asyncio.to_thread(self._tainted.of, published, rules)
            self.inventory = await asyncio.to_thread(Inventory.of, slices, self.inventory)
            self.ready = await asyncio.to_thread(ReadyPools.of, self.inventory)
            self._taken = changes

    def _rule_changed(
        self, _kind: ChangeKind, old: DeviceTaintRule | None, new: DeviceTaintRule | None
    ) -> None:
        if old is None or new is None or old.spec != new.spec:
            self._changed()

    def _changed(self) -> None:
        self._changes += 1
